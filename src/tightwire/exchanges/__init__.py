"""With whom. Each module's ``examples`` go through `tightwire.testing.exchanges`."""

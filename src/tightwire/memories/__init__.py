"""What happens to what was not sent. Each module's ``examples`` go through `tightwire.testing.memories`."""

"""In which bytes: one paper, one file. Each module's ``examples`` go through `tightwire.testing.codecs`."""

"""How the shared copy moves, what is sent to it, how it is taken. ``examples`` go through `tightwire.testing.rules`."""

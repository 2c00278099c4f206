"""When. Each module's ``examples`` go through `tightwire.testing.schedules`."""

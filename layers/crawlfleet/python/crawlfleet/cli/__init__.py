"""What people type: ``crawlfleet ...``. One module a command group."""

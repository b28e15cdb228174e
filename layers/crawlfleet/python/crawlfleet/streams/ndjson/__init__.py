"""Any HTTP stream of JSON lines as a channel (SPEC.md D8)."""

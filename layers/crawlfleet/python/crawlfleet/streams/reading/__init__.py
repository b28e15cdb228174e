"""Readers run: which channels this worker reads, under which holds, for whom (SPEC.md D1 to D5)."""

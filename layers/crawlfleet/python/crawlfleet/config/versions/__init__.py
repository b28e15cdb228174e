"""Versions of the configuration: who put what in force, and when (SPEC.md A3, H8)."""

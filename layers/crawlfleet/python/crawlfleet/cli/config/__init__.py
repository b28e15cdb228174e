"""Validate, compare, push and show a configuration (``crawlfleet config``)."""

"""Constructs, one capability a file; ``stacks/`` puts them together."""

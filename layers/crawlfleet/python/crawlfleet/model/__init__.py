"""The nouns: frozen values without I/O and without a clock. One noun, one file."""

"""The filtered stream of X's API v2 as a channel (SPEC.md D7).

Written from X's documentation, and never tried against X itself.
"""

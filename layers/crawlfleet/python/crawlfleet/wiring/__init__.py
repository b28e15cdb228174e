"""Putting the parts together: one module a function, and ``parts``, which opens what they share.

Everything is opened at first use and kept for the life of the environment, so that a warm call
opens nothing and a cold one opens only what its function needs.
"""

"""The request store: one verb of the life of a request a module."""

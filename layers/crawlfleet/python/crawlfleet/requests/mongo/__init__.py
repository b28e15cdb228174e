"""The request store in MongoDB: a few verbs of a request's life a module."""

"""The store of seeds in MongoDB."""

"""Worlds that tests assemble: a platform in memory, and the parts of a worker in it."""

"""A Redis of its own, as the functions' tests have it."""

from tests.functions.conftest import own_redis

__all__ = ["own_redis"]

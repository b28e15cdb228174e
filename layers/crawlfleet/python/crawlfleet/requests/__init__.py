"""Requests: their store in MongoDB, their queue in Redis, their ends."""

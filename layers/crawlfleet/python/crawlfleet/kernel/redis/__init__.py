"""Connections to Redis, alone or as a cluster, and their scripts."""

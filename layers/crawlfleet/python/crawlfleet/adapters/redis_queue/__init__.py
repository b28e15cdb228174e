"""Queues, workers and worker numbers on Redis 6.2 or later.

Every state change is one script of ``scripts/``; ``keys.py`` is the dictionary of what they touch.
"""

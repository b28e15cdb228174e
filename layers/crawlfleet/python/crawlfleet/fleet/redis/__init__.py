"""The fleet in Redis: workers, scaling targets, ticks, bizs."""

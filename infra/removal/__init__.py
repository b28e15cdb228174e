"""Leaving a stage: what stands in the way, and taking up again what was kept of it."""

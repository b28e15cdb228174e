"""The web console's own part of a stage: its files, and sessions that stand for API keys."""

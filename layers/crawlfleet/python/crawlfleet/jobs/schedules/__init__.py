"""Schedules: cron lines and what they start."""

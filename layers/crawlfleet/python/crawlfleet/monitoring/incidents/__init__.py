"""Incidents: detection, lifecycle, notifications."""

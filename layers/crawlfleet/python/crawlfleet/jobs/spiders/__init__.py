"""Spiders: versions and their starts."""

"""Trials of a rule on one page."""

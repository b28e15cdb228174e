"""Examine a deployment from outside (``crawlfleet doctor``)."""

"""Explanations of a request or a URL."""

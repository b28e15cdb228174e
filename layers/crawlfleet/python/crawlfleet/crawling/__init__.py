"""Crawling: from a URL to records."""

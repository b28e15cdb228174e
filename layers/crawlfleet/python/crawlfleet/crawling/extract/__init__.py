"""Extraction: rules, selectors, transforms, links."""

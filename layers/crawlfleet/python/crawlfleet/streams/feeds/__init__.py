"""Feeds: RSS, Atom and JSON Feed, each fetched once a round however many subscribe (SPEC.md D6)."""

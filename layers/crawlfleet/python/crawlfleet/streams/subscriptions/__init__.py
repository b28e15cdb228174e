"""Subscriptions: who wants what of which stream, kept on the home node (SPEC.md D3, D5)."""

"""Tenants as things that operators manage: added, changed, suspended, given other keys."""

"""Ceilings of tenants: what stands against more of one, and how much it has."""

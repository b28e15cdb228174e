"""``crawlfleet tenant``: manage tenants, and copy what they have."""

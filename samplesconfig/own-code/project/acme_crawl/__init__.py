"""Code of one's own for Crawlfleet: two executors, a seed-key resolver, a segment resolver."""

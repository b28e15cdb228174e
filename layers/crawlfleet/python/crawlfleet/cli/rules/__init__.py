"""Write and try rules (``crawlfleet rule``, ``shell``, ``init``)."""

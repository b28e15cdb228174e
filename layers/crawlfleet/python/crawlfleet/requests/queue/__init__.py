"""The request queue: priorities, leases, deferred requests, figures."""

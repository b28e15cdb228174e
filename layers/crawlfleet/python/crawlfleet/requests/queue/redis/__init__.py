"""The request queue in Redis: its keys, leases, rebuild and figures."""

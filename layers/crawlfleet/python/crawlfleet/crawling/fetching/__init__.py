"""Fetching: names, connections, proxies, cookies, hops, bodies."""

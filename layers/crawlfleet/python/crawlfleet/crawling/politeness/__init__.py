"""Politeness: limits of hosts, adaptive rates, robots.txt."""

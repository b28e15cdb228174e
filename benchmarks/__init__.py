"""Measure Crawlfleet beside the floor and its peers: ``python -m benchmarks``, `make bench`.

Every comparison runs all its sides in one sitting, in turns, on servers of its own; what is quoted
are ratios. ``benchmarks/out/latest.json`` keeps the figures, ``details.json`` every round.
"""

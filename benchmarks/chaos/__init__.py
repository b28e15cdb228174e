"""Chaos: the fleet crawls a site that counts, while everything it stands on is killed.

The proof that nothing is lost (SPEC.md A5-A9, C5, D1, D2, D12, D13, H1). Real servers, consumers in
processes of their own over the product's own wiring, and an audit at the end: each accepted request
is done exactly once, each record is there once, and pages were downloaded again only where a worker
died with them in its hands. Tests run it in short forms, ``make chaos`` for as long as one likes,
and the benchmarks take from it how long a recovery is.
"""

"""Crawlfleet: a serverless platform for collecting web data.

Read :mod:`crawlfleet.flows` first: each module there is one journey, read top to bottom.
"""

__version__ = "0.1.0"

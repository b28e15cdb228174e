"""Crawlfleet: a serverless platform for collecting web data.

Its rooms, each of which sees those to its right alone: ``apps``, ``api``, ``monitoring``,
``scrapy``, ``worker``, ``jobs``, ``fleet``, ``crawling``, ``requests``, ``config``, ``kernel``.
Read ``worker.worker`` first: a request's life, from its lease to its records.
"""

__version__ = "0.1.0"

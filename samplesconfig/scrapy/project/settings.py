"""A Scrapy project that shares its crawls over a fleet's Redis.

Run it on as many machines as you like, each with the same two lines::

    export CRAWLFLEET_REDIS_URL=redis://127.0.0.1:6379/0 CRAWLFLEET_REDIS_PASSWORD=...
    scrapy crawl tools

Ctrl-C pauses it, and what is killed is taken over by the others within ``LEASE_SECONDS``.
"""

BOT_NAME = "garden"
SPIDER_MODULES = ["spiders"]

# Scheduler, dupefilter and, because of the biz, the pipeline.
ADDONS = {"crawlfleet.scrapy.Addon": 100}
CRAWLFLEET_TENANT = "default"
CRAWLFLEET_BIZ = "garden"
CRAWLFLEET_LEASE_SECONDS = 60

ROBOTSTXT_OBEY = True
DOWNLOAD_DELAY = 0.5
USER_AGENT = "GardenBot/1.0 (+https://garden.example/bot)"

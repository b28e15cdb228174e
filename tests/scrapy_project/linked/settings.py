"""Nothing here is about crawling itself but the lines that join the project to a fleet."""

import os

BOT_NAME = "linked"
SPIDER_MODULES = ["linked.spiders"]

ADDONS = {"crawlfleet.scrapy.Addon": 100}
CRAWLFLEET_TENANT = os.environ.get("LINKED_TENANT", "default")
CRAWLFLEET_BIZ = "docs"
CRAWLFLEET_LEASE_SECONDS = 3

ROBOTSTXT_OBEY = False
TELNETCONSOLE_ENABLED = False
CONCURRENT_REQUESTS = 8
CONCURRENT_REQUESTS_PER_DOMAIN = 8
DOWNLOAD_DELAY = 0
RETRY_TIMES = 5
LOG_LEVEL = "INFO"

"""A Scrapy project as anybody might have one: it crawls a site by its links."""

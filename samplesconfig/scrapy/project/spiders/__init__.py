"""The spiders; the executor `scrapy` finds them where the consumer carries this package."""

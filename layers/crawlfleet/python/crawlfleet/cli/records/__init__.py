"""Read records, and how many of their fields are filled (``crawlfleet records``)."""

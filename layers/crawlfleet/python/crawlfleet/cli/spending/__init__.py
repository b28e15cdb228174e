"""``crawlfleet quota``, ``cost`` and ``job forecast``: what may be used, what work costs."""

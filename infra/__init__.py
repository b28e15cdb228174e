"""The fleet on AWS by ``app.py``, on one machine by ``local/``; ``fleet.py`` describes both."""

"""Where the fleet runs: on AWS by CDK (``app.py``), on one machine by ``local/``, both from ``fleet.py``."""

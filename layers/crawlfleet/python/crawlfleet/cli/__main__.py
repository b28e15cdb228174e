"""``python -m crawlfleet.cli``."""

from crawlfleet.cli.main import main

main()

"""Names tests use of the wrapped AWS clients."""

from crawlfleet.adapters import aws
from crawlfleet.adapters.aws import client, region_of
from crawlfleet.adapters.secrets import Secrets

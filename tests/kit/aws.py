"""Names tests use of the wrapped AWS clients."""

from crawlfleet.kernel.aws import clients as aws
from crawlfleet.kernel.aws.clients import Secrets, client, region_of

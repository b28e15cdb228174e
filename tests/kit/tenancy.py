"""Names tests use of the management of tenants."""

from crawlfleet.tenancy import models
from crawlfleet.tenancy.keys import KeyFile
from crawlfleet.tenancy.models import ManagedKey

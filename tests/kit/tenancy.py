"""Names tests use of the management of tenants."""

from crawlfleet.tenancy import models
from crawlfleet.tenancy import mongo as mongo_inventory
from crawlfleet.tenancy.api_gateway import ApiGatewayKeys
from crawlfleet.tenancy.keys import KeyFile
from crawlfleet.tenancy.models import ManagedKey
from crawlfleet.tenancy.mongo import MongoInventory
from crawlfleet.tenancy.own_edits import FIELDS, May, refusals
from crawlfleet.tenancy.redis import RedisInventory, owner_of
from crawlfleet.tenancy.removal import begun, state_of
from crawlfleet.tenancy.secrets import SecretInventory
from crawlfleet.tenancy.service import IN_FORCE_SECONDS

"""The ports of watching and recovery, which every worker and the scheduler have."""

from crawlfleet.adapters.mongo.disowning import MongoDisowning
from crawlfleet.adapters.mongo.journal import MongoJournal
from crawlfleet.adapters.mongo.pools import MongoPoolBook
from crawlfleet.adapters.redis_queue.filling import RedisFilling
from crawlfleet.adapters.redis_queue.lease_book import RedisLeaseBook
from crawlfleet.adapters.redis_queue.watch import RedisWatch
from crawlfleet.flows.recovery_ports import RecoveryPorts, WatchPorts
from crawlfleet.ports import Hosts
from crawlfleet.wiring.parts import Parts


def recovery_ports(parts: Parts) -> RecoveryPorts:
    """Everything on the real parts."""
    return RecoveryPorts(
        store=parts.store,
        ledgers=parts.ledgers,
        disowning=MongoDisowning(parts.nodes),
        queue=parts.queue,
        filling=RedisFilling(parts.redis),
        book=RedisLeaseBook(parts.redis),
        watch=RedisWatch(parts.redis),
        journal=MongoJournal(parts.nodes),
        pools=MongoPoolBook(parts.nodes),
        warn=parts.warn,
    )


def watch_ports(recovery: RecoveryPorts, hosts: Hosts) -> WatchPorts:
    """The same parts, as far as a look at the workers needs them, and the turns at hosts."""
    return WatchPorts(
        watch=recovery.watch,
        book=recovery.book,
        queue=recovery.queue,
        hosts=hosts,
        disowning=recovery.disowning,
        journal=recovery.journal,
        warn=recovery.warn,
    )

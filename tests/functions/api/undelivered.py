"""Items of subscriptions that are given up, as the deliverer leaves them."""

from datetime import UTC, datetime, timedelta

from tests.kit.streams import (
    Addressed,
    Item,
    MongoAccepting,
    MongoLeasing,
    Reason,
    StreamItem,
    Subscriber,
    Target,
    TargetKind,
    delivery_key,
    item_key,
)
from tests.kit.worlds.functions import World

STREAM = Target(TargetKind.REDIS_STREAM, "items")


def an_undelivered_item(
    world: World,
    tenant: str,
    biz: str,
    id_: str = "1",
    name: str = "all",
    replies_to: str = "",
    channel: str = "news",
) -> str:
    """Have an item be accepted and given up; return the id of its message."""
    now = datetime.now(UTC)
    nodes = world.own.nodes
    item = StreamItem(
        id=id_,
        channel=channel,
        seen=Item(text=f"rain {id_}", author="reuters"),
        received_at=now,
        replies_to=replies_to,
    )
    whose = Subscriber(tenant=world.tenants[tenant], biz=biz, name=name, target=STREAM)
    MongoAccepting(nodes).accept([Addressed(item=item, subscribers=(whose,))], now)
    leasing, key = MongoLeasing(nodes), delivery_key(item_key(channel, id_), whose)
    # Receivers of other tests may be due, too.
    while lease := leasing.lease("d1", now, timedelta(minutes=1)):
        for one in leasing.due(lease, now, 1_000):
            if one.key == key:
                leasing.bury({one: (Reason.REFUSED, "InvalidMessageContents")}, now)
                leasing.rest(lease, now, slow=False)
                return one.id
    raise AssertionError("the item is not pending")


def a_taken_item(
    world: World, tenant: str, biz: str, id_: str, name: str = "all", minutes: float = 1
) -> None:
    """Have an item be accepted some minutes ago, to be kept and pushed nowhere."""
    at = datetime.now(UTC) - timedelta(minutes=minutes)
    seen = Item(text=f"rain {id_}", author="reuters")
    item = StreamItem(id=id_, channel="news", seen=seen, received_at=at)
    whose = Subscriber(tenant=world.tenants[tenant], biz=biz, name=name)
    MongoAccepting(world.own.nodes).accept([Addressed(item=item, subscribers=(whose,))], at)


def forget_deliveries(world: World) -> None:
    """Forget what another test has left: the world is one for all."""
    for name in ("stream_items", "stream_deliveries", "stream_receivers"):
        of_tenants = {"tenant": {"$in": [*world.tenants.values()]}}
        world.own.nodes.control(name).delete_many({"$or": [of_tenants, {"channel": "news"}]})

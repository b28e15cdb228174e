"""Looking at Redis and the MongoDB nodes (SPEC.md A11): figures, and whether they answer at all."""

import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from crawlfleet.kernel.errors import CrawlfleetError
from crawlfleet.kernel.mongo.connection import MongoNodes, border
from crawlfleet.kernel.redis.connection import RedisConnection
from crawlfleet.requests.queue.stats import NodeHealth

if TYPE_CHECKING:
    from redis import Redis

    from crawlfleet.monitoring.store_figures import Figures


log = logging.getLogger(__name__)

#: How long a node may take for a ping: the others are waiting too.
PING_SECONDS: Final = 2.0
_REDIS: Final = "redis"


class PartHealth:
    """ports.Health over the stage's Redis and its nodes.

    The router only asks whether they answer: what reads figures is imported by who reads them.
    """

    def __init__(
        self, redis: RedisConnection, nodes: MongoNodes, names: Callable[[], tuple[str, ...]]
    ) -> None:
        self._redis = redis
        self._nodes = nodes
        self._names = names

    def look(self) -> Iterator[NodeHealth]:
        """Each part, one after the other."""
        for look in self.looks().values():
            yield look()

    def looks(self) -> dict[tuple[str, str], Callable[[], NodeHealth]]:
        """See ports.Health.looks."""
        found = {
            ("redis", name): partial(_look, "redis", name, figures)
            for name, figures in self._redis_looks().items()
        }
        for node in self._nodes_known():
            figures = partial(self._node_figures, node)
            found["mongodb", node] = partial(_look, "mongodb", node, figures)
        return dict(found)

    def answers(self) -> dict[str, str]:
        """``ok`` or not, by part; quick enough for a health check.

        Anybody may ask that, so the reason, which names addresses, goes to the log.
        """
        found = {"redis": _state("redis", self._redis.ping)}
        for node in self._names():
            found[f"mongodb:{node}"] = _state(f"mongodb:{node}", partial(self._ping, node))
        return found

    def _nodes_known(self) -> tuple[str, ...]:
        try:
            return self._names()
        except CrawlfleetError:  # no configuration yet: nobody knows of nodes, Redis there may be
            return ()

    def _redis_looks(self) -> "dict[str, Callable[[], Figures]]":
        """One for each server that has keys. A single one is called ``redis``, wherever it is."""
        try:
            nodes = self._redis.nodes()
        except CrawlfleetError as error:
            return {_REDIS: partial(_raise, error)}
        if len(nodes) == 1:
            return {_REDIS: partial(self._redis_figures, nodes[0][1])}
        return {name: partial(self._redis_figures, client) for name, client in nodes}

    def _redis_figures(self, client: "Redis") -> "Figures":
        from crawlfleet.monitoring import redis as redis_figures

        return redis_figures.look(self._redis, client)

    def _ping(self, node: str) -> None:
        with border(PING_SECONDS):
            self._nodes.client(node).admin.command("ping")

    def _node_figures(self, node: str) -> "Figures":
        from crawlfleet.monitoring import mongo as mongo_figures

        return mongo_figures.look(self._nodes.client(node))


def _look(part: str, name: str, ask: Callable[[], "Figures"]) -> NodeHealth:
    try:
        figures = ask()
    except CrawlfleetError as error:
        return NodeHealth(part=part, name=name, up=False, error=str(error))
    return NodeHealth(
        part=part,
        name=name,
        up=True,
        figures=figures.found,
        missing=figures.missing,
        unread=tuple(sorted(figures.unread)),
    )


def _raise(error: CrawlfleetError) -> "Figures":
    raise error


def _state(part: str, look: Callable[[], object]) -> str:
    try:
        look()
    except CrawlfleetError as error:
        log.warning("a part is not well", extra={"part": part, "reason": str(error)})
        return "does not answer" if error.retryable else "is not set up"
    return "ok"

"""A batch taken apart: which of its members live on which node, in which shard."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import TypeAlias, TypeVar

from crawlfleet.errors import StoreError
from crawlfleet.model.biz import Biz
from crawlfleet.model.ids import RequestId
from crawlfleet.policy.routing import Shard, route

T = TypeVar("T")
R = TypeVar("R")

#: The members of a batch by shard.
ByShard: TypeAlias = dict[Shard, list[T]]


def by_node(
    biz: Biz, things: Iterable[T], key: Callable[[T], tuple[RequestId, datetime]]
) -> dict[str, ByShard[T]]:
    """The things by node and shard; ``key`` gives a thing's id and time of queueing."""
    nodes: dict[str, ByShard[T]] = defaultdict(lambda: defaultdict(list))
    for thing in things:
        request_id, queued_at = key(thing)
        shard = route(biz, request_id, queued_at)
        nodes[shard.node][shard].append(thing)
    return nodes


def on_nodes(
    nodes: dict[str, ByShard[T]], work: Callable[[str, ByShard[T]], R]
) -> tuple[list[R], list[StoreError]]:
    """Do the work of every node, all at once: one that does not answer costs the others nothing.

    Returns what the nodes gave, and the errors of those that gave none.
    """
    done: list[R] = []
    failed: list[StoreError] = []
    if len(nodes) == 1:
        waits = [lambda one=one: work(*one) for one in nodes.items()]
        _gather(waits, done, failed)
    elif nodes:
        with ThreadPoolExecutor(len(nodes), thread_name_prefix="mongo-node") as pool:
            futures = [pool.submit(work, node, parts) for node, parts in nodes.items()]
            _gather([future.result for future in futures], done, failed)
    return done, failed


def _gather(waits: Iterable[Callable[[], R]], done: list[R], failed: list[StoreError]) -> None:
    for wait in waits:
        try:
            done.append(wait())
        except StoreError as error:
            failed.append(error)

"""A batch taken apart by shard or node, and what is done with the parts, all at once.

A shard's share of a batch is small, and most of its time is a wait for the majority's journal. One
after the other, eight shards take twice as long as one; at once, they take as long.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import cache, partial
from typing import Final, TypeAlias, TypeVar

from pymongo.errors import ConnectionFailure

from crawlfleet.errors import StoreError
from crawlfleet.model.biz import Biz
from crawlfleet.model.ids import RequestId
from crawlfleet.policy.routing import Shard, route

T = TypeVar("T")
R = TypeVar("R")

#: The members of a batch by shard.
ByShard: TypeAlias = dict[Shard, list[T]]
#: What routes a thing: its request's id and time of queueing.
Key: TypeAlias = Callable[[T], tuple[RequestId, datetime]]

#: Parts of batches that are worked on at once, over all batches of the process.
CREW: Final = 8


def by_shard(biz: Biz, things: Iterable[T], key: Key[T]) -> ByShard[T]:
    """The things by the shard they are routed to."""
    parts: ByShard[T] = defaultdict(list)
    for thing in things:
        request_id, queued_at = key(thing)
        parts[route(biz, request_id, queued_at)].append(thing)
    return parts


def by_node(biz: Biz, things: Iterable[T], key: Key[T]) -> dict[str, ByShard[T]]:
    """The things by node, then by shard."""
    nodes: dict[str, ByShard[T]] = defaultdict(dict)
    for shard, part in by_shard(biz, things, key).items():
        nodes[shard.node][shard] = part
    return nodes


def on_shards(
    parts: ByShard[T], work: Callable[[Shard, list[T]], R]
) -> tuple[list[R], list[tuple[list[T], StoreError]]]:
    """Do the work of every shard; one that fails costs the others nothing.

    Of a node that does not answer, shards that were not begun are given up with it: waiting for the
    same node again would only make the caller wait.

    Returns what the shards gave, and the parts that failed with their errors.
    """
    down: dict[str, StoreError] = {}

    def one(shard: Shard, part: list[T]) -> R:
        if shard.node in down:
            raise down[shard.node]
        try:
            return work(shard, part)
        except StoreError as error:
            if isinstance(error.__cause__, ConnectionFailure):
                down[shard.node] = error
            raise

    return _at_once([(part, partial(one, shard, part)) for shard, part in parts.items()])


def on_nodes(
    nodes: dict[str, ByShard[T]], work: Callable[[str, ByShard[T]], R]
) -> tuple[list[R], list[tuple[ByShard[T], StoreError]]]:
    """Do the work of every node; one that fails costs the others nothing."""
    return _at_once([(parts, partial(work, node, parts)) for node, parts in nodes.items()])


def _at_once(
    tasks: Sequence[tuple[T, Callable[[], R]]],
) -> tuple[list[R], list[tuple[T, StoreError]]]:
    done: list[R] = []
    failed: list[tuple[T, StoreError]] = []
    # The caller's own thread does the last one instead of waiting; a single one needs no crew.
    waits = [(part, _crew().submit(task).result) for part, task in tasks[:-1]]
    for part, wait in [*tasks[-1:], *waits]:
        try:
            done.append(wait())
        except StoreError as error:
            failed.append((part, error))
    return done, failed


@cache
def _crew() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(CREW, thread_name_prefix="mongo")

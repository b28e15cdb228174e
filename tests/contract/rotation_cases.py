"""A node whose secret changes while stores are in use, and what calls to it come to."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
from typing import Any
from uuid import uuid4

from tests.kit.ids import MongoCounter
from tests.kit.kernel import CrawlfleetError, StoreUnavailableError
from tests.kit.mongo import MongoNodes, Waits, border, in_transaction

RIGHTS = ["readWriteAnyDatabase"]


class Secret:
    """A node's secret as the secret store has it, and how often it was read."""

    def __init__(self, address: str, user: str, password: str) -> None:
        self._address = address
        self.put(user, password)
        self.reads = 0
        self.failure: CrawlfleetError | None = None

    def put(self, user: str, password: str) -> None:
        self.uri = self._address.format(user=f"{user}:{password}@")

    def read(self, node: str) -> str:
        self.reads += 1
        if self.failure is not None:
            raise self.failure
        return self.uri


@contextmanager
def in_use(secret: Secret, waits: Waits | None = None) -> Iterator[MongoNodes]:
    nodes = MongoNodes(secret.read, lambda: "home", waits=waits or Waits())
    try:
        work(nodes)
        yield nodes
    finally:
        nodes.close()


def work(nodes: MongoNodes) -> None:
    """Write: a counter of the control database counts on."""
    MongoCounter(nodes).reserve("rotation", uuid4().hex, 1)


def settle(client: Any, name: str, begun: Event | None = None, go_on: Event | None = None) -> None:
    """Count in two documents, in one transaction that waits in its middle where it is told to."""

    def write(session: Any) -> None:
        things = session.client["cf_rotation"][name]
        for number in (1, 2):
            things.update_one({"_id": number}, {"$inc": {"n": 1}}, upsert=True, session=session)
            if number == 1 and begun is not None and go_on is not None and not begun.is_set():
                begun.set()
                go_on.wait(60)

    with border():
        in_transaction(client, write)


def settled(client: Any, name: str) -> list[int]:
    return [one["n"] for one in client["cf_rotation"][name].find().sort("_id")]


def outcomes(nodes: MongoNodes, calls: int = 2) -> list[str]:
    """Make so many calls, one after the other; return their ends."""
    found = []
    for _ in range(calls):
        try:
            work(nodes)
        except StoreUnavailableError:
            found.append("refused")
        else:
            found.append("done")
    return found

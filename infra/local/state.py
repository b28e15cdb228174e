"""The state folder of a local cloud: who serves it, where it answers, and what it keeps.

==================  ==============================================================================
``local.json``      the addresses, while it runs and from the last time (ports are used again)
``lock``            held by the serving process for as long as it lives
``keys.json``       the API keys
``config.json``     parameters and secrets, see ``control_plane.py``
``redis/ mongo/``   the stores' data
``logs/``           one log for each part and each function
``dead-letters/``   events that a function failed on
``notifications/``  what people and machines were told, see ``notifications.py``
==================  ==============================================================================
"""

import fcntl
import json
import os
import shlex
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from crawlfleet.kernel.names import ENV_STATE
from infra.local.parts import PartError, free_port, port_is_free

STAGE: Final = "local"

#: A log above this size is set aside at the next start, replacing the one set aside before.
_LOG_LIMIT_BYTES: Final = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """The addresses of a running local cloud."""

    pid: int
    stage: str
    api_url: str
    api_key: str
    redis_url: str
    mongo_uri: str
    aws_endpoint_url: str
    lambda_endpoint_url: str
    region: str
    log_dir: str
    pools: tuple[str, ...] = ()


#: The state folder of the checkout, which `make` takes where nothing else is said.
_OWN: Final = Path(__file__).resolve().parents[2] / ".crawlfleet"


def hint(verb: str, folder: Path) -> str:
    """Write the command that does something to the local cloud of a folder: up, down, status."""
    if folder == _OWN:
        return f"make {verb}"
    state = shlex.quote(str(folder))
    return (
        f"make {verb} STATE={state}" if verb == "status" else f"crawlfleet {verb} --state {state}"
    )


def export_hint(folder: Path) -> str:
    """Write how commands find the local cloud of a folder from anywhere; none for the usual one."""
    if folder == _OWN:
        return ""
    state = shlex.quote(str(folder))
    return f"`export {ENV_STATE}={state}` has commands find it from anywhere.\n"


class StateFolder:
    """The folder and what is found where in it."""

    def __init__(self, path: Path) -> None:
        """Use ``path``, made on first use."""
        self.path = path.resolve()
        self.addresses_path = self.path / "local.json"
        self.keys_path = self.path / "keys.json"
        self.config_path = self.path / "config.json"
        self.log_dir = self.path / "logs"
        self.notifications_dir = self.path / "notifications"
        self.lock_path = self.path / "lock"

    def make(self) -> None:
        """Make the folder, for its owner only: it holds keys."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.log_dir.mkdir(exist_ok=True)

    def set_long_logs_aside(self) -> None:
        """Rename logs that have grown too long."""
        for log in self.log_dir.glob("*.log"):
            if log.stat().st_size > _LOG_LIMIT_BYTES:
                log.replace(log.with_suffix(".log.1"))

    def is_served(self) -> bool:
        """Return whether a process serves this folder now."""
        if not self.lock_path.exists():
            return False
        try:
            with Lock(self):
                return False
        except PartError:
            return True

    def read(self) -> Addresses | None:
        """The addresses that were written last."""
        try:
            found = json.loads(self.addresses_path.read_text())
            return Addresses(**{**found, "pools": tuple(found.get("pools", ()))})
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, AttributeError):
            return None  # of another version, or cut off: the next start writes it anew

    def write(self, addresses: Addresses) -> None:
        """Publish the addresses, readable by the owner only."""
        fresh = self.addresses_path.with_suffix(".new")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            json.dump(asdict(addresses), file, indent=1)
            file.write("\n")
        fresh.replace(self.addresses_path)

    def port_of(self, url: str | None) -> int:
        """The port of an address of the last time if it is free, any free one otherwise."""
        if url is not None:
            port = url.partition("://")[2].partition("/")[0].rpartition(":")[2]
            if port.isdigit() and port_is_free(int(port)):
                return int(port)
        return free_port()


class Lock:
    """The serving process's hold on a folder; the system lets go when the process ends."""

    def __init__(self, folder: StateFolder) -> None:
        """Lock ``folder`` on entry."""
        self._folder = folder
        self._descriptor = -1

    def __enter__(self) -> Self:
        """Take hold.

        Raises:
            PartError: another process serves the folder.
        """
        descriptor = os.open(self._folder.lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise PartError(
                f"a local cloud already runs on {self._folder.path}; "
                f"`{hint('status', self._folder.path)}` shows it, "
                f"`{hint('down', self._folder.path)}` stops it"
            ) from None
        self._descriptor = descriptor
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Let go."""
        os.close(self._descriptor)

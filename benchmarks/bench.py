"""The environment of every benchmark, and the processes that do a side of its work."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pymongo
import redis

from benchmarks.scale import Scale

ROOT: Final = Path(__file__).resolve().parent.parent
PEERS: Final = Path(__file__).resolve().parent / "peers"

#: An interpreter that has what requirements/bench.txt pins.
ENV_PEERS: Final = "PEERS_PYTHON"
#: No side takes longer than this, on a machine with other work too.
_SIDE_SECONDS: Final = 900


class BenchError(RuntimeError):
    """A benchmark could not be run, or a side did not do the work that the others did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """The addresses of the run's own servers."""

    redis: str
    mongo: str

    def clear(self) -> None:
        """Empty both, but for what MongoDB keeps for itself."""
        with redis.Redis.from_url(self.redis) as client:
            client.flushall()
        with pymongo.MongoClient[dict[str, Any]](self.mongo) as mongo:
            for name in mongo.list_database_names():
                if name not in ("admin", "config", "local"):
                    mongo.drop_database(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """The surroundings of a run. ``peers`` is the peers' interpreter; None runs without them."""

    addresses: Addresses
    scale: Scale
    out: Path
    peers: Path | None
    tick: Callable[[str], None]

    def variables(self, **more: str) -> dict[str, str]:
        """Get the variables of a child process."""
        return {
            "BENCH_REDIS": self.addresses.redis,
            "BENCH_MONGO": self.addresses.mongo,
            **more,
        }


@dataclass(slots=True, kw_only=True)
class Found:
    """The results of a benchmark: figures for ``latest.json``, details for ``details.json``.

    ``notes`` are what has to be said beside a figure. ``rounds`` are the values that a figure is
    the median of, where they are told.
    """

    figures: dict[str, float] = field(default_factory=dict)
    rounds: dict[str, list[float]] = field(default_factory=dict)
    details: dict[str, object] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def ask(command: list[str], variables: Mapping[str, str]) -> dict[str, Any]:
    """Run one side in a process of its own; its last line of output is its answer in JSON.

    Raises:
        BenchError: it failed, or said nothing.
    """
    done = subprocess.run(
        command,
        env=environment(variables),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_SIDE_SECONDS,
        check=False,
    )
    return answer_in(done.stdout, done.stderr, f"{' '.join(command[-2:])} ({done.returncode})")


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Make the environment of a child process: ours, those variables, and the path of our code."""
    path = [str(ROOT / "layers/crawlfleet/python"), str(ROOT)]
    return {**os.environ, **variables, "PYTHONPATH": os.pathsep.join(path)}


def answer_in(out: str, err: str, who: str) -> dict[str, Any]:
    """The answer of a side: the last line of its output, in JSON.

    Raises:
        BenchError: there is none; quotes what there is.
    """
    try:
        answer: dict[str, Any] = json.loads(out.splitlines()[-1])
    except (IndexError, json.JSONDecodeError):
        raise BenchError(f"{who} gave no answer:\n{(err or out)[-2_000:]}") from None
    return answer


def peer(peers: Path | None, script: str) -> list[str]:
    """The command that runs a peer's script. The floor's run on our own interpreter."""
    python = sys.executable if script.startswith("floor_") else str(peers)
    return [python, str(PEERS / script)]

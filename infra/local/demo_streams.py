"""`make demo STREAM=1`: two subscribers share a stream, and its reader changes meanwhile.

A local cloud with two readers, a stream of made-up news, two subscriptions whose filters overlap.
The stream is read by one connection; halfway the process that has it is ended, and the other one
goes on. At the end each subscriber has what its filter takes, once.
"""

import asyncio
import json
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Final, Self, TypeVar

import boto3
import redis
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from crawlfleet.cli.config_folder import read_folder
from crawlfleet.config.publishing import write_tree
from crawlfleet.kernel import names
from crawlfleet.sdk import Client
from infra.local.aws_server import REGION
from infra.local.cloud import LocalCloud
from infra.local.parts import PartError
from infra.local.seeding import SAMPLES
from infra.local.state import STAGE
from infra.local.stream_server import Item, StreamServer, made_up

T = TypeVar("T")

TENANT: Final = "default"
BIZ: Final = "news"
CHANNEL: Final = "wire"
#: What each of the two wants; "storm" is wanted by both.
DESKS: Final = {"weather": ("storm", "rain"), "business": ("market", "storm")}
#: Items of the stream, and the one before which its reader is ended.
ITEMS: Final = 120
_HAND_OVER: Final = 60
#: Between two items.
_ITEM_SECONDS: Final = 0.05
_LOOK_SECONDS: Final = 0.02
#: Longest wait for any one thing, on a slow and busy machine.
DEADLINE_SECONDS: Final = 120.0


@dataclass(frozen=True, slots=True)
class Desk:
    """A subscriber: what it wants, what it was to get and got."""

    filter: str
    wanted: int
    got: int
    lost: int
    repeated: int


@dataclass(frozen=True, slots=True)
class Summary:
    """The output of `make demo STREAM=1 JSON=1`."""

    items: int
    connections: int
    most_at_once: int
    hand_over_seconds: float
    wanted_by_both: int
    desks: dict[str, Desk] = field(default_factory=dict)

    @property
    def is_right(self) -> bool:
        """Tell whether nothing was lost or repeated, by one connection at a time."""
        wrong = sum(desk.lost + desk.repeated for desk in self.desks.values())
        return not wrong and self.most_at_once == 1


class Stream:
    """A stream server in a thread of its own."""

    def __init__(self) -> None:
        self.server = StreamServer()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="stream", daemon=True)

    def __enter__(self) -> Self:
        """Serve."""
        self._thread.start()
        self._do(self.server.start())
        return self

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self._do(self.server.__aexit__())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def publish(self, item: Item) -> None:
        """Add an item."""
        self._do(self.server.publish(item.text, author=item.author, language="en"))

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        done: Future[T] = asyncio.run_coroutine_threadsafe(work, self._loop)
        return done.result(DEADLINE_SECONDS)


class Received:
    """Messages that have come for the desks, read from their Redis streams."""

    def __init__(self, client: Any) -> None:
        self._redis = client
        self.messages: dict[str, list[dict[str, Any]]] = {desk: [] for desk in DESKS}
        self._last = dict.fromkeys(DESKS, "-")

    def look(self) -> None:
        """Take what has come since the last look."""
        for desk, messages in self.messages.items():
            key = f"{TENANT}:streams:{desk}"
            for entry, fields in self._redis.xrange(key, self._last[desk]):
                messages.append(json.loads(fields[b"message"]))
                self._last[desk] = f"({entry.decode()}"

    def ids(self, desk: str) -> list[int]:
        """Return the numbers of the items that have come for a desk."""
        return [int(message["item"]["id"]) for message in self.messages[desk]]


def wanted(desk: str, texts: list[str]) -> set[int]:
    """Return the numbers of the items that a desk is to get, by its words alone."""
    return {
        number
        for number, text in enumerate(texts, start=1)
        if any(word in text for word in DESKS[desk])
    }


def push_stream(cloud: LocalCloud, url: str) -> None:
    """Put a biz, the channel and the targets of the tenant in force."""
    documents = read_folder(SAMPLES)
    stage = json.loads(documents[names.CONFIG_STAGE])
    stage["streams"] = {
        "channels": {
            CHANNEL: {"kind": "ndjson_stream", "url": url, "cursor_parameter": "since"},
        },
        "targets": {TENANT: [{"redis_stream": desk} for desk in DESKS]},
    }
    biz = f"bizs/{TENANT}/{BIZ}"
    news = read_folder(SAMPLES.parent / "streams")[biz]
    client: Any = boto3.client(
        "ssm",
        endpoint_url=cloud.aws_endpoint_url,
        region_name=REGION,
        aws_access_key_id="local",
        aws_secret_access_key="local",  # noqa: S106  moto asks for no secret
    )
    write_tree(client, STAGE, {**documents, names.CONFIG_STAGE: json.dumps(stage), biz: news})


def subscribe(client: Client) -> None:
    """Subscribe the desks."""
    for desk, words in DESKS.items():
        client.put_subscription(
            BIZ,
            desk,
            kind="ndjson_stream",
            channel=CHANNEL,
            filter=" OR ".join(words),
            deliver={"redis_stream": desk},
        )


@dataclass(frozen=True, slots=True)
class Leaving:
    """A reader that is ended: its process, the connections until then, and when."""

    process: int
    connections: int
    at: float


class Demo:
    """Publishes, looks at what comes, and ends the reader halfway."""

    def __init__(self, stream: Stream, store: Any, console: Console) -> None:
        self._stream, self._redis, self._console = stream, store, console
        self.received = Received(store)
        self.hand_over_seconds = 0.0
        self._leaving: Leaving | None = None

    def reader(self) -> int | None:
        """Return the process that has the stream, which its hold names."""
        for key in self._redis.scan_iter("cf:{hold:*}:hold"):
            if worker := self._redis.hget(key, "worker"):
                return int(worker.decode().split("-")[-2])
        return None

    def wait(self, holds: Callable[[], object], what: str) -> None:
        """Wait until it holds.

        Raises:
            PartError: it does not in time.
        """
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not holds():
            if time.monotonic() > deadline:
                raise PartError(f"{what}: not within {DEADLINE_SECONDS:.0f} s")
            time.sleep(_LOOK_SECONDS)

    def run(self) -> None:
        """Show it under a progress bar."""
        server = self._stream.server
        self.wait(lambda: server.asked, "nobody reads the stream")
        self._say(f"process {self.reader()} reads it, for both")
        with Progress(
            TextColumn("reading"),
            BarColumn(),
            MofNCompleteColumn(),
            *(TextColumn(f"{desk} {{task.fields[{desk}]}}") for desk in DESKS),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
        ) as progress:
            nothing: dict[str, Any] = dict.fromkeys(DESKS, 0)
            bar = progress.add_task("read", total=ITEMS, **nothing)

            def look() -> None:
                self.received.look()
                self._note_reader()
                counts: dict[str, Any] = {desk: len(self.received.ids(desk)) for desk in DESKS}
                progress.update(bar, completed=len(server.objects), **counts)

            for number, item in enumerate(islice(made_up(), ITEMS), start=1):
                if number == _HAND_OVER:
                    self._end_reader()
                self._stream.publish(item)
                look()
                time.sleep(_ITEM_SECONDS)

            texts = [one["text"] for one in server.objects]

            def is_complete() -> bool:
                look()
                return self._leaving is None and all(
                    wanted(desk, texts) <= set(self.received.ids(desk)) for desk in DESKS
                )

            self.wait(is_complete, "not all that is wanted was delivered")

    def _end_reader(self) -> None:
        """End the process that reads; items go on coming meanwhile."""
        reader = self.reader()
        if reader is None:
            raise PartError("nobody holds the stream")
        self._leaving = Leaving(reader, len(self._stream.server.asked), time.monotonic())
        os.kill(reader, signal.SIGTERM)

    def _note_reader(self) -> None:
        """Tell of the reader that has followed, once it is connected."""
        server, leaving = self._stream.server, self._leaving
        if leaving is None or len(server.asked) == leaving.connections:
            return
        self._leaving, self.hand_over_seconds = None, time.monotonic() - leaving.at
        query, _ = server.asked[-1]
        self._say(
            f"process {leaving.process} is ended; {self.reader()} goes on behind item"
            f" {query.get('since', '0')} after {self.hand_over_seconds:.1f} s"
        )

    def _say(self, text: str) -> None:
        self._console.print(f"  reader   {text}", soft_wrap=True, highlight=False)

    def summary(self) -> Summary:
        """Return the figures."""
        server = self._stream.server
        texts = [one["text"] for one in server.objects]
        desks = {}
        for desk, words in DESKS.items():
            ids, due = self.received.ids(desk), wanted(desk, texts)
            desks[desk] = Desk(
                filter=" OR ".join(words),
                wanted=len(due),
                got=len(ids),
                lost=len(due - set(ids)),
                repeated=len(ids) - len(set(ids)),
            )
        return Summary(
            items=len(texts),
            connections=len(server.asked),
            most_at_once=server.most_open,
            hand_over_seconds=round(self.hand_over_seconds, 3),
            wanted_by_both=len(set.intersection(*(wanted(desk, texts) for desk in DESKS))),
            desks=desks,
        )


def show(console: Console, summary: Summary, received: Received) -> None:
    """Print everything for people."""
    table = Table(title="What was read once, and delivered to two")
    for column in ("subscriber", "filter", "wanted", "delivered", "lost", "repeated"):
        table.add_column(column, justify="left" if column in {"subscriber", "filter"} else "right")
    for name, desk in summary.desks.items():
        figures = (desk.wanted, desk.got, desk.lost, desk.repeated)
        table.add_row(name, desk.filter, *(str(figure) for figure in figures))
    console.print(table)
    console.print(
        f"{summary.items} items, {summary.wanted_by_both} of them wanted by both;"
        f" {summary.connections} connections, {summary.most_at_once} at a time",
        highlight=False,
    )
    console.print("\n[bold]One of the messages[/bold]")
    console.print_json(json.dumps(received.messages[next(iter(DESKS))][-1]))


@contextmanager
def _scene(console: Console) -> Iterator[tuple[Stream, LocalCloud]]:
    console.print("starting Redis, MongoDB, the AWS control plane and the functions ...")
    with (
        tempfile.TemporaryDirectory(prefix="crawlfleet-demo-") as name,
        LocalCloud(Path(name) / "cloud", stream_readers=2) as cloud,
        Stream() as stream,
    ):
        yield stream, cloud


def run(*, as_json: bool) -> int:
    """Run the demo; return the exit code: 0 when nothing was lost or repeated."""
    console = Console(stderr=as_json)
    with _scene(console) as (stream, cloud):
        console.print(f"  API      {cloud.api_url}")
        console.print(f"  stream   {stream.server.url}, {ITEMS} items")
        push_stream(cloud, stream.server.url)
        with Client(cloud.api_url, cloud.api_key) as client:
            subscribe(client)
        with redis.Redis.from_url(cloud.redis_url) as store:
            demo = Demo(stream, store, console)
            demo.run()
        summary = demo.summary()
        show(console, summary, demo.received)
    console.print(
        "\neverything is stopped; `make up` keeps it running and reads what you subscribe to:"
        " docs/guides/streams.md",
        soft_wrap=True,
    )
    if as_json:
        sys.stdout.write(json.dumps(asdict(summary)) + "\n")
    return 0 if summary.is_right else 1

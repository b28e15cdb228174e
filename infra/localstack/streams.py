"""The journey's step about streams: two subscribers, a hand-over between functions, SQS.

A reader lives for a quarter of an hour. Here its function is given two minutes, so that a tick
starts a successor while the journey looks.
"""

import asyncio
import json
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import urlsplit

from crawlfleet.kernel import names
from crawlfleet.sdk import Client
from infra.aws_access import asked
from infra.local.parts import LOOPBACK
from infra.local.stream_server import StreamServer
from infra.localstack import settings
from infra.localstack.guarded import listening
from infra.localstack.hand import Hand
from infra.smoke.deployment import Deployment, log_group
from infra.smoke.logs import entries
from infra.steps import Step, StepError, wait_for

#: What the stage `localstack` lets its function send to begins with ``journey-``.
QUEUE: Final = "journey-items"
CHANNEL: Final = "wire"
#: The subscribers, by the word that each wants.
WANTED: Final = {"storms": "storm", "rains": "rain"}
#: 40 of these are for an orderly end, and a successor is wanted 60 before that.
SHORT_SECONDS: Final = 120
_WORD: Final = "read streams until the end"
_SOON: Final = 60.0
_HANDED_OVER: Final = 150.0
_DO: Final = "The log has the reader's faults; that of the scheduler says whom it has started."


class Stream:
    """A stream on this machine, served by a thread of its own.

    Attributes:
        url: Its address, as functions see it.
    """

    def __init__(self, host: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = StreamServer()
        address = self._run(self._server.start(listening(host)))
        self.url = f"http://{host}:{urlsplit(str(address)).port}/lines"
        self.texts: list[str] = []

    @property
    def is_open(self) -> bool:
        """Return whether somebody reads it."""
        return self._server.open > 0

    @property
    def connections(self) -> int:
        """Count the connections that were made."""
        return len(self._server.asked)

    def publish(self, *texts: str) -> None:
        """Say something."""
        self.texts += texts
        self._run(self._server.publish(*texts))

    def close(self) -> None:
        """End it."""
        self._run(self._server.__aexit__())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def _run(self, work: Any) -> Any:
        future: Future[Any] = asyncio.run_coroutine_threadsafe(work, self._loop)
        return future.result(30)


@contextmanager
def stream_beside(site: str) -> Iterator[Stream]:
    """Serve it at the host of a site that functions see."""
    stream = Stream(urlsplit(site).hostname or LOOPBACK)
    try:
        yield stream
    finally:
        stream.close()


class Streams:
    """A stream, its subscribers, and the queue that both have their items sent to."""

    def __init__(self, deployment: Deployment, client: Client, hand: Hand, stream: Stream) -> None:
        self._deployment, self._client = deployment, client
        self._hand, self._stream = hand, stream
        self._lambda = deployment.access.client("lambda")
        self._queue = deployment.access.client("sqs")
        self._function = names.function_name(deployment.stage, names.STREAMS)
        self._log = log_group(deployment.stage, names.STREAMS)
        self._url = ""
        self._got: Counter[tuple[str, str]] = Counter()
        self._ids: set[str] = set()

    @contextmanager
    def opened(self) -> Iterator[dict[str, Any]]:
        """Make the queue and give readers little time; yields the change of the stage document."""
        self._url = asked(f"making {QUEUE}", self._queue.create_queue, QueueName=QUEUE)["QueueUrl"]
        before = asked(
            f"reading {self._function}",
            self._lambda.get_function_configuration,
            FunctionName=self._function,
        )["Timeout"]
        self._give(SHORT_SECONDS)
        wire = {"kind": "ndjson_stream", "url": self._stream.url, "cursor_parameter": "since"}
        allowed = {names.DEFAULT_TENANT: [{"sqs": self._arn}]}
        try:
            yield {
                "streams": {
                    "channels": {CHANNEL: wire},
                    "targets": allowed,
                    "overlap_seconds": 1.0,
                }
            }
        finally:
            self._give(before)
            asked(f"removing {QUEUE}", self._queue.delete_queue, QueueUrl=self._url)

    def read(self, step: Step) -> None:
        """Subscribe twice; a tick starts one reader, which sends to each what it wants."""
        for name, word in WANTED.items():
            self._client.put_subscription(
                settings.BIZ,
                name,
                filter=word,
                channel=CHANNEL,
                kind="ndjson_stream",
                deliver={"sqs": self._arn},
            )
        self._hand.invoke(names.SCHEDULER)
        self._wait(lambda: self._stream.is_open, _SOON, "a reader connects to the stream")
        self._stream.publish("a storm", "rain", "the sun", "a storm with rain")
        self._wait(self._has_all, _SOON, "both subscribers have what they want")
        step.saw(f"{self._got.total()} messages for two subscribers of one connection")

    def handed_over(self, step: Step) -> None:
        """The scheduler starts a successor; what is said meanwhile comes once to each."""
        before, connections = len(self._ends()), self._stream.connections

        def is_done() -> bool:
            self._stream.publish(f"storm {len(self._stream.texts)}", "more rain")
            self._hand.invoke(names.SCHEDULER)
            return len(self._ends()) > before and self._stream.connections > connections

        self._wait(is_done, _HANDED_OVER, "a reader leaves, and another one reads on")
        self._stream.publish("the last storm", "the last rain")
        self._wait(self._has_all, _SOON, "nothing is lost between two readers")
        if twice := [each for each, count in self._got.items() if count > 1]:
            raise StepError(
                f"{len(twice)} items were delivered twice, under other ids: {twice[0]}",
                "streams/delivery/models.py makes ids of an item and its subscription.",
                self._log,
            )
        ended = self._ends()[before]
        step.saw(f"a reader has {ended['ended']} after {ended['seconds']} s, and nothing was lost")

    def ended(self, step: Step) -> None:
        """Without subscriptions readers end, and a tick starts none."""
        for name in WANTED:
            self._client.end_subscription(settings.BIZ, name)
        self._wait(lambda: not self._stream.is_open, _SOON, "nobody reads without subscribers")
        done = self._hand.invoke(names.SCHEDULER)
        if done.get("readers"):
            raise StepError(
                f"{done['readers']} readers were started, and nobody subscribes",
                "streams/reading/demand.py has what is asked for.",
                log_group(self._deployment.stage, names.SCHEDULER),
            )
        idle = "the last reader leaves, as nobody needs it"
        self._wait(lambda: any(one["ended"] == "idle" for one in self._ends()), 2 * _SOON, idle)
        step.saw("without subscribers there is no reader")

    @property
    def _arn(self) -> str:
        region = self._queue.meta.region_name
        return f"arn:aws:sqs:{region}:000000000000:{QUEUE}"

    def _ends(self) -> list[dict[str, Any]]:
        access = self._deployment.access
        return [one for one in entries(access, self._log) if one.get("message") == _WORD]

    def _has_all(self) -> bool:
        """Receive what is there; whether each subscriber has each text that it wants."""
        while found := self._queue.receive_message(
            QueueUrl=self._url, MaxNumberOfMessages=10, WaitTimeSeconds=0
        ).get("Messages"):
            for message in found:
                body = json.loads(message["Body"])
                if body["id"] not in self._ids:
                    self._ids.add(body["id"])
                    self._got[body["subscription"], body["item"]["id"]] += 1
                self._queue.delete_message(
                    QueueUrl=self._url, ReceiptHandle=message["ReceiptHandle"]
                )
        wanted = {
            (name, str(number))
            for number, text in enumerate(self._stream.texts, 1)
            for name, word in WANTED.items()
            if word in text
        }
        return set(self._got) == wanted

    def _give(self, seconds: int) -> None:
        asked(
            f"changing {self._function}",
            self._lambda.update_function_configuration,
            FunctionName=self._function,
            Timeout=seconds,
        )

        def is_done() -> bool:
            found = self._lambda.get_function_configuration(FunctionName=self._function)
            return bool(found.get("LastUpdateStatus", "Successful") == "Successful")

        self._wait(is_done, _SOON, f"{self._function} has {seconds} s")

    def _wait(self, holds: Any, seconds: float, what: str) -> None:
        wait_for(holds, seconds, what, _DO, log_group=self._log)

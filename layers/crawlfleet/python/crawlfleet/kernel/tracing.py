"""One trace of a request, from its submission to its records (SPEC.md H12).

A request's id decides whether it is traced and what its trace is called, so that whoever handles
it, or submits it a second time, comes to the same; a caller whose own trace is recorded has his
requests in that one instead. Spans go to X-Ray's daemon, which Lambda runs
beside each function, by UDP, and to a collector of OpenTelemetry by OTLP over HTTP. A span that
cannot be sent is lost: a connection, and each piece of an answer, is waited for :data:`SECONDS`,
and after a failure the collector is left alone for a while.
"""

import json
import logging
import re
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from crawlfleet.kernel.errors import CrawlfleetError
from crawlfleet.kernel.ids import RequestId
from crawlfleet.kernel.redaction import plain

#: Time-out of the collector, and how long it is left alone after a failure.
SECONDS: Final = 1.0
AGAIN_SECONDS: Final = 60.0
#: Texts of a span; X-Ray's daemon takes 64 KB at once.
_LONGEST: Final = 1_000
_XRAY_HEAD: Final = b'{"format": "json", "version": 1}\n'
#: What a collector answers that does not know who asks.
_REFUSALS: Final = frozenset({401, 403})
_log: Final = logging.getLogger(__name__)


class CollectorError(CrawlfleetError):
    """The collector of traces refused spans."""


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a trace; moments are epoch seconds.

    ``part`` tells spans of one trace apart; ``parent`` is the part that it belongs to, or
    ``within`` the id of a span of somebody else's.
    """

    trace: str
    part: str
    parent: str | None = None
    within: str | None = None
    name: str
    begun: float
    ended: float
    facts: Mapping[str, str | int | float] = {}
    error: str | None = None

    @property
    def id(self) -> str:
        """Sixteen hex digits, always the same for one part of a trace."""
        return span_id(self.trace, self.part)

    @property
    def parent_id(self) -> str | None:
        """Sixteen hex digits of the span that it belongs to; None of the first one."""
        return self.within if self.parent is None else span_id(self.trace, self.parent)


def span_id(trace: str, part: str) -> str:
    """Return the id of a part of a trace."""
    return blake2b(f"{trace}/{part}".encode(), digest_size=8).hexdigest()


#: Fibonacci hashing: multiples of it fill 64 bits evenly, whatever the ids have in common.
_EVENLY: Final = 0x9E3779B97F4A7C15
_BITS: Final = 2**64


def sampled(ids: Sequence[RequestId], share: float) -> set[RequestId]:
    """Return the ids whose requests are traced: those of a greater share are these and more.

    It is asked for each request that is submitted, so it calls nothing for ids that are numbers.

    >>> len(sampled(range(10_000), 0.01)), sampled([7], 1.0), sampled([7], 0.0)
    (101, {7}, set())
    """
    below = int(share * _BITS)
    if not below:
        return set()
    return {
        one for one in ids if (one if type(one) is int else _number(one)) * _EVENLY % _BITS < below
    }


def _number(request_id: object) -> int:
    return int.from_bytes(blake2b(str(request_id).encode(), digest_size=8).digest())


def trace_of(owner: str, request_id: object, seconds: float) -> str:
    """Return the 32 hex digits of a request's trace.

    The first eight are the time, as X-Ray wants it.

    >>> trace_of("acme/docs", 7, 1_800_000_000.5)[:8]
    '6b49d200'
    """
    digest = blake2b(f"{owner}/{request_id}".encode(), digest_size=12).digest()
    return f"{int(seconds):08x}{digest.hex()}"


class Caller(msgspec.Struct, frozen=True):
    """The caller's trace, and the span in it that a submission belongs to."""

    trace: str
    span: str


#: Of later versions what this one knows is read, and what follows is left alone (W3C, 3.2.4).
_TRACEPARENT: Final = re.compile(
    r"(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?"
)


def caller_of(traceparent: str | None) -> Caller | None:
    """Read a ``traceparent`` (W3C Trace Context); None where its trace is not recorded, or wrong.

    >>> caller_of("00-" + "ab" * 16 + "-" + "cd" * 8 + "-01").span
    'cdcdcdcdcdcdcdcd'
    >>> caller_of("00-" + "ab" * 16 + "-" + "cd" * 8 + "-00"), caller_of("nonsense")
    (None, None)
    """
    found = _TRACEPARENT.fullmatch((traceparent or "").strip())
    if found is None or (found[1] == "00" and found[5] is not None) or not int(found[4], 16) & 1:
        return None
    return Caller(found[2], found[3])


def xray_id(trace: str) -> str:
    """Return a trace's id as X-Ray writes it.

    >>> xray_id("6b49d200" + "0" * 24)
    '1-6b49d200-000000000000000000000000'
    """
    return f"1-{trace[:8]}-{trace[8:]}"


def trace_url(trace: str, template: str | None = None) -> str:
    """Return where a trace is shown: by a ``template``, or AWS in the region chosen there.

    >>> trace_url("6b49d200", "https://traces.example/t/{trace}")
    'https://traces.example/t/6b49d200'
    """
    if template is not None:
        return template.replace("{trace}", trace)
    return f"https://console.aws.amazon.com/cloudwatch/home#xray:traces/{xray_id(trace)}"


def as_segment(span: Span) -> bytes:
    """Write a span as a document of X-Ray."""
    document: dict[str, Any] = {
        "trace_id": xray_id(span.trace),
        "id": span.id,
        "name": f"crawlfleet {span.name}",
        "start_time": span.begun,
        "end_time": max(span.begun, span.ended),
        "annotations": {key: _text(value) for key, value in span.facts.items()},
    }
    if span.parent_id is not None:
        document["parent_id"] = span.parent_id
    if span.error is not None:
        document |= {"fault": True, "metadata": {"error": plain(span.error, _LONGEST)}}
    return _XRAY_HEAD + json.dumps(document).encode()


def as_otlp(spans: Sequence[Span]) -> bytes:
    """Write spans as OTLP's JSON."""
    written = [
        {
            "traceId": span.trace,
            "spanId": span.id,
            "parentSpanId": span.parent_id or "",
            "name": span.name,
            "kind": 1,
            "startTimeUnixNano": str(int(span.begun * 1e9)),
            "endTimeUnixNano": str(int(max(span.begun, span.ended) * 1e9)),
            "attributes": [
                {"key": key, "value": {"stringValue": str(_text(value))}}
                for key, value in span.facts.items()
            ],
            "status": {}
            if span.error is None
            else {"code": 2, "message": plain(span.error, _LONGEST)},
        }
        for span in spans
    ]
    service = {"key": "service.name", "value": {"stringValue": "crawlfleet"}}
    scoped = [{"scope": {"name": "crawlfleet"}, "spans": written}]
    found = {"resourceSpans": [{"resource": {"attributes": [service]}, "scopeSpans": scoped}]}
    return json.dumps(found).encode()


def _text(value: str | float) -> str | int | float:
    return plain(value, _LONGEST) if isinstance(value, str) else value


class Tracer:
    """Sends spans; threads may share it. Without addresses it sends nothing.

    ``xray`` is ``host:port`` of the daemon; ``otlp`` returns the address of a collector, below
    which ``/v1/traces`` is: it may change. ``headers`` returns what is said to that collector
    besides, read anew where it is asked to: the collector has refused what it was.
    """

    def __init__(
        self,
        xray: str | None = None,
        otlp: Callable[[], str | None] = lambda: None,
        headers: Callable[..., Mapping[str, str]] = lambda _address, *, renew: {},  # noqa: ARG005
    ) -> None:
        self._daemon = None if xray is None else (xray.rpartition(":")[0], xray.rpartition(":")[2])
        self._otlp = otlp
        self._headers = headers
        # The collector that failed, and when it is tried again.
        self._failed: str | None = None
        self._later = float("-inf")

    @property
    def sends(self) -> bool:
        """Return whether anybody receives spans."""
        return self._daemon is not None or self._otlp() is not None

    def send(self, spans: Sequence[Span]) -> None:
        """Send spans; a failure is logged, and costs nobody anything else."""
        if not spans:
            return
        try:
            self._to_daemon(spans)
        except (OSError, ValueError) as error:
            _log.warning("spans were not sent to X-Ray's daemon: %s", type(error).__name__)
        collector = self._otlp()
        if collector is None or (collector == self._failed and time.monotonic() < self._later):
            return
        try:
            self._to_collector(collector, as_otlp(spans))
            self._failed = None
        except (OSError, ValueError, CrawlfleetError) as error:
            self._failed = collector
            self._later = time.monotonic() + AGAIN_SECONDS
            # Of others' errors no text: it may quote a header.
            why = str(error) if isinstance(error, CrawlfleetError) else type(error).__name__
            _log.warning("spans were not sent to the collector: %s", why)

    def _to_daemon(self, spans: Sequence[Span]) -> None:
        if self._daemon is None:
            return
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sending:
            sending.settimeout(0.0)
            for span in spans:
                sending.sendto(as_segment(span), (self._daemon[0], int(self._daemon[1])))

    def _to_collector(self, address: str, content: bytes) -> None:
        headers = self._headers(address, renew=False)
        status = _posted(address, content, headers)
        if status in _REFUSALS and headers:
            renewed = self._headers(address, renew=True)
            if renewed != headers:
                status = _posted(address, content, renewed)
        if status >= 300:
            raise CollectorError(f"it answered {status}")


def _posted(address: str, content: bytes, headers: Mapping[str, str]) -> int:
    from http.client import HTTPConnection, HTTPException, HTTPSConnection

    place = urlsplit(address)
    kind = HTTPSConnection if place.scheme == "https" else HTTPConnection
    connection = kind(place.hostname or "", place.port, timeout=SECONDS)
    try:
        path = f"{place.path.rstrip('/')}/v1/traces"
        said = {"Content-Type": "application/json", **headers}
        connection.request("POST", path, content, said)
        return connection.getresponse().status
    except HTTPException as error:
        raise ValueError("no HTTP") from error
    finally:
        connection.close()


#: For whoever traces nothing.
NO_TRACER: Final = Tracer()

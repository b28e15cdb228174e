"""Transport of one call: sent, tried again where that is safe, answered or failed.

What is tried again:

* *never sent* (no connection could be made): every call;
* *429 or 503*: every call, because these answers say that nothing was done. ``Retry-After`` is
  honoured as long as it is within :attr:`Retries.patience_seconds`. A quota that is used up is
  raised at once: something has to be ended or deleted first;
* *sent, but no whole answer* (time-out while reading, connection reset, 502, 504): every call too.
  Reading and deleting may be repeated; a submission carries a key under which it is one.

A caller with :class:`Patience` waits out any number of 429, which say that a biz has as much as it
may, until its own time is up.

Redirects are not followed: they would carry the key to wherever they lead.
"""

import email.utils
import logging
import random
import ssl
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final, Protocol

import msgspec
import requests
import urllib3
from requests.adapters import HTTPAdapter
from requests.auth import AuthBase

from crawlfleet.sdk.address import Address
from crawlfleet.sdk.errors import LATER, UnreachableError, error_of, is_passing, read_problem

_log = logging.getLogger("crawlfleet.sdk")

KEY_HEADER: Final = "x-api-key"
IF_NONE_MATCH: Final = "if-none-match"
#: No answer of the API is larger.
_MAX_ANSWER_BYTES: Final = 64 * 1024 * 1024
_READ_BYTES: Final = 64 * 1024
#: Most seconds between two tries of a caller that waits for room, whatever Retry-After says: a
#: backlog falls unevenly, and an estimate from it may be far too long.
LONGEST_PAUSE_FOR_ROOM: Final = 30.0
#: Answers that promise that nothing was done.
_NOTHING_DONE: Final = frozenset({429, 503})
#: Failures before the first byte of the request left this machine.
_NEVER_SENT: Final = (
    urllib3.exceptions.NewConnectionError,
    urllib3.exceptions.ConnectTimeoutError,
    urllib3.exceptions.ProxyError,
    ssl.SSLCertVerificationError,
)
#: Failures that another try may not meet again.
_PASSING: Final = (
    requests.ConnectionError,
    requests.Timeout,
    requests.exceptions.ChunkedEncodingError,
    requests.exceptions.ContentDecodingError,
    urllib3.exceptions.HTTPError,
)


class Clock(Protocol):
    """The clock; the module :mod:`time` is one."""

    def monotonic(self) -> float:
        """Return seconds that never step back."""
        ...

    def sleep(self, seconds: float, /) -> None:
        """Let that many seconds pass."""
        ...


class Timeouts(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds for the connection, for each silence, and for one try as a whole."""

    connect_seconds: float = 5.0
    read_seconds: float = 30.0
    total_seconds: float = 60.0


class Retries(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of the retries of a call: their number and delays.

    Pauses double from ``base_seconds`` to ``max_seconds`` and carry jitter. A server that asks for
    more than ``patience_seconds`` is not waited for.
    """

    attempts: int = 5
    base_seconds: float = 0.2
    max_seconds: float = 10.0
    patience_seconds: float = 60.0

    def pause(self, attempt: int, retry_after: float | None) -> float:
        """Seconds to wait after the given attempt, counted from 1."""
        if retry_after is not None:
            return retry_after
        longest = min(self.max_seconds, self.base_seconds * 2.0 ** (attempt - 1))
        return longest * random.uniform(0.5, 1.0)  # noqa: S311  jitter keeps no secret


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """The wait for answers of 429 to pass: until ``until``, by the clock's ``monotonic``.

    ``on_pause`` is called with each pause, in seconds, before it is made.
    """

    until: float
    on_pause: Callable[[float], None]


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """A success; ``etag`` is the tag of its body, empty where the server gives none."""

    status: int
    body: bytes
    etag: str = ""


class _KeyAuth(AuthBase):
    """Puts the key on each request, so that no session, dictionary or repr holds it."""

    def __init__(self, key: str) -> None:
        self._key = key

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers[KEY_HEADER] = self._key
        return request

    def __repr__(self) -> str:
        return "<api key>"

    def redact(self, text: str) -> str:
        """Remove the key from a text that may echo it."""
        return text.replace(self._key, "***")


class Transport:
    """A session with the API. Threads may share it."""

    def __init__(
        self,
        address: Address,
        timeouts: Timeouts,
        retries: Retries,
        *,
        clock: Clock = time,
        user_agent: str = "crawlfleet-sdk",
        max_answer_bytes: int = _MAX_ANSWER_BYTES,
    ) -> None:
        self._max_answer_bytes = max_answer_bytes
        self._base = address.api_url
        self._auth = _KeyAuth(address.api_key)
        self._timeouts = timeouts
        self._retries = retries
        self._clock = clock
        self._session = requests.Session()
        self._session.auth = self._auth
        self._session.trust_env = not address.on_this_machine
        self._session.headers.update({"accept": "application/json", "user-agent": user_agent})
        adapter = HTTPAdapter(max_retries=0, pool_maxsize=16)
        self._session.mount("http://", adapter)
        self._session.mount("https://", adapter)

    def __repr__(self) -> str:
        return f"Transport({self._base!r})"

    def close(self) -> None:
        """Close the connections."""
        self._session.close()

    def call(
        self,
        method: str,
        path: str,
        *,
        params: dict[str, str] | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        lost: list[str] | None = None,
        patience: Patience | None = None,
    ) -> Answer:
        """Send one call and return its success; 304 is one where ``headers`` have a tag.

        ``lost`` collects, also when an error is raised, why tries failed that may have been
        carried out all the same: their effect can have come before the answer returned here.

        Raises:
            RejectedError: refused, by kind.
            ApiError: any other answer.
            UnreachableError: no connection or no whole answer, tried as often as allowed.
        """
        lost = [] if lost is None else lost
        attempt = 1
        while True:
            retry_after: float | None = None
            try:
                status, content, retry_after, etag = self._send(method, path, params, body, headers)
            except (requests.RequestException, urllib3.exceptions.HTTPError) as error:
                why = in_words(error)
                if not _never_sent(error):
                    lost.append(why)
                if attempt >= self._retries.attempts or not _passing(error):
                    raise UnreachableError(f"{self._base}: {why}") from error
            else:
                unchanged = status == 304 and IF_NONE_MATCH in (headers or {})
                if 200 <= status < 300 or unchanged:
                    return Answer(status=status, body=content, etag=etag)
                problem = read_problem(status, content, self._auth.redact)
                why = f"{status} {problem}"
                if status in LATER and status not in _NOTHING_DONE:
                    lost.append(why)
                if status == 429 and patience is not None:
                    left = patience.until - self._clock.monotonic()
                    if left <= 0:
                        raise error_of(status, problem, retry_after)
                    pause = self._retries.pause(attempt, retry_after)
                    pause = min(pause, LONGEST_PAUSE_FOR_ROOM, left)
                    patience.on_pause(pause)
                    self._clock.sleep(pause)
                    continue
                too_long = (retry_after or 0.0) > self._retries.patience_seconds
                passes = is_passing(status, problem) and not too_long
                if not passes or attempt >= self._retries.attempts:
                    raise error_of(status, problem, retry_after)
            pause = self._retries.pause(attempt, retry_after)
            _log.info("%s %s: %s; trying again in %.2f s", method, path, why, pause)
            self._clock.sleep(pause)
            attempt += 1

    def redact(self, text: str) -> str:
        """Remove the key from a text."""
        return self._auth.redact(text)

    def _send(
        self,
        method: str,
        path: str,
        params: dict[str, str] | None,
        body: bytes | None,
        headers: Mapping[str, str] | None,
    ) -> tuple[int, bytes, float | None, str]:
        """Try once: status, whole body, the seconds that ``Retry-After`` asks for, the tag."""
        ends_at = self._clock.monotonic() + self._timeouts.total_seconds
        with self._session.request(
            method,
            self._base + path,
            params=params,
            data=body,
            headers={
                **({"content-type": "application/json"} if body is not None else {}),
                **(headers or {}),
            },
            timeout=(self._timeouts.connect_seconds, self._timeouts.read_seconds),
            allow_redirects=False,
            stream=True,
        ) as response:
            parts, size = [], 0
            # read1 returns what has come: a server that drips cannot hold us past the whole.
            while part := response.raw.read1(_READ_BYTES, decode_content=True):
                parts.append(part)
                size += len(part)
                if size > self._max_answer_bytes:
                    raise urllib3.exceptions.ResponseError("the answer is too large")
                if self._clock.monotonic() > ends_at:
                    raise requests.ReadTimeout("the answer took too long as a whole")
            retry_after = _retry_after(response.headers.get("retry-after"))
            if 300 <= response.status_code < 400:
                to = self._auth.redact(response.headers.get("location", "nowhere"))
                said = {"title": f"redirects to {to}; give that address if it is meant"}
                return response.status_code, msgspec.json.encode(said), retry_after, ""
            etag = response.headers.get("etag", "")
            return response.status_code, b"".join(parts), retry_after, etag


def _never_sent(error: BaseException) -> bool:
    """Tell whether the failure came before the request left, as far as the drivers know."""
    if isinstance(error, requests.ConnectTimeout) or not isinstance(error, _PASSING):
        return True
    return any(isinstance(cause, _NEVER_SENT) for cause in causes(error))


def _passing(error: BaseException) -> bool:
    """Tell whether another try may succeed: a wrong certificate stays wrong."""
    if not isinstance(error, _PASSING) or isinstance(error, urllib3.exceptions.ResponseError):
        return False
    return not any(isinstance(cause, ssl.SSLCertVerificationError) for cause in causes(error))


def causes(error: BaseException) -> list[BaseException]:
    """List an exception and its causes, which requests has as arguments, urllib3 as ``reason``."""
    found: list[BaseException] = []
    waiting = [error]
    while waiting and len(found) < 16:
        one = waiting.pop()
        found.append(one)
        inner = (getattr(one, "reason", None), one.__cause__, *one.args)
        waiting.extend(each for each in inner if isinstance(each, BaseException))
    return found


def in_words(error: BaseException) -> str:
    """Describe a failure by its kind; its own text may quote secrets."""
    kinds: tuple[tuple[type[BaseException] | tuple[type[BaseException], ...], str], ...] = (
        (requests.ConnectTimeout, "no connection in time"),
        (urllib3.exceptions.NameResolutionError, "unknown host name"),
        (urllib3.exceptions.SSLError, "no trusted TLS connection"),
        (urllib3.exceptions.ProxyError, "the proxy does not answer"),
        (ConnectionRefusedError, "connection refused"),
        (urllib3.exceptions.NewConnectionError, "no connection"),
        (
            (requests.ReadTimeout, urllib3.exceptions.ReadTimeoutError),
            "no whole answer in time",
        ),
        (urllib3.exceptions.DecodeError, "the answer's compression is broken"),
        (urllib3.exceptions.ResponseError, "the answer is too large"),
    )
    found = causes(error)
    for kind, text in kinds:
        if any(isinstance(cause, kind) for cause in found):
            return text
    return "the connection broke off" if isinstance(error, _PASSING) else "not a usable URL"


def _retry_after(value: str | None) -> float | None:
    """Read the seconds of Retry-After: a number, or an HTTP date."""
    if value is None:
        return None
    if value.strip().isascii() and value.strip().isdecimal():
        return float(value)
    try:
        moment = email.utils.parsedate_to_datetime(value)
    except ValueError:
        return None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, (aware - datetime.now(UTC)).total_seconds())

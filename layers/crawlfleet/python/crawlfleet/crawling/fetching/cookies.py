"""Keep the cookies of jobs: the standard library's jar with browsers' bounds and rules.

``http.cookiejar`` knows the syntax, dates, paths and domains. Added here: nobody sets a cookie for
a public suffix (``co.uk``), for another IP address, or a secure one over http; the prefixes
``__Host-`` and ``__Secure-`` hold (RFC 6265bis); and everything is bounded.

A jar is loaded from Redis before its first request, and exchanged with what other workers saved at
most every few seconds while it is used. No page waits for a Redis that is unavailable.
"""

import asyncio
import ipaddress
import logging
import time
from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from http.cookiejar import Cookie, CookieJar, DefaultCookiePolicy
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec
from multidict import CIMultiDict
from yarl import URL

from crawlfleet.kernel.errors import StoreError
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.kernel.urls import problem_with_headers

if TYPE_CHECKING:
    from crawlfleet.crawling.fetching.redis import RedisSessions

#: Of one cookie, its name and value; of the header that is sent.
MAX_COOKIE_BYTES: Final = 4_096
MAX_HEADER_BYTES: Final = 16_384
#: Cookies of one domain, and of a jar.
MAX_OF_DOMAIN: Final = 50
MAX_COOKIES: Final = 300
#: Of a whole jar as it is saved.
MAX_JAR_BYTES: Final = 131_072


class SavedCookie(msgspec.Struct, frozen=True, array_like=True):
    """A cookie as it is saved."""

    domain: str
    path: str
    name: str
    value: str | None
    for_subdomains: bool
    secure: bool
    expires: int | None

    @property
    def key(self) -> tuple[str, str, str]:
        """Identify the cookie."""
        return self.domain, self.path, self.name


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(list[SavedCookie]).decode


class Jar:
    """The cookies of one job of one tenant."""

    def __init__(self) -> None:
        self._jar = CookieJar(_Rules())
        self._synced: dict[tuple[str, str, str], SavedCookie] = {}
        self._merged: dict[tuple[str, str, str], SavedCookie] = {}

    def header(self, url: URL) -> str:
        """Make the ``Cookie`` header of a request; empty without cookies for it."""
        asked = _Asked(url)
        self._jar.add_cookie_header(cast("Any", asked))
        if len(asked.cookies) <= MAX_HEADER_BYTES:
            return asked.cookies
        return asked.cookies[:MAX_HEADER_BYTES].rpartition("; ")[0]

    def learn(self, url: URL, set_cookies: Sequence[str]) -> None:
        """Keep the cookies that an answer from ``url`` may set."""
        clean = [said for said in set_cookies if not problem_with_headers({"Set-Cookie": said})]
        self._jar.extract_cookies(cast("Any", _Answered(clean)), cast("Any", _Asked(url)))
        self._bound()

    @property
    def changed(self) -> bool:
        """Check for anything to save."""
        return self._now() != self._synced

    def merge(self, saved: bytes | None) -> bytes:
        """Merge the cookies that others saved; return what to save, then call :meth:`exchanged`.

        Cookies set here since the last exchange win, those deleted here are gone; for the rest the
        others know better. A cookie that a site deleted at another worker alone may live on here
        until the site says so again.
        """
        now = self._now()
        changed = {key: kept for key, kept in now.items() if self._synced.get(key) != kept}
        deleted = self._synced.keys() - now.keys()
        merged = now | {kept.key: kept for kept in _read(saved)} | changed
        self._jar.clear()
        for key, kept in merged.items():
            if key not in deleted:
                self._jar.set_cookie(_cookie(kept))
        self._bound()
        self._merged = self._now()
        return _encode(list(self._merged.values()))

    def exchanged(self) -> None:
        """Note that what :meth:`merge` returned last is saved, or was no different."""
        self._synced = self._merged

    def _now(self) -> dict[tuple[str, str, str], SavedCookie]:
        self._jar.clear_expired_cookies()
        return {kept.key: kept for kept in map(_kept, self._jar)}

    def _bound(self) -> None:
        """Drop the oldest cookies: of the domains with too many, then of them all."""
        kept = list(self._jar)
        size, count = sum(map(_size, kept)), len(kept)
        of_domain = Counter(cookie.domain for cookie in kept)
        for cookie in kept:
            domain = cookie.domain
            if of_domain[domain] > MAX_OF_DOMAIN or count > MAX_COOKIES or size > MAX_JAR_BYTES:
                self._jar.clear(domain, cookie.path, cookie.name)
                of_domain[domain] -= 1
                count -= 1
                size -= _size(cookie)


class _Rules(DefaultCookiePolicy):
    def __init__(self) -> None:
        super().__init__(
            netscape=True, rfc2965=False, strict_ns_domain=DefaultCookiePolicy.DomainStrictNonDomain
        )

    def set_ok(self, cookie: Cookie, request: Any) -> bool:
        """Check that the answer may set this cookie."""
        return (
            _size(cookie) <= MAX_COOKIE_BYTES
            and bool(super().set_ok(cookie, request))
            and (not cookie.secure or request.type == "https")
            and _prefix_holds(cookie)
        )

    def set_ok_domain(self, cookie: Cookie, request: Any) -> bool:
        """Check that the answer may set cookies for this domain."""
        if not super().set_ok_domain(cookie, request):
            return False
        if not cookie.domain_specified:
            return True
        domain = cookie.domain.removeprefix(".")
        if _is_address(request.host):
            return bool(domain == request.host)
        return not _suffixes().is_public(domain)


def _prefix_holds(cookie: Cookie) -> bool:
    name = cookie.name.lower()
    if name.startswith("__host-"):
        return cookie.secure and not cookie.domain_specified and cookie.path == "/"
    return not name.startswith("__secure-") or cookie.secure


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True


@cache
def _suffixes() -> Any:
    from publicsuffixlist import PublicSuffixList

    return PublicSuffixList()


class _Asked:
    """A request as ``http.cookiejar`` reads one."""

    unverifiable = False

    def __init__(self, url: URL) -> None:
        self._url = str(url.with_fragment(None))
        self.type = url.scheme
        self.host = url.host_subcomponent or ""
        self.origin_req_host = self.host
        self.cookies = ""

    def get_full_url(self) -> str:
        return self._url

    def has_header(self, _name: str) -> bool:
        return False

    def get_header(self, _name: str, default: str | None = None) -> str | None:
        return default

    def add_unredirected_header(self, _name: str, value: str) -> None:
        self.cookies = value


class _Answered:
    """An answer as ``http.cookiejar`` reads one."""

    def __init__(self, set_cookies: Iterable[str]) -> None:
        self._set_cookies = list(set_cookies)

    def info(self) -> "_Answered":
        return self

    def get_all(self, name: str, default: object = None) -> object:
        return self._set_cookies if name == "Set-Cookie" else default


def _size(cookie: Cookie) -> int:
    return len(cookie.name) + len(cookie.value or "") + len(cookie.path) + len(cookie.domain)


def _kept(cookie: Cookie) -> SavedCookie:
    return SavedCookie(
        domain=cookie.domain,
        path=cookie.path,
        name=cookie.name,
        value=cookie.value,
        for_subdomains=cookie.domain_specified,
        secure=cookie.secure,
        expires=None if cookie.expires is None else int(cookie.expires),
    )


def _cookie(kept: SavedCookie) -> Cookie:
    return Cookie(
        version=0,
        name=kept.name,
        value=kept.value,
        port=None,
        port_specified=False,
        domain=kept.domain,
        domain_specified=kept.for_subdomains,
        domain_initial_dot=kept.domain.startswith("."),
        path=kept.path,
        path_specified=True,
        secure=kept.secure,
        expires=kept.expires,
        discard=kept.expires is None,
        comment=None,
        comment_url=None,
        rest={},
    )


def _read(saved: bytes | None) -> list[SavedCookie]:
    """Read saved cookies; none where they cannot be read, as those of a later version."""
    if not saved or len(saved) > 2 * MAX_JAR_BYTES:
        return []
    try:
        kept = _decode(saved)
    except msgspec.DecodeError:
        return []
    now = time.time()
    return [one for one in kept[:MAX_COOKIES] if one.expires is None or one.expires > now]


_log: Final = logging.getLogger(__name__)

#: Jobs whose jars are open at once.
MAX_JARS: Final = 256
#: The shortest time between two exchanges of a jar with Redis.
EXCHANGE_SECONDS: Final = 3.0


@dataclass(slots=True, eq=False)
class OpenJar:
    """A jar in use. ``exchanged_at`` is in the loop's time; ``loading`` ends when it is usable."""

    queue_key: QueueKey
    job: str
    jar: Jar = field(default_factory=Jar)
    exchanged_at: float = float("-inf")
    loading: asyncio.Task[None] | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def sent_with(self, headers: CIMultiDict[str], url: URL) -> CIMultiDict[str]:
        """Return the request's headers with the job's cookies after its own."""
        cookies = self.jar.header(url)
        if not cookies:
            return headers
        headers = headers.copy()
        own = headers.get("Cookie")
        headers["Cookie"] = f"{own}; {cookies}" if own else cookies
        return headers


@dataclass(slots=True, eq=False)
class Jars:
    """The jars of a worker by queue key and job; the least recently used are saved and closed.

    Without ``sessions`` they are kept in this worker alone.
    """

    sessions: "RedisSessions | None" = None
    exchange_seconds: float = EXCHANGE_SECONDS
    most: int = MAX_JARS
    _open: OrderedDict[tuple[QueueKey, str], OpenJar] = field(default_factory=OrderedDict)
    _due: set[OpenJar] = field(default_factory=set)
    _timer: asyncio.TimerHandle | None = None
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def open(self, queue_key: QueueKey, job: str) -> OpenJar:
        """Open the job's jar, with the cookies that other workers saved."""
        key = queue_key, job
        found = self._open.get(key)
        if found is None:
            found = self._open[key] = OpenJar(queue_key, job)
            if self.sessions is not None:
                found.loading = self._start(found)
            while len(self._open) > self.most:
                _, closed = self._open.popitem(last=False)
                self._due.discard(closed)
                if self.sessions is not None and closed.jar.changed:
                    self._start(closed)
        else:
            self._open.move_to_end(key)
            now = asyncio.get_running_loop().time()
            if found.loading is None and now - found.exchanged_at > self.exchange_seconds:
                self.exchange(found)  # before long: others may have new cookies
        if found.loading is not None:
            await asyncio.shield(found.loading)
            found.loading = None
        return found

    def exchange(self, opened: OpenJar) -> None:
        """Exchange the jar with Redis before long."""
        if self.sessions is None:
            return
        self._due.add(opened)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self.exchange_seconds, self._begin)

    async def close(self) -> None:
        """Save what has not been saved."""
        if self._timer is not None:
            self._begin()
        while self._tasks:
            await asyncio.gather(*self._tasks)
        if self._timer is not None:  # what could not be saved would be tried again
            self._timer.cancel()
            self._timer = None

    def _begin(self) -> None:
        self._timer = None
        due, self._due = self._due, set()
        for opened in due:
            self._start(opened)

    def _start(self, opened: OpenJar) -> asyncio.Task[None]:
        task = asyncio.create_task(self._exchange(opened))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _exchange(self, opened: OpenJar) -> None:
        sessions, jar = self.sessions, opened.jar
        if sessions is None:
            return
        async with opened.lock:
            opened.exchanged_at = asyncio.get_running_loop().time()
            try:
                saved = await asyncio.to_thread(sessions.load, opened.queue_key, opened.job)
                changed = jar.changed
                merged = jar.merge(saved)
                if changed:
                    await asyncio.to_thread(sessions.save, opened.queue_key, opened.job, merged)
                jar.exchanged()
            except StoreError as error:
                self.exchange(opened)
                about = {"job": opened.job}
                _log.warning("cookies of a job were not exchanged: %s", error, extra=about)

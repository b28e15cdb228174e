"""Redirects, followed by hand: what is asked next, and what of a request goes with it.

As browsers do it (RFC 9110, 15.4; the Fetch standard, 4.4), except that credentials in a place are
never sent: a site does not decide as whom we come. Nothing here touches the network.
"""

import re
from dataclasses import dataclass
from typing import Final

from multidict import CIMultiDict
from yarl import URL

from crawlfleet.adapters.http_request import HeaderBook, as_url, method_of, payload_of, url_of
from crawlfleet.errors import PageGoneError
from crawlfleet.model.biz import FetchLimits
from crawlfleet.model.recrawl import Validators
from crawlfleet.model.request import Body
from crawlfleet.policy.target import problem_with, problem_with_headers

#: The statuses that send on to another place, when they name one.
REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})

#: What says who we are stays with the origin that it was meant for.
_OF_THE_ORIGIN: Final = ("Authorization", "Cookie", "Cookie2")
#: What describes a body ends with it.
_OF_THE_BODY: Final = (
    "Content-Encoding",
    "Content-Language",
    "Content-Location",
    "Content-Type",
    "Content-MD5",
    "Digest",
)
_BLANK: Final = "".join(map(chr, range(0x21)))
_BEYOND_ASCII: Final = re.compile(rb"[\x80-\xff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hop:
    """One request on the way to a page. ``headers`` are not to be changed."""

    method: str
    url: URL
    headers: CIMultiDict[str]
    payload: bytes | None

    @property
    def host(self) -> str:
        """The host in its encoded form."""
        return self.url.raw_host or ""

    @property
    def asked(self) -> str:
        """The URL as it is asked for: without its fragment."""
        return str(self.url).partition("#")[0]


def first_hop(
    book: HeaderBook, body: Body, limits: FetchLimits, validators: Validators | None
) -> Hop:
    """What is asked first.

    Raises:
        PageGoneError: nobody may send this.
    """
    url, method = url_of(body), method_of(body)
    headers = book.headers_of(body, limits)
    if validators and method in {"GET", "HEAD"}:
        headers = _conditional(headers, validators)
    return Hop(method=method, url=url, headers=headers, payload=payload_of(body))


def next_hop(hop: Hop, status: int, place: str) -> Hop:
    """What is asked after ``hop`` was answered with a redirect to ``place``.

    Raises:
        PageGoneError: the place is none that may be asked for.
    """
    url = _place_of(hop.url, place)
    method, payload = hop.method, hop.payload
    dropped: tuple[str, ...] = ()
    if _turns_to_get(status, method):
        method, payload, dropped = "GET", None, _OF_THE_BODY
    if _origin(url) != _origin(hop.url):
        dropped = (*dropped, *_OF_THE_ORIGIN)
    headers = hop.headers
    if any(name in headers for name in dropped):
        headers = headers.copy()
        for name in dropped:
            headers.popall(name, None)
    return Hop(method=method, url=url, headers=headers, payload=payload)


def _turns_to_get(status: int, method: str) -> bool:
    if status == 303:
        return method not in {"GET", "HEAD"}
    return status in {301, 302} and method == "POST"


def _origin(url: URL) -> tuple[str, str | None, int | None]:
    return url.scheme, url.raw_host, url.port


def _place_of(base: URL, place: str) -> URL:
    try:
        url = as_url(_plain(place))
        if not url.scheme:  # with one it stands for itself, and has to name its host
            url = base.join(url)
        if url.raw_user is not None or url.raw_password is not None:
            url = url.with_user(None)
        problem = problem_with(str(url))
    except ValueError as error:
        said = str(error)[:200].encode(errors="replace").decode()
        raise PageGoneError(f"leads to no http or https page: {said!r}") from error
    if problem is not None or not url.raw_host:
        raise PageGoneError(f"leads to a place that {problem or 'has no host'}")
    if base.raw_fragment and not url.raw_fragment:
        url = url.with_fragment(base.fragment)
    return url


def _plain(place: str) -> str:
    """The header as text: raw bytes beyond ASCII become what their percent-encoding would be."""
    place = place.strip(_BLANK).replace("\t", "")
    if place.isascii():
        return place
    raw = place.encode("utf-8", "surrogateescape")
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return _BEYOND_ASCII.sub(lambda found: b"%%%02X" % ord(found[0]), raw).decode()


def _conditional(headers: CIMultiDict[str], validators: Validators) -> CIMultiDict[str]:
    """The headers with what asks for a page only if it has changed; bad validators are left out."""
    given = {"If-None-Match": validators.etag, "If-Modified-Since": validators.last_modified}
    headers = headers.copy()
    for name, value in given.items():
        if value and not problem_with_headers({name: value}):
            headers[name] = value
    return headers

"""Build the requests of a download: the first from tenant and biz, the next from redirects.

Redirects are followed as browsers do (RFC 9110, 15.4; the Fetch standard, 4.4), except that
credentials in a ``Location`` are never sent: a site does not decide as whom we come. Nothing here
touches the network; the fetcher and its in-memory fake share it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from multidict import CIMultiDict
from yarl import URL

from crawlfleet.config.documents.biz import FetchLimits
from crawlfleet.config.documents.secret import Secret
from crawlfleet.crawling.fetching.content_encoding import ACCEPT_ENCODING
from crawlfleet.kernel import urls
from crawlfleet.kernel.errors import PageGoneError
from crawlfleet.requests.models import Body
from crawlfleet.requests.visits import Validators

#: Characters that a URL must not hold raw (RFC 3986): only with them it is quoted.
_UNQUOTED: Final = re.compile(r"[^A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=%]|%(?![0-9A-Fa-f]{2})")
#: Configurations whose merged headers are kept.
_BOOK_LENGTH: Final = 256
NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


def method_of(body: Body) -> str:
    """Get the method in capitals; PageGoneError if it is not allowed."""
    if problem := urls.problem_with_method(body.method):
        raise PageGoneError(f"the method {problem}")
    return body.method.upper()


def url_of(body: Body) -> URL:
    """Append the request's params to its URL; PageGoneError if that is not allowed.

    A properly encoded URL stays as it is: requoting would turn ``?a=%2F`` into
    ``?a=/``, which breaks signatures. Params are plain text and are always encoded.

    >>> str(url_of(Body(url="http://a/?x=%2F", params={"q": "b c"}, rule="r", rule_version="1")))
    'http://a/?x=%2F&q=b+c'
    """
    if problem := urls.problem_with(body.url):
        raise PageGoneError(f"the URL {problem}")
    try:
        url = as_url(body.url)
        if not url.raw_host:
            raise PageGoneError("the URL has no valid host")
        return url.extend_query(body.params) if body.params else url
    except ValueError as error:
        raise PageGoneError(f"the URL is not valid: {error}") from error


def as_url(text: str) -> URL:
    """Parse a URL; if properly encoded it stays as it is, but for a lower-case host.

    No host may have two sets of slots. Raises ValueError if the text is no URL.
    """
    url = URL(text, encoded=_UNQUOTED.search(text) is None)
    host = url.raw_host
    return url if host is None or host == host.lower() else url.with_host(host.lower())


class HeaderBook:
    """Merge the headers of requests; those of each biz once."""

    def __init__(self) -> None:
        # By identity: the limits are not hashable, and live as long as a configuration does.
        self._of_biz: dict[int, tuple[FetchLimits, CIMultiDict[str]]] = {}

    def headers_of(
        self, body: Body, limits: FetchLimits, secrets: Mapping[str, str] = NOTHING
    ) -> CIMultiDict[str]:
        """Merge the biz's headers and the request's over them, without those of the connection.

        ``secrets`` are those of the biz's whose texts are secrets.

        The result must not be changed. Raises PageGoneError if a name or value would break out of
        its line.
        """
        known = self._of_biz.get(id(limits))
        if known is not None:
            of_biz = known[1]
        else:
            ours = {"User-Agent": limits.user_agent, "Accept-Encoding": ACCEPT_ENCODING}
            plain = {k: v for k, v in limits.headers.items() if isinstance(v, str)}
            of_biz = _merged(_merged(CIMultiDict(), ours), plain)
            if len(self._of_biz) >= _BOOK_LENGTH:
                self._of_biz.clear()
            self._of_biz[id(limits)] = limits, of_biz
        if secrets:
            of_biz = _merged(of_biz, secrets)
        return _merged(of_biz, body.headers) if body.headers else of_biz


def _merged(headers: CIMultiDict[str], given: Mapping[str, str]) -> CIMultiDict[str]:
    if problem := urls.problem_with_headers(given):
        raise PageGoneError(f"the header {problem}")
    merged = headers.copy()
    for name, value in given.items():
        if name.lower() not in urls.CONNECTION_HEADERS:
            merged[name] = value
    return merged


def payload_of(body: Body) -> bytes | None:
    """Encode the body in UTF-8, or None; PageGoneError for half a surrogate pair."""
    if body.body is None:
        return None
    try:
        return body.body.encode()
    except UnicodeEncodeError as error:
        raise PageGoneError(f"the body is not valid text: {error.reason}") from error


#: The statuses that redirect, with a ``Location``.
REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})

#: Credentials stay with the origin that they were meant for.
_OF_THE_ORIGIN: Final = ("Authorization", "Cookie", "Cookie2")
#: Headers that describe a body are dropped with it.
_OF_THE_BODY: Final = (
    *("Content-Encoding", "Content-Language", "Content-Location"),
    *("Content-Type", "Content-MD5", "Digest"),
)
_BLANK: Final = "".join(map(chr, range(0x21)))
_BEYOND_ASCII: Final = re.compile(rb"[\x80-\xff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hop:
    """A hop: one request on the way to a page. ``headers`` must not be changed.

    ``secret_headers`` names those whose values are secrets of the biz.
    """

    method: str
    url: URL
    headers: CIMultiDict[str] = field(repr=False)
    payload: bytes | None
    secret_headers: tuple[str, ...] = ()

    @property
    def host(self) -> str:
        """The host, encoded."""
        return self.url.raw_host or ""

    @property
    def asked(self) -> str:
        """The URL without its fragment."""
        return str(self.url).partition("#")[0]


def first_hop(
    book: HeaderBook,
    body: Body,
    limits: FetchLimits,
    validators: Validators | None,
    secrets: Mapping[str, str] = NOTHING,
) -> Hop:
    """Make the first hop; PageGoneError if the request is not allowed.

    ``secrets`` are the texts of ``limits.headers`` that refer to secrets, by the secret's name.
    """
    url, method = url_of(body), method_of(body)
    host = url.raw_host or ""
    secret_headers = {
        name: secrets[value.secret]
        for name, value in (limits.headers.items() if secrets else ())
        if isinstance(value, Secret) and value.is_for(host)
    }
    headers = book.headers_of(body, limits, secret_headers)
    if validators and method in {"GET", "HEAD"}:
        headers = _conditional(headers, validators)
    return Hop(
        method=method,
        url=url,
        headers=headers,
        payload=payload_of(body),
        secret_headers=tuple(secret_headers),
    )


def next_hop(hop: Hop, status: int, place: str) -> Hop:
    """Make the hop after ``hop`` was redirected to ``place``; PageGoneError if not allowed."""
    url = _place_of(hop.url, place)
    method, payload = hop.method, hop.payload
    dropped: tuple[str, ...] = ()
    if _turns_to_get(status, method):
        method, payload, dropped = "GET", None, _OF_THE_BODY
    if _origin(url) != _origin(hop.url):
        dropped = (*dropped, *_OF_THE_ORIGIN, *hop.secret_headers)
    headers = hop.headers
    if any(name in headers for name in dropped):
        headers = headers.copy()
        for name in dropped:
            headers.popall(name, None)
    return replace(hop, method=method, url=url, headers=headers, payload=payload)


def _turns_to_get(status: int, method: str) -> bool:
    if status == 303:
        return method not in {"GET", "HEAD"}
    return status in {301, 302} and method == "POST"


def _origin(url: URL) -> tuple[str, str | None, int | None]:
    return url.scheme, url.raw_host, url.port


def _place_of(base: URL, place: str) -> URL:
    try:
        url = as_url(_plain(place))
        if not url.scheme:  # with a scheme it is absolute, and has to name its host
            url = base.join(url)
        if url.raw_user is not None or url.raw_password is not None:
            url = url.with_user(None)
        problem = urls.problem_with(str(url))
    except ValueError as error:
        said = str(error)[:200].encode(errors="replace").decode()
        raise PageGoneError(f"leads to no http or https page: {said!r}") from error
    if problem is not None or not url.raw_host:
        raise PageGoneError(f"leads to a place that {problem or 'has no host'}")
    if base.raw_fragment and not url.raw_fragment:
        url = url.with_fragment(base.fragment)
    return url


def _plain(place: str) -> str:
    """Decode the header: raw bytes beyond ASCII become their percent-encoding."""
    place = place.strip(_BLANK).replace("\t", "")
    if place.isascii():
        return place
    raw = place.encode("utf-8", "surrogateescape")
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return _BEYOND_ASCII.sub(lambda found: b"%%%02X" % ord(found[0]), raw).decode()


def _conditional(headers: CIMultiDict[str], validators: Validators) -> CIMultiDict[str]:
    """Add the validators to the headers, for changed pages alone; skip malformed ones."""
    given = {"If-None-Match": validators.etag, "If-Modified-Since": validators.last_modified}
    headers = headers.copy()
    for name, value in given.items():
        if value and not urls.problem_with_headers({name: value}):
            headers[name] = value
    return headers

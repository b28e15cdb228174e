"""A request as it goes out: its URL, headers and body, from what the tenant and the biz wrote.

Nothing here touches the network; the fetcher and its in-memory fake share it.
"""

import re
from collections.abc import Mapping
from typing import Final

from multidict import CIMultiDict
from yarl import URL

from crawlfleet.adapters.http_coding import ACCEPT_ENCODING
from crawlfleet.errors import PageGoneError
from crawlfleet.model.biz import FetchLimits
from crawlfleet.model.request import Body
from crawlfleet.policy.target import (
    CONNECTION_HEADERS,
    problem_with,
    problem_with_headers,
    problem_with_method,
)

#: What a URL must not hold raw (RFC 3986): then it has to be quoted, else it is final as it stands.
_UNQUOTED: Final = re.compile(r"[^A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=%]|%(?![0-9A-Fa-f]{2})")


#: Configurations whose headers are remembered.
_BOOK_LENGTH: Final = 256


def method_of(body: Body) -> str:
    """The method, in capitals.

    Raises:
        PageGoneError: it is none that pages are asked for with.
    """
    if problem := problem_with_method(body.method):
        raise PageGoneError(f"the method {problem}")
    return body.method.upper()


def url_of(body: Body) -> URL:
    """The URL with the request's params appended to those it has.

    A URL that is properly encoded is left to the letter: requoting would turn ``?a=%2F`` into
    ``?a=/``, which breaks signatures. Params are plain text and are always encoded.

    >>> str(url_of(Body(url="http://a/?x=%2F", params={"q": "b c"}, rule="r", rule_version="1")))
    'http://a/?x=%2F&q=b+c'

    Raises:
        PageGoneError: it is no URL that may be asked for.
    """
    if problem := problem_with(body.url):
        raise PageGoneError(f"the URL {problem}")
    try:
        url = as_url(body.url)
        if not url.raw_host:
            raise PageGoneError("the URL has no valid host")
        return url.extend_query(body.params) if body.params else url
    except ValueError as error:
        raise PageGoneError(f"the URL is not valid: {error}") from error


def as_url(text: str) -> URL:
    """The URL of a text; one that is properly encoded is left to the letter, but for its host's.

    Raises:
        ValueError: it is none.
    """
    url = URL(text, encoded=_UNQUOTED.search(text) is None)
    host = url.raw_host
    return url if host is None or host.islower() else _lower(url, host)


def _lower(url: URL, host: str) -> URL:
    """A host's name in one spelling, so that nobody has two turns there."""
    return url if host == host.lower() else url.with_host(host.lower())


class HeaderBook:
    """The headers that requests go out with; those of each biz are put together once."""

    def __init__(self) -> None:
        # By identity: the limits are not hashable, and live as long as a configuration does.
        self._of_biz: dict[int, tuple[FetchLimits, CIMultiDict[str]]] = {}

    def headers_of(self, body: Body, limits: FetchLimits) -> CIMultiDict[str]:
        """The biz's headers, then the request's over them; those of the connection are dropped.

        The answer is not to be changed.

        Raises:
            PageGoneError: a name or value would break out of its line.
        """
        known = self._of_biz.get(id(limits))
        if known is not None:
            of_biz = known[1]
        else:
            ours = {"User-Agent": limits.user_agent, "Accept-Encoding": ACCEPT_ENCODING}
            of_biz = _merged(_merged(CIMultiDict(), ours), limits.headers)
            if len(self._of_biz) >= _BOOK_LENGTH:
                self._of_biz.clear()
            self._of_biz[id(limits)] = limits, of_biz
        return _merged(of_biz, body.headers) if body.headers else of_biz


def _merged(headers: CIMultiDict[str], given: Mapping[str, str]) -> CIMultiDict[str]:
    if problem := problem_with_headers(given):
        raise PageGoneError(f"the header {problem}")
    merged = headers.copy()
    for name, value in given.items():
        if name.lower() not in CONNECTION_HEADERS:
            merged[name] = value
    return merged


def payload_of(body: Body) -> bytes | None:
    """The body in UTF-8, or None.

    Raises:
        PageGoneError: it holds half a surrogate pair, which has no encoding.
    """
    if body.body is None:
        return None
    try:
        return body.body.encode()
    except UnicodeEncodeError as error:
        raise PageGoneError(f"the body is not valid text: {error.reason}") from error

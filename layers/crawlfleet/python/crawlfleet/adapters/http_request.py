"""A request as it goes out: its URL, headers and body, from what the tenant and the biz wrote.

Nothing here touches the network; the fetcher and its twin in memory share it.
"""

import re
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
        url = URL(body.url, encoded=_UNQUOTED.search(body.url) is None)
        if not url.raw_host:
            raise PageGoneError("the URL has no valid host")
        return url.extend_query(body.params) if body.params else url
    except ValueError as error:
        raise PageGoneError(f"the URL is not valid: {error}") from error


def headers_of(body: Body, limits: FetchLimits) -> CIMultiDict[str]:
    """The biz's headers, then the request's over them; those of the connection are dropped.

    Raises:
        PageGoneError: a name or value would break out of its line.
    """
    headers = CIMultiDict({"User-Agent": limits.user_agent, "Accept-Encoding": ACCEPT_ENCODING})
    for given in (limits.headers, body.headers):
        for name, value in given.items():
            if name.lower() not in CONNECTION_HEADERS:
                headers[name] = value
    if problem := problem_with_headers(headers):
        raise PageGoneError(f"the header {problem}")
    return headers


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

"""One page of the web, for whoever tries a rule: asked for once, bounded, if its site lets one.

robots.txt is obeyed as by a worker (crawling.politeness.robots): before the page, and before each
hop of a redirect. It is asked for anew each time, as there is nobody here to keep it.
"""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from crawlfleet.config.documents.biz import FetchLimits
from crawlfleet.config.documents.policies import Politeness, Robots
from crawlfleet.crawling.politeness.models import RobotsCopy
from crawlfleet.kernel.errors import (
    ConfigError,
    ConnectFailedError,
    FetchError,
    FetchTimeoutError,
    Problem,
    RobotsDeniedError,
    RobotsUnknownError,
    TooLargeError,
)
from crawlfleet.kernel.page import Page
from crawlfleet.kernel.urls import problem_with

if TYPE_CHECKING:
    from requests import Response, Session


#: Says whether a URL may be asked for, by an error.
Check = Callable[[str], None]

_CHUNK: Final = 65_536
#: A robots.txt that takes longer is not read, nor one behind more redirects.
_ROBOTS_SECONDS: Final = 10.0
_ROBOTS_HOPS: Final = 5


def ask(url: str, limits: FetchLimits, politeness: Politeness | None = None) -> Page:
    """Download a page as a worker would, within the biz's limits; any status will do.

    Without ``politeness`` robots.txt is not asked for. The address is not judged: somebody at their
    own terminal may read what their machine can.

    Raises:
        ConfigError: nothing can be asked for by that URL.
        RobotsDeniedError: the site does not want it, and by which line of its robots.txt.
        RobotsUnknownError: its robots.txt cannot be read now.
        FetchError: there was no answer, or it was longer than the limits allow.
    """
    import requests

    if (why := problem_with(url)) is not None:
        raise ConfigError((Problem(url, why),))
    with requests.Session() as session:
        known: dict[str, RobotsCopy] = {}

        def check(place: str) -> None:
            if politeness is not None and politeness.robots is not Robots.IGNORE:
                _check(session, place, limits, politeness, known)

        return _download(session, url, limits, check)


def _check(
    session: "Session",
    url: str,
    limits: FetchLimits,
    politeness: Politeness,
    known: dict[str, RobotsCopy],
) -> None:
    from msgspec.structs import replace

    from crawlfleet.crawling.politeness.robots_txt import MAX_BYTES, SiteRules, product_of
    from crawlfleet.kernel.hosts import origin_of

    origin = origin_of(url)
    if origin not in known:
        asked = replace(
            limits,
            max_body_bytes=10 * MAX_BYTES,
            max_redirects=_ROBOTS_HOPS,
            total_seconds=min(limits.total_seconds, _ROBOTS_SECONDS),
        )
        try:
            page = _download(session, f"{origin}/robots.txt", asked, lambda _: None)
            known[origin] = RobotsCopy(status=page.status, text=page.body[:MAX_BYTES])
        except ConnectFailedError:
            raise  # the site is not there, so that its page is not there either
        except FetchError as error:
            known[origin] = RobotsCopy(status=error.status)
    verdict = SiteRules(origin, known[origin]).verdict(url, product_of(politeness, limits))
    if verdict.unknown:
        raise RobotsUnknownError(verdict.why, status=0)
    if not verdict.allowed:
        raise RobotsDeniedError(verdict.why)


def _download(session: "Session", url: str, limits: FetchLimits, check: Check) -> Page:
    """Ask, and go where the answers lead."""
    import requests
    from urllib3.exceptions import HTTPError

    started = time.monotonic()
    headers = {**limits.headers, "User-Agent": limits.user_agent}
    timeouts = (limits.connect_seconds, limits.first_byte_seconds)
    redirects: list[str] = []
    try:
        request = session.prepare_request(requests.Request("GET", url, headers=headers))
        while True:
            place = request.url or url
            check(place)
            settings = session.merge_environment_settings(
                place, {}, stream=True, verify=None, cert=None
            )
            with session.send(
                request, allow_redirects=False, timeout=timeouts, **settings
            ) as answer:
                if answer.next is None:
                    body = _body(answer, limits, url, started)
                    return _page(answer, body, redirects, time.monotonic() - started)
                request = answer.next
            redirects.append(place)
            if len(redirects) > limits.max_redirects:
                most = f"{limits.max_redirects} redirects (fetch.max_redirects)"
                raise TooLargeError(f"{url}: more than {most}")
    except (requests.RequestException, HTTPError) as error:
        from crawlfleet.sdk.transport import in_words

        raise ConnectFailedError(f"{url}: {in_words(error)}") from error


def _body(answer: "Response", limits: FetchLimits, url: str, started: float) -> bytes:
    body = bytearray()
    # What has arrived, however little: a page that trickles is to be given up in time.
    while chunk := answer.raw.read1(_CHUNK, decode_content=True):
        body += chunk
        if len(body) > limits.max_body_bytes:
            given = f"{limits.max_body_bytes:,} bytes (fetch.max_body_bytes)"
            raise TooLargeError(f"{url}: the page is longer than {given}")
        if time.monotonic() - started > limits.total_seconds:
            given = f"{limits.total_seconds:g} seconds (fetch.total_seconds)"
            raise FetchTimeoutError(f"{url}: not there after {given}")
    return bytes(body)


def _page(answer: "Response", body: bytes, redirects: list[str], seconds: float) -> Page:
    return Page(
        url=answer.url,
        status=answer.status_code,
        headers={name.lower(): value for name, value in answer.headers.items()},
        body=body,
        redirects=tuple(redirects),
        seconds=seconds,
    )

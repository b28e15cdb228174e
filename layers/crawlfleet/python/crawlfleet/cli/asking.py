"""One page of the web, for whoever tries a rule: asked for once, bounded, by its own name."""

import time
from typing import Final

from crawlfleet.errors import ConfigError, FetchError, Problem
from crawlfleet.model.biz import FetchLimits
from crawlfleet.model.outcome import Page
from crawlfleet.policy.target import problem_with

_CHUNK: Final = 65_536


def ask(url: str, limits: FetchLimits) -> Page:
    """Download a page as a worker would, within the biz's limits; any status will do.

    The address is not judged: somebody at their own terminal may read what their machine can.

    Raises:
        ConfigError: nothing can be asked for by that URL.
        FetchError: there was no answer, or it was longer than the limits allow.
    """
    import requests
    from urllib3.exceptions import HTTPError

    if (why := problem_with(url)) is not None:
        raise ConfigError((Problem(url, why),))
    started = time.monotonic()
    headers = {**limits.headers, "User-Agent": limits.user_agent}
    timeouts = (limits.connect_seconds, limits.first_byte_seconds)
    body = bytearray()
    try:
        with requests.Session() as session:
            session.max_redirects = limits.max_redirects
            with session.get(url, headers=headers, timeout=timeouts, stream=True) as answer:
                # What has arrived, however little: a page that trickles is to be given up in time.
                while chunk := answer.raw.read1(_CHUNK, decode_content=True):
                    body += chunk
                    if len(body) > limits.max_body_bytes:
                        raise FetchError(
                            f"{url}: the page is longer than {limits.max_body_bytes:,} bytes"
                        )
                    if time.monotonic() - started > limits.total_seconds:
                        raise FetchError(f"{url}: not there after {limits.total_seconds:g} seconds")
                return Page(
                    url=answer.url,
                    status=answer.status_code,
                    headers={name.lower(): value for name, value in answer.headers.items()},
                    body=bytes(body),
                    redirects=tuple(step.url for step in answer.history),
                    seconds=time.monotonic() - started,
                )
    except (requests.RequestException, HTTPError) as error:
        raise FetchError(f"{url}: {error}") from error

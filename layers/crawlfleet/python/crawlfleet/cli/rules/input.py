"""Input of ``crawlfleet rule try``: the rule or spider in a file, and the page to try it on.

A URL is asked for once, bounded, if its site lets one: robots.txt is obeyed as by a worker
(crawling.politeness.robots), before the page and before each hop of a redirect. It is asked for
anew each time, as there is nobody here to keep it. ``shell`` and ``init`` also judge addresses as
a worker does, at the socket of every hop.
"""

import re
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import msgspec

from crawlfleet.cli.config.command import reader_check
from crawlfleet.cli.config_folder import SUFFIXES, read_file
from crawlfleet.config.documents.biz import Biz, FetchLimits
from crawlfleet.config.documents.policies import Politeness, Robots
from crawlfleet.config.documents.rule import Rule, Spider
from crawlfleet.config.partial_rules import rule_part_problems, rules_problems
from crawlfleet.crawling.politeness.models import MAX_BYTES, RobotsCopy
from crawlfleet.kernel import errors
from crawlfleet.kernel.page import Page
from crawlfleet.kernel.urls import is_public, problem_with
from crawlfleet.kernel.validation import decode, join, named

if TYPE_CHECKING:
    from requests import Response, Session
    from requests.adapters import HTTPAdapter


#: Guess the content type of a saved page.
TYPES: Final = {".xml": "application/xml", ".rss": "application/xml", ".json": "application/json"}
_BASE: Final = "https://page.invalid/"
_MAX_FILE_BYTES: Final = 50_000_000
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
#: What people type for an address and forget the scheme of: ``localhost:8901/x``, ``a.example/x``.
_HOST: Final = re.compile(r"(?:[A-Za-z0-9-]+\.)*[A-Za-z0-9-]+(?::[0-9]{1,5}(?:/|\Z)|/)")


class Chosen(msgspec.Struct, frozen=True, kw_only=True):
    """A rule or spider, the limits of its pages, and the readers that its links may name."""

    reader: Rule | Spider
    name: str
    fetch: FetchLimits = FetchLimits()
    politeness: Politeness = Politeness()
    readers: frozenset[str] | None = None


def choose(path: Path, biz: str | None = None, name: str | None = None) -> Chosen:
    """Choose the rule or spider that is meant.

    Raises:
        ConfigError: names what is wrong with the file, or says what there is to choose from.
    """
    if path.is_dir():
        path = _biz_file(path, biz)
    try:
        text = read_file(path)
        document = msgspec.json.decode(text)
    except ValueError as error:
        raise errors.ConfigError((errors.Problem(str(path), str(error)),)) from error
    if isinstance(document, dict) and not document.keys() & {"generations", "rules", "spiders"}:
        kind: type[Rule | Spider] = Spider if "executor" in document else Rule
        single, problems = decode(text, kind)
        if single is None:
            if kind is Rule:
                problems += tuple(dict.fromkeys(rule_part_problems(document, reader_check())))
            raise errors.ConfigError(_placed(path, problems))
        return Chosen(reader=single, name=name or path.stem)
    whole, problems = decode(text, Biz)
    if whole is None:
        problems += tuple(rules_problems(document, reader_check()))
        raise errors.ConfigError(_placed(path, problems))
    if name is None and len(whole.readers) == 1:
        [name] = whole.readers
    reader = None if name is None else whole.reader(name)
    if name is None or reader is None:
        there = named(whole.readers, name or "") or "none"
        said = "--rule says which rule or spider" if name is None else f"there is no rule {name}"
        raise errors.ConfigError((errors.Problem(str(path), f"{said}; it has {there}"),))
    return Chosen(
        reader=reader,
        name=name,
        fetch=whole.fetch,
        politeness=whole.politeness,
        readers=frozenset(whole.readers),
    )


def _biz_file(folder: Path, biz: str | None) -> Path:
    files = {
        f"{file.parent.name}/{file.stem}": file
        for file in sorted((folder / "bizs").glob("*/*"))
        if file.suffix in SUFFIXES
    }
    meant = [name for name in files if biz in {None, name, name.partition("/")[2]}]
    if len(meant) != 1:
        there = ", ".join(files) or "none; expected bizs/TENANT/BIZ.yaml"
        said = "--biz says which biz" if biz is None or meant else f"there is no biz {biz}"
        raise errors.ConfigError((errors.Problem(str(folder), f"{said}; it has {there}"),))
    return files[meant[0]]


def _placed(path: Path, problems: tuple[errors.Problem, ...]) -> Iterator[errors.Problem]:
    for problem in problems:
        yield errors.Problem(
            f"{path}: {problem.field}" if problem.field else str(path), problem.message
        )


def is_url(page: str) -> bool:
    """Tell whether a page is an address, and not a file."""
    return page.lower().startswith(("http://", "https://"))


def saved_page(page: str) -> Path:
    """Find the file of a page; a name without one that may be an address is a usage error."""
    file = Path(page)
    if not file.exists():
        if _SCHEME.match(page):
            message = f"{page!r} is no address that pages are asked for by: http:// or https://"
            raise click.BadParameter(f"{message}.", param_hint="FILE|URL")
        if _HOST.match(page) and not page.startswith(("./", "../")):
            message = f"there is no file {page!r}; an address begins with http:// or https://"
            raise click.BadParameter(f"{message}.", param_hint="FILE|URL")
    return file


def page_of(
    where: str,
    url: str | None,
    fetch: FetchLimits,
    politeness: Politeness | None,
    *,
    private: bool = True,
) -> Page:
    """Read the page of a file, or of its site; without ``politeness`` robots.txt is not read.

    Without ``private`` addresses are judged.

    Raises:
        ConfigError: the file is too large, or nothing can be asked for by that URL.
        FetchError: there is no such page now.
    """
    if is_url(where):
        page = ask(where, fetch, politeness, private=private)
        return msgspec.structs.replace(page, url=url) if url else page
    file = saved_page(where)
    if file.stat().st_size > _MAX_FILE_BYTES:
        raise errors.ConfigError(
            (errors.Problem(where, f"is larger than {_MAX_FILE_BYTES:,} bytes"),)
        )
    return Page(
        url=url or _BASE,
        status=200,
        headers={"content-type": type_of(file)},
        body=file.read_bytes(),
    )


def type_of(file: Path) -> str:
    """Guess the content type of a saved page."""
    return TYPES.get(file.suffix.lower(), "text/html")


#: Says whether a URL may be asked for, by an error.
Check = Callable[[str], None]

_CHUNK: Final = 65_536
#: A robots.txt that takes longer is not read, nor one behind more redirects.
_ROBOTS_SECONDS: Final = 10.0
_ROBOTS_HOPS: Final = 5


def ask(
    url: str, limits: FetchLimits, politeness: Politeness | None = None, *, private: bool = True
) -> Page:
    """Download a page as a worker would, within the biz's limits; any status will do.

    Without ``politeness`` robots.txt is not asked for. With ``private`` the address is not judged:
    somebody at their own terminal may read what their machine can.

    Raises:
        ConfigError: nothing can be asked for by that URL.
        RobotsDeniedError: the site does not want it, and by which line of its robots.txt.
        RobotsUnknownError: its robots.txt cannot be read now.
        AddressRefusedError: it leads to an address that is not public, without ``private``.
        FetchError: there was no answer, or it was longer than the limits allow.
    """
    import requests

    if (why := problem_with(url)) is not None:
        raise errors.ConfigError((errors.Problem(url, why),))
    why = "is a secret, which workers alone read: try it with --remote, or on a saved page"
    if problems := [
        errors.Problem(join("fetch.headers", name), why)
        for name, value in limits.headers.items()
        if not isinstance(value, str)
    ]:
        raise errors.ConfigError(problems)
    with requests.Session() as session:
        if not private:
            for scheme in ("http://", "https://"):
                session.mount(scheme, _judging())
        known: dict[str, RobotsCopy] = {}

        def check(place: str) -> None:
            if politeness is not None and politeness.robots is not Robots.IGNORE:
                _check(session, place, limits, politeness, known)

        return _download(session, url, limits, check)


def _judging() -> "HTTPAdapter":
    """Make an adapter whose sockets are closed where they lead to a private address.

    Judged is what a socket is connected to, before anything is sent: a name may lead elsewhere the
    next time it is looked up. Behind a proxy of the environment that is the proxy.
    """
    from requests.adapters import HTTPAdapter
    from urllib3.connection import HTTPConnection, HTTPSConnection
    from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

    def judged(place: socket.socket) -> socket.socket:
        if is_public(str(place.getpeername()[0])):
            return place
        place.close()
        setting = "allow_private_addresses of the stage"
        message = f"the host leads to an address that is not public ({setting})"
        raise errors.AddressRefusedError(message)

    class Plain(HTTPConnection):
        def _new_conn(self) -> socket.socket:
            return judged(super()._new_conn())

    class Encrypted(HTTPSConnection):
        def _new_conn(self) -> socket.socket:
            return judged(super()._new_conn())

    class PlainPool(HTTPConnectionPool):
        ConnectionCls = Plain

    class EncryptedPool(HTTPSConnectionPool):
        ConnectionCls = Encrypted

    adapter = HTTPAdapter()
    pools = {"http": PlainPool, "https": EncryptedPool}
    adapter.poolmanager.pool_classes_by_scheme = pools
    return adapter


def _check(
    session: "Session",
    url: str,
    limits: FetchLimits,
    politeness: Politeness,
    known: dict[str, RobotsCopy],
) -> None:
    from msgspec.structs import replace

    from crawlfleet.crawling.politeness.robots_txt import SiteRules, kept_copy, product_of
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
        except (errors.ConnectFailedError, errors.AddressRefusedError):
            raise  # the site is not there, so that its page is not there either
        except errors.FetchError as error:
            known[origin] = RobotsCopy(status=error.status)
    product = product_of(politeness, limits)
    verdict = SiteRules(origin, kept_copy(known[origin], product)).verdict(url, product)
    if verdict.unknown:
        raise errors.RobotsUnknownError(verdict.why, status=0)
    if not verdict.allowed:
        raise errors.RobotsDeniedError(verdict.why)


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
                raise errors.TooLargeError(f"{url}: more than {most}")
    except (requests.RequestException, HTTPError) as error:
        from crawlfleet.sdk.transport import in_words

        raise errors.ConnectFailedError(f"{url}: {in_words(error)}") from error


def _body(answer: "Response", limits: FetchLimits, url: str, started: float) -> bytes:
    body = bytearray()
    # What has arrived, however little: a page that trickles is to be given up in time.
    while chunk := answer.raw.read1(_CHUNK, decode_content=True):
        body += chunk
        if len(body) > limits.max_body_bytes:
            given = f"{limits.max_body_bytes:,} bytes (fetch.max_body_bytes)"
            raise errors.TooLargeError(f"{url}: the page is longer than {given}")
        if time.monotonic() - started > limits.total_seconds:
            given = f"{limits.total_seconds:g} seconds (fetch.total_seconds)"
            raise errors.FetchTimeoutError(f"{url}: not there after {given}")
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

"""``crawlfleet doctor``: examine a deployment from outside, and say what to do next."""

import email.utils
import os
import ssl
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from socket import create_connection
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import click
import msgspec
import requests
import urllib3

from crawlfleet import __version__
from crawlfleet.cli.console import Exit, api_options, emit, note
from crawlfleet.cli.doctor import diagnosis
from crawlfleet.cli.doctor import fleet as fleet_diagnosis
from crawlfleet.cli.doctor import tenants as tenant_diagnosis
from crawlfleet.cli.doctor.diagnosis import EXITS, NAMES, Level, Reach, Saying, worst
from crawlfleet.cli.failures import names_in
from crawlfleet.cli.terminal import say
from crawlfleet.kernel import errors
from crawlfleet.kernel.advice import filled
from crawlfleet.sdk.address import Address, find_address
from crawlfleet.sdk.client import Client
from crawlfleet.sdk.transport import Retries, Timeouts, causes, in_words
from crawlfleet.wire.fleet import Health, Incident, Running

if TYPE_CHECKING:
    from crawlfleet.sdk import Fleet


_COLOURS = dict(zip(Level, ("green", "cyan", "yellow", "red", "red"), strict=True))


@click.command()
@click.option("--biz", "bizs", multiple=True, help="Examine this biz too; may be repeated.")
@click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Compare what is in force with this folder of a configuration.",
)
@api_options
def doctor(*, as_json: bool, **given: Any) -> int:
    r"""Examine a deployment from outside and say what is wrong and what to do.

    Address, key, TLS, clocks, health of the parts, what runs, whether anybody works while there is
    work, lateness, dead letters; with an operator's key the whole fleet, with --biz a biz, its
    ledger and whether rules can be tried, with --folder whether what is in force is what it says.
    Nothing is changed.

    \b
    Exit codes:
      0  all is well, or worth a note at most
      1  it works, but something needs to be looked at
      2  the address, the key, the folder, the biz or this machine's clock is wrong
      3  it cannot be reached or cannot do its work
    """
    sayings: list[Saying] = []
    known = names_in(given)
    for found in examine(**given):
        saying = msgspec.structs.replace(found, do=filled(found.do, known))
        sayings.append(saying)
        if not as_json:
            _announce(saying)
    level = worst(sayings)
    if as_json:
        checks = [
            {"check": s.check, "level": NAMES[s.level], "said": s.said, "do": s.do} for s in sayings
        ]
        emit({"level": NAMES[level], "checks": checks})
    elif level <= Level.NOTE:
        note("all is well")
    return Exit(EXITS[level])


def _announce(saying: Saying) -> None:
    say(f"{NAMES[saying.level]:<7}", fg=_COLOURS[saying.level], nl=False)
    say(f"{saying.check:<14}{saying.said}")
    if saying.do:
        say(f"{'':21}{saying.do}")


#: A doctor is not kept waiting.
_CONNECT_SECONDS: Final = 5.0
_ANSWER_SECONDS: Final = 29.0
_MAX_BYTES: Final = 1_000_000
_READ_BYTES: Final = 65_536
_DAY_SECONDS: Final = 86_400.0
_HTTPS_PORT: Final = 443
#: Open incidents that are read; there are few, and the gravest are shown.
_INCIDENTS: Final = 100
#: Bizs of which the schedules are read where none is named.
_BIZS: Final = 20


def examine(
    api_url: str | None, api_key: str | None, bizs: Sequence[str], folder: Path | None
) -> Iterator[Saying]:
    """Examine a deployment from outside, in the order in which one would ask."""
    try:
        address = find_address(api_url, api_key)
    except errors.ConfigError as error:
        yield from diagnosis.of_settings(error.problems)
        return
    reach, health = knock(address)
    yield from diagnosis.of_address(reach)
    yield from diagnosis.of_reach(reach)
    if reach.failure or reach.untrusted or not reach.is_ours or health is None:
        return
    yield from diagnosis.of_certificate(reach)
    yield from diagnosis.of_clock(reach)
    yield from diagnosis.of_health(health)
    timeouts = Timeouts(connect_seconds=_CONNECT_SECONDS, read_seconds=_ANSWER_SECONDS)
    with Client(
        address.api_url, address.api_key, timeouts=timeouts, retries=Retries(attempts=2)
    ) as client:
        yield from _whole(client, bizs, folder)


def _whole(client: Client, bizs: Sequence[str], folder: Path | None) -> Iterator[Saying]:
    """Examine what a key is needed for: first what is running."""
    running: Running | None = None
    try:
        running = client.deep_health().deep
    except errors.UnknownTenantError:
        pass  # of the key more is said below
    except errors.CrawlfleetError as error:
        yield from diagnosis.of_failed("running", str(error))
    if running is not None:
        yield from diagnosis.of_running(running, __version__)
        if running.workers is not None:
            yield from fleet_diagnosis.of_workers(running.workers)
        if running.tick is not None:
            yield from fleet_diagnosis.of_tick(running.tick)
    if folder is not None:
        yield from _folder(folder, running)
    yield from _inside(client, bizs, running)


def knock(address: Address, answer_seconds: float = _ANSWER_SECONDS) -> tuple[Reach, Health | None]:
    """Ask for the health without the key: what anybody would see."""
    reach = Reach(api_url=address.api_url, is_local=address.on_this_machine)
    began, asked_at = time.monotonic(), time.time()
    try:
        with requests.Session() as session:
            session.trust_env = not address.on_this_machine
            with session.get(
                f"{address.api_url}/health",
                timeout=(_CONNECT_SECONDS, answer_seconds),
                allow_redirects=False,
                stream=True,
            ) as response:
                body = _body(response, began + answer_seconds)
                status, date = response.status_code, response.headers.get("date")
    except (requests.RequestException, urllib3.exceptions.HTTPError) as error:
        untrusted = any(isinstance(one, ssl.SSLCertVerificationError) for one in causes(error))
        return msgspec.structs.replace(reach, failure=in_words(error), untrusted=untrusted), None
    took = time.monotonic() - began
    health = _health(body)
    reach = msgspec.structs.replace(
        reach,
        status=status,
        is_ours=health is not None,
        seconds=took,
        skew_seconds=_skew(date, asked_at, took),
        certificate_days=_certificate_days(address),
    )
    return reach, health


def _body(response: requests.Response, until: float) -> bytes:
    body = bytearray()
    while part := response.raw.read1(_READ_BYTES, decode_content=True):
        body += part
        if len(body) > _MAX_BYTES:
            raise urllib3.exceptions.ResponseError("the answer is too large")
        if time.monotonic() > until:
            raise requests.ReadTimeout("the answer took too long as a whole")
    return bytes(body)


def _health(body: bytes) -> Health | None:
    try:
        return msgspec.json.decode(body, type=Health)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _skew(date: str | None, asked_at: float, took: float) -> float | None:
    """Compute how far the answer's clock is ahead; its date is in whole seconds."""
    if date is None:
        return None
    try:
        theirs = email.utils.parsedate_to_datetime(date)
    except ValueError:
        return None
    aware = theirs if theirs.tzinfo else theirs.replace(tzinfo=UTC)
    apart = aware.timestamp() + 0.5 - (asked_at + took / 2)
    # What the second and the way may hide is no difference.
    hidden = 0.5 + took / 2
    return 0.0 if abs(apart) <= hidden else apart


def _certificate_days(address: Address) -> float | None:
    """Until the certificate ends; behind a proxy that is the proxy's business."""
    parts = urlsplit(address.api_url)
    host = parts.hostname
    if parts.scheme != "https" or host is None or requests.utils.get_environ_proxies(host):
        return None
    try:
        with (
            create_connection((host, parts.port or _HTTPS_PORT), _CONNECT_SECONDS) as plain,
            _trusting().wrap_socket(plain, server_hostname=host) as secure,
        ):
            ends = (secure.getpeercert() or {}).get("notAfter")
    except OSError:
        return None  # the driver trusts others, or it is no matter of the certificate
    if not isinstance(ends, str):
        return None
    return (ssl.cert_time_to_seconds(ends) - time.time()) / _DAY_SECONDS


def _trusting() -> ssl.SSLContext:
    """Trusts whom the driver trusts."""
    where = os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE")
    where = where or requests.utils.DEFAULT_CA_BUNDLE_PATH
    if Path(where).is_dir():
        return ssl.create_default_context(capath=where)
    return ssl.create_default_context(cafile=where)


def _inside(client: Client, bizs: Sequence[str], running: Running | None) -> Iterator[Saying]:
    """Examine what the key may read."""
    fleet: Fleet | None = None
    try:
        fleet = client.fleet()
    except errors.UnknownTenantError:
        yield from diagnosis.of_key(client.api_url, accepted=False, operator=False)
        return
    except errors.NotOperatorError:
        yield from diagnosis.of_key(client.api_url, accepted=True, operator=False)
    except errors.CrawlfleetError as error:
        yield from diagnosis.of_failed("fleet", str(error))
    if fleet is not None:
        yield from diagnosis.of_key(client.api_url, accepted=True, operator=True)
        yield from _tenants(client)
    incidents, unread = _incidents(client)
    if fleet is not None:
        yield from fleet_diagnosis.of_fleet(fleet, incidents, bizs)
    if unread:
        yield from diagnosis.of_failed("incidents", unread)
    else:
        operator, more = fleet is not None, len(incidents) == _INCIDENTS
        yield from fleet_diagnosis.of_incidents(incidents, operator=operator, more=more)
    yield from _schedules(client, bizs)
    for biz in bizs:
        yield from _biz(client, biz, running)


def _incidents(client: Client) -> tuple[list[Incident], str]:
    """Read what is open, or why it could not be read."""
    try:
        return list(islice(client.incidents(page_size=_INCIDENTS), _INCIDENTS)), ""
    except errors.CrawlfleetError as error:
        return [], str(error)


def _tenants(client: Client) -> Iterator[Saying]:
    """Examine the tenants and the keys that were made for them; an older API knows of none."""
    try:
        found = client.tenants()
        yield from tenant_diagnosis.of_leftover_keys(found.leftovers)
        yield from tenant_diagnosis.of_tenants(found.tenants, datetime.now(UTC))
    except errors.NotFoundError:
        return
    except errors.CrawlfleetError as error:
        yield from diagnosis.of_failed("tenants", str(error))


def _schedules(client: Client, bizs: Sequence[str]) -> Iterator[Saying]:
    """Examine the schedules of the bizs, or of the first ones that the key's tenant has."""
    try:
        for biz in bizs or [one.name for one in client.bizs()[:_BIZS]]:
            with suppress(errors.UnknownBizError):  # of which more is said below
                yield from fleet_diagnosis.of_schedules(biz, client.schedules(biz))
    except errors.CrawlfleetError as error:
        yield from diagnosis.of_failed("schedules", str(error))


#: A rule that any page of HTML can be tried by; no site is asked.
_TRIED: Final = {"fields": {"title": {"css": "title"}}}


def _biz(client: Client, biz: str, running: Running | None) -> Iterator[Saying]:
    try:
        stats, ledger = client.stats(biz), client.ledger(biz)
    except errors.UnknownBizError:
        yield from fleet_diagnosis.of_no_biz(biz)
        return
    except errors.CrawlfleetError as error:
        yield from diagnosis.of_failed(biz, str(error))
        return
    oldest = stats.queue.oldest_at
    waited = None if oldest is None else datetime.now(UTC) - oldest
    workers = None if running is None else running.workers
    yield from fleet_diagnosis.of_backlog(stats.queue.queued, workers, f" in {biz}")
    yield from fleet_diagnosis.of_biz(biz, stats, waited)
    yield from fleet_diagnosis.of_ledger(biz, ledger)
    try:
        yield from fleet_diagnosis.of_coverage(biz, client.coverage(biz))
    except errors.CrawlfleetError as error:
        yield from diagnosis.of_failed(biz, str(error))
    try:
        client.try_rule(biz, _TRIED, page="<title>doctor</title>")
    except errors.CrawlfleetError as error:
        yield from fleet_diagnosis.of_trial(biz, str(error))
    else:
        yield from fleet_diagnosis.of_trial(biz)


def _folder(folder: Path, running: Running | None) -> Iterator[Saying]:
    from crawlfleet.cli.config_folder import scan_folder
    from crawlfleet.config.loading import adopt
    from crawlfleet.config.validation import digest_of, unchecked

    documents, problems = scan_folder(folder)
    verdict = adopt("", documents, None, {}, unchecked)
    found = (*problems, *verdict.problems)
    digest = "" if verdict.tree is None else digest_of(verdict.tree)
    yield from diagnosis.of_folder(found, digest, running, __version__)

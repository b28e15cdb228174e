"""Diagnose the address, the key and the configuration, for `crawlfleet doctor`.

Nothing here looks anywhere: facts come in, sayings go out. So each sentence can be tried.
"""

from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Final

import msgspec

from crawlfleet.cli.console import Exit, counted
from crawlfleet.kernel.errors import Problem

if TYPE_CHECKING:
    from crawlfleet.sdk import Health, Running


class Level(IntEnum):
    """Severity of a finding; the worst one decides the exit code."""

    FINE = 0
    NOTE = 1
    LOOK = 2
    YOURS = 3
    BROKEN = 4

    def saying(self, check: str, said: str, do: str = "") -> "Saying":
        """Make a finding of this level."""
        return Saying(check, self, said, do)


#: What the level is called, and the exit code that it leads to.
NAMES: Final = dict(zip(Level, ("ok", "note", "look", "yours", "broken"), strict=True))
_CODES: Final = (Exit.FINE, Exit.FINE, Exit.FAILED, Exit.BAD_INPUT, Exit.UNREACHABLE)
EXITS: Final = dict(zip(Level, _CODES, strict=True))

#: Clocks further apart than this mislead people; further than that AWS refuses signatures.
SKEW_SECONDS: Final = 5.0
LARGE_SKEW_SECONDS: Final = 240.0
#: A certificate that ends sooner should have been renewed by itself by now.
CERTIFICATE_DAYS: Final = 14.0
#: A health check that takes longer is slow.
SLOW_SECONDS: Final = 5.0


class Saying(msgspec.Struct, frozen=True):
    """Finding of one check: a sentence, and what to do next."""

    check: str
    level: Level
    said: str
    do: str = ""


class Reach(msgspec.Struct, frozen=True, kw_only=True):
    """Answer of the address.

    ``failure`` tells why there was none, ``untrusted`` that it was for the certificate. The
    answer's clock is ``skew_seconds`` ahead of this one; None stands for what is not known.
    """

    api_url: str
    is_local: bool = False
    failure: str = ""
    untrusted: bool = False
    status: int = 0
    is_ours: bool = True
    seconds: float = 0.0
    skew_seconds: float | None = None
    certificate_days: float | None = None


def worst(sayings: Iterable[Saying]) -> Level:
    """Return the worst level."""
    return max((saying.level for saying in sayings), default=Level.FINE)


def of_settings(problems: Sequence[Problem]) -> Iterator[Saying]:
    """Without address or key there is nothing to examine."""
    yield from (Level.YOURS.saying("address", str(problem)) for problem in problems)


def of_address(reach: Reach) -> Iterator[Saying]:
    """Name the address, and warn of plain text."""
    if not reach.api_url.startswith("https:") and not reach.is_local:
        yield Level.LOOK.saying(
            "address",
            f"{reach.api_url} is no https: the key travels in plain text",
            "Use the https address that the deployment printed.",
        )
        return
    yield Level.FINE.saying("address", reach.api_url)


def of_reach(reach: Reach) -> Iterator[Saying]:
    """Check that a Crawlfleet API answers there."""
    if reach.untrusted:
        yield Level.YOURS.saying(
            "reach",
            f"the certificate of {reach.api_url} is not trusted",
            "Is it the right address? Behind a proxy that looks into TLS, its certificate "
            "must be known: REQUESTS_CA_BUNDLE names a file.",
        )
    elif reach.failure:
        yield Level.BROKEN.saying(
            "reach",
            f"{reach.api_url}: {reach.failure}",
            "`crawlfleet up` starts a local one. Of a deployed one: does its stack stand, "
            "and can this machine reach it (proxy, firewall, VPN)?",
        )
    elif not reach.is_ours:
        yield Level.YOURS.saying(
            "reach",
            f"{reach.api_url} answers with {reach.status}, but not as a Crawlfleet API",
            "Give the address that the deployment printed, with its stage: "
            "https://ID.execute-api.REGION.amazonaws.com/STAGE",
        )
    elif reach.seconds > SLOW_SECONDS:
        yield Level.LOOK.saying(
            "reach",
            f"it took {reach.seconds:.1f} s to answer",
            "Once is a cold start. If it stays, look at the router's log and at how long "
            "its parts take (`crawlfleet fleet`: Latency).",
        )
    else:
        yield Level.FINE.saying("reach", f"answers in {reach.seconds:.2f} s")


def of_certificate(reach: Reach) -> Iterator[Saying]:
    """Check how long the certificate lasts."""
    days = reach.certificate_days
    if days is None:
        return
    if days < CERTIFICATE_DAYS:
        yield Level.LOOK.saying(
            "certificate",
            f"the certificate ends in {max(0.0, days):.0f} days",
            "Renew it; one of AWS renews itself as long as its domain still proves it.",
        )
        return
    yield Level.FINE.saying("certificate", f"lasts for {days:.0f} days")


def of_clock(reach: Reach) -> Iterator[Saying]:
    """Check how far the two clocks are apart."""
    skew = reach.skew_seconds
    if skew is None:
        return
    if abs(skew) <= SKEW_SECONDS:
        yield Level.FINE.saying("clock", "both clocks agree")
        return
    side = "behind" if skew > 0 else "ahead of"
    said = f"this machine's clock is {abs(skew):.0f} s {side} the platform's"
    if abs(skew) <= LARGE_SKEW_SECONDS:
        yield Level.NOTE.saying(
            "clock", said, "Times given as ages (--since 15m) are off by as much."
        )
        return
    yield Level.YOURS.saying(
        "clock",
        said,
        "Set it by NTP: AWS refuses what is signed by such a clock, so `cdk deploy` and "
        "`crawlfleet config push` fail.",
    )


def of_health(health: "Health") -> Iterator[Saying]:
    """Check the health of the parts."""
    sick = {part: state for part, state in health.parts.items() if state != "ok"}
    if not sick:
        yield Level.FINE.saying("health", f"{counted(len(health.parts), 'part')} are well")
        return
    yield from (_sick(part, state) for part, state in sorted(sick.items()))


def _sick(part: str, state: str) -> Saying:
    said = f"{part} {state}"
    if part == "config":
        return Level.BROKEN.saying(
            "health",
            "there is no configuration that could be read",
            "`crawlfleet config push FOLDER --stage STAGE`; if there is one, the router's log "
            "says why it cannot be read.",
        )
    if part == "redis":
        return Level.LOOK.saying(
            "health",
            said,
            "Submissions go on and are queued later; nothing is worked on until it is back. "
            "Does it run, and do the functions reach it (security groups, address, password)?",
        )
    return Level.BROKEN.saying(
        "health",
        said,
        "Submissions to it are answered with 503. Does it run, do the functions reach it, and "
        "has its secret the right URI?",
    )


def of_running(running: "Running", own_version: str) -> Iterator[Saying]:
    """Check version, configuration and workers of what runs."""
    yield Level.FINE.saying(
        "running",
        f"version {running.version}, stage {running.stage}, "
        f"configuration {running.revision or 'none'}",
    )
    if running.version != own_version:
        yield Level.NOTE.saying(
            "running",
            f"this program is version {own_version}, the platform {running.version}",
            "What is newer in one of them the other may not know.",
        )
    if running.config_refused and running.revision:
        yield Level.LOOK.saying(
            "configuration",
            "a newer configuration is refused; the last good one is in force",
            "`crawlfleet config validate FOLDER` names every mistake; push it corrected.",
        )
    if running.workers is None and running.revision:
        yield Level.LOOK.saying(
            "workers",
            "nobody can say which workers live",
            "Redis knows that; see what is said of it.",
        )


def of_key(api_url: str, *, accepted: bool, operator: bool) -> Iterator[Saying]:
    """Check that the key is accepted, and name its rights."""
    if not accepted:
        yield Level.YOURS.saying(
            "key",
            f"{api_url} does not take the key",
            "`aws apigateway get-api-keys --include-values` shows those of the account; a "
            "tenant's key must be in its document, and in a usage plan of this API.",
        )
        return
    said = "accepted, of an operator" if operator else "accepted; its tenant is no operator"
    if operator:
        yield Level.FINE.saying("key", said)
        return
    yield Level.NOTE.saying(
        "key", said, "The fleet as a whole is left out. Name a biz with --biz to have it examined."
    )


def of_failed(check: str, why: str) -> Iterator[Saying]:
    """Report a call that failed where another was answered."""
    yield Level.LOOK.saying(
        check,
        f"could not be examined: {why}",
        "Try again in a minute; the router's log says what failed.",
    )


def of_folder(
    problems: Sequence[Problem], digest: str, running: "Running | None", own_version: str
) -> Iterator[Saying]:
    """Compare the configuration in force with a folder."""
    if problems:
        yield Level.YOURS.saying(
            "folder",
            f"{counted(len(problems), 'mistake')}, the first: {problems[0]}",
            "`crawlfleet config validate FOLDER` names all of them.",
        )
    elif running is None or not running.config_digest:
        yield Level.NOTE.saying(
            "folder", "nothing is known to be in force that it could be compared with"
        )
    elif running.config_digest == digest:
        yield Level.FINE.saying("folder", "is what is in force")
    elif running.version != own_version:
        yield Level.NOTE.saying(
            "folder",
            "cannot be compared: this program and the platform differ in version",
            "`crawlfleet config diff FOLDER --stage STAGE` compares the documents.",
        )
    else:
        yield Level.LOOK.saying(
            "folder",
            "differs from what is in force",
            "`crawlfleet config diff FOLDER --stage STAGE` shows how, `crawlfleet config push` "
            "puts it in force. A push is in force within seconds.",
        )

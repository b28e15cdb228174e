"""Which hosts ask for less, fail or are slow, and of which nobody can say (SPEC.md A11).

A host that refuses everything is left alone for ever longer, so that hardly anything is asked of
it: its few answers are no sign that it is well. Where there are too few to judge by, what was
refused in a row decides; and of one that is left alone, or not trusted again yet, it is never taken
for sure that it is well.

A host that fails is asked for less and less, too, as what failed waits for its next try: a few
answers that are as bad say neither that it fails nor that it is well. Of one that nobody asks for
any more nothing is left to be told.
"""

from collections.abc import Iterator
from typing import Final

from crawlfleet.finding_kinds import Kind
from crawlfleet.model.alarms import Thresholds
from crawlfleet.model.incident import Finding, Place, key_of
from crawlfleet.model.sample import HostSample
from crawlfleet.policy.plain_text import one_line

#: What sampling calls them.
HOST: Final = "host"
#: So many strained answers in a row are enough, however few there were. By default a host is left
#: alone for half a minute after that.
IN_A_ROW: Final = 5

#: What is found of hosts.
KINDS: Final = frozenset({Kind.HOST_THROTTLED, Kind.HOST_FAILING, Kind.HOST_SLOW})


def host_findings(host: HostSample, thresholds: Thresholds) -> Iterator[Finding]:
    """What is wrong with a host."""
    yield from _throttled(host, thresholds)
    if host.asked >= thresholds.host_answers:
        yield from _failing(host, thresholds)
    if host.answered >= thresholds.host_answers:
        yield from _slow(host, thresholds)


def _throttled(host: HostSample, thresholds: Thresholds) -> Iterator[Finding]:
    share = _share(host)
    enough = host.asked >= thresholds.throttled_answers
    if share <= thresholds.throttled_share or not (enough or _refuses(host)):
        return
    alone = host.backing_off_until
    refused = f"{share:.0%} of {host.asked:,} answers in {host.window_seconds:.0f} s were 429, 503"
    yield Finding(
        kind=Kind.HOST_THROTTLED,
        place=host_place(host.host),
        met_by=host.met_by,
        value=share,
        threshold=thresholds.throttled_share,
        said=(
            f"{refused} or no connection"
            if host.asked
            else f"its last {host.strain:,} answers were 429, 503 or no connection"
        )
        + (f"; it is left alone until {alone:%H:%M:%S} UTC" if alone else "")
        + _waiting(host),
    )


def _failing(host: HostSample, thresholds: Thresholds) -> Iterator[Finding]:
    share, limit = host.failed / host.asked if host.asked else 0.0, thresholds.failing_share
    if share > limit:
        yield Finding(
            kind=Kind.HOST_FAILING,
            place=host_place(host.host),
            met_by=host.met_by,
            value=share,
            threshold=limit,
            said=f"{share:.0%} of {host.asked:,} answers in {host.window_seconds:.0f} s were errors"
            f" of the server (5xx but 503), more than {limit:.0%}{_waiting(host)}",
        )


def _slow(host: HostSample, thresholds: Thresholds) -> Iterator[Finding]:
    took, limit = host.latency_seconds, thresholds.host_latency_seconds
    if took is not None and limit is not None and took > limit:
        yield Finding(
            kind=Kind.HOST_SLOW,
            place=host_place(host.host),
            met_by=host.met_by,
            value=took,
            threshold=limit,
            said=f"{host.answered:,} answers in {host.window_seconds:.0f} s took {took:.1f} s on"
            f" average, longer than {limit:.1f} s{_waiting(host)}",
        )


def _waiting(host: HostSample) -> str:
    return f"; {host.parked:,} requests wait for it" if host.parked else ""


def unknown_of_host(host: HostSample, thresholds: Thresholds) -> Iterator[str]:
    """Keys of findings of which nobody can say that there is nothing to be found."""
    place = host_place(host.host)
    if _is_held_back(host) and not any(_throttled(host, thresholds)):
        yield key_of(Kind.HOST_THROTTLED, place)
    if host.asked < thresholds.host_answers and any(_failing(host, thresholds)):
        yield key_of(Kind.HOST_FAILING, place)
    if host.answered < thresholds.host_answers and any(_slow(host, thresholds)):
        yield key_of(Kind.HOST_SLOW, place)


def host_place(host: str) -> Place:
    """Where it is."""
    return Place(part=HOST, name=one_line(host, 260))


def _is_held_back(host: HostSample) -> bool:
    return host.throttled or host.backing_off_until is not None or host.strain > 0


def _refuses(host: HostSample) -> bool:
    """Whether it has refused often enough in a row, and something is or will be asked of it."""
    wanted = host.asked or host.parked or host.backing_off_until is not None
    return host.strain >= IN_A_ROW and bool(wanted)


def _share(host: HostSample) -> float:
    """Of its answers those that ask for less; all, where it is held back and nothing is asked."""
    if not host.asked:
        return float(_is_held_back(host))
    return host.strained / host.asked

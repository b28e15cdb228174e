"""Which hosts people are shown, and how each is doing (SPEC.md A11, C6).

There may be a hundred thousand of them; what one wants to see is those that refuse, and those that
most is asked of.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice, zip_longest
from typing import Final, TypeVar

from crawlfleet.model.politeness import HostState, Parked
from crawlfleet.model.sample import HostSample
from crawlfleet.model.worker import Pulse

T = TypeVar("T")

#: Hosts in a sample, those with incidents not counted.
SHOWN: Final = 50
#: Hosts that are looked at to find these; two round trips.
LOOKED_AT: Final = 1_000
#: Of each lane, hosts that something waits for.
WAITING_EACH: Final = 50
#: Of each tenant, hosts that have refused or failed lately; and how many of all tenants are looked
#: at for that, in turn by tenant.
TROUBLED_EACH: Final = 50
TROUBLED_PLACES: Final = LOOKED_AT // 4
#: A window without answers is taken to be so long.
_WINDOW_SECONDS: Final = 60.0


def candidates(
    pulses: Iterable[Pulse], parked: Iterable[Parked], troubled: Iterable[Sequence[str]] = ()
) -> tuple[list[str], Counter[str]]:
    """Hosts worth a look, and how much waits for each.

    Those that have refused or failed lately come first, of each tenant in turn; then those that
    most waits for: what asks for less makes others wait. Then those at which workers say that they
    have something under way, by how many say so.
    """
    waiting: Counter[str] = Counter()
    for one in parked:
        waiting[one.host] += one.count
    busy = Counter(host for pulse in pulses for host, _ in pulse.card.hosts)
    half = LOOKED_AT // 2
    names = dict.fromkeys(islice(dict.fromkeys(_in_turn(troubled)), TROUBLED_PLACES))
    for host, _ in waiting.most_common(half):
        if len(names) < half:
            names.setdefault(host)
    for host, _ in (*busy.most_common(LOOKED_AT), *waiting.most_common(LOOKED_AT)):
        if len(names) >= LOOKED_AT:
            break
        names.setdefault(host)
    return list(names), waiting


def host_sample(state: HostState, waiting: int, met_by: str = "") -> HostSample:
    """A host as people see it."""
    asked = state.answered + state.strained
    return HostSample(
        host=state.host,
        window_seconds=state.window_seconds or _WINDOW_SECONDS,
        answered=state.answered,
        failed=state.failed,
        strained=state.strained,
        latency_seconds=state.spent_seconds / state.answered if state.answered else None,
        success_share=(state.answered - state.failed) / asked if asked else None,
        throttled=state.back_off_until is not None or state.strain > 0,
        backing_off_until=state.back_off_until,
        strain=state.strain,
        interval_seconds=state.interval_seconds,
        running=state.running,
        parked=waiting,
        met_by=met_by,
    )


def shown(
    samples: Sequence[HostSample], most: int = SHOWN, watched: Collection[str] = ()
) -> list[HostSample]:
    """The worst first, then the busiest.

    Of ``most`` places new ones that are bad get half, of each tenant that has met some in turn:
    those of one hide nobody else's. Those that are ``watched`` are shown whatever their number, and
    take none of these places.

    >>> calm, busy = HostSample(host="a", answered=1), HostSample(host="b", answered=9)
    >>> bad = HostSample(host="c", strained=1, throttled=True)
    >>> [one.host for one in shown([calm, busy, bad], 2)]
    ['c', 'b']
    """
    bad = sorted((one for one in samples if _badness(one) > (False, 0, 0)), key=_worst_first)
    of_tenant: defaultdict[str, list[HostSample]] = defaultdict(list)
    for one in bad:
        if one.host not in watched:
            of_tenant[one.met_by].append(one)
    # In the order of the samples: whose turn it is is for who has looked for them.
    tenants = dict.fromkeys(one.met_by for one in samples if one.met_by in of_tenant)
    new = {
        one.host for one in islice(_in_turn(of_tenant[tenant] for tenant in tenants), -(-most // 2))
    }
    worst = [one for one in bad if one.host in new or one.host in watched]
    names = {one.host for one in worst}
    rest = sorted((one for one in samples if one.host not in names), key=_busiest_first)
    left = max(0, most - len(new))
    busiest, others = rest[:left], rest[left:]
    return [*worst, *busiest, *(one for one in others if one.host in watched)]


def _in_turn(each: Iterable[Sequence[T]]) -> Iterator[T]:
    """The first of each, then the second of each, and so on.

    >>> list(_in_turn(["abc", "", "de"]))
    ['a', 'd', 'b', 'e', 'c']
    """
    return (one for row in zip_longest(*each) for one in row if one is not None)


def _badness(one: HostSample) -> tuple[bool, int, int]:
    return one.throttled, one.strained, one.failed


def _worst_first(one: HostSample) -> tuple[bool, int, int, str]:
    return not one.throttled, -one.strained - one.failed, -one.strain, one.host


def _busiest_first(one: HostSample) -> tuple[int, int, int, str]:
    return -one.asked, -one.running, -one.parked, one.host

"""Decide which workers may apply for a job, and which of them gets it (SPEC.md B4, B5, B6).

What a job wants of a worker's memory is the highest that its runs took, as a worker that lacks it
ends; of CPU and bandwidth it is their average, as a worker that lacks some is slower for a while.

What a worker cannot read of itself keeps it from nothing: the resources that it can read decide,
and among applicants it counts for as much as the least of those who know. A site that did not
answer keeps it from applying, whatever else is true: it could not do the job.
"""

import math
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from crawlfleet.config.documents.policies import BiddingTerms
from crawlfleet.fleet.models import Remaining
from crawlfleet.jobs.bidding.models import Application, Award, Fit, Probe, Ranked
from crawlfleet.jobs.models import JobDemand, Usage
from crawlfleet.jobs.spiders.models import LinkNeeds

#: Lowered once, a job wants so much of what it wanted.
LOWERED_TO: Final = 0.9
#: A job is given up rather than lowered below this part of its demand.
LEAST_PART: Final = 0.5
#: Scores are compared to so many digits.
_DIGITS: Final = 9
_RESOURCES: Final = ("memory", "cpu", "bandwidth")
_Fault: TypeAlias = Callable[[Application], str | None]


def lowered(times: int) -> float | None:
    """Compute the part of its demand that a job wants that was lowered so often.

    None where that is below a half, as after the seventh time.

    >>> [round(lowered(times) or 0, 3) for times in (0, 1, 6, 7)]
    [1.0, 0.9, 0.531, 0]
    """
    part = LOWERED_TO**times
    return None if part < LEAST_PART else part


def wanted(demand: JobDemand, times: int) -> dict[str, float]:
    """Compute what a job wants of each resource, its demand lowered so often.

    A spider that never ran wants nothing: only latency and speed decide about it (B3).
    """
    if demand.runs == 0:
        return dict.fromkeys(_RESOURCES, 0.0)
    part = LOWERED_TO**times
    usage = demand.usage
    return {
        "memory": part * max(usage.memory, usage.memory_max),
        "cpu": part * usage.cpu,
        "bandwidth": part * usage.bandwidth,
    }


def fits(
    remaining: Remaining,
    probe: Probe,
    demand: JobDemand,
    link: LinkNeeds,
    times: int,
    terms: BiddingTerms,
) -> Fit:
    """Tell whether a worker may apply for a job whose demand was lowered so many ``times``."""
    why = _link_faults(probe, link)
    for resource, want in wanted(demand, times).items():
        left = _left(remaining, resource)
        # Rounding must not keep away one that has to the byte what is asked for.
        if want > 0 and left is not None and left < want * (1 - terms.margin) * (1 - 1e-12):
            had, asked = _amount(resource, left), _amount(resource, want)
            why.append(f"{resource}: {had} left, {asked} wanted")
    return Fit(why_not=tuple(why))


def after(remaining: Remaining, usage: Usage) -> Remaining:
    """Subtract what the readings do not show yet, as of a job just won.

    >>> after(Remaining(memory=5.0, cpu=2.0), Usage(memory=1.0, memory_max=2.0, cpu=3.0))
    Remaining(memory=3.0, cpu=0.0, bandwidth=None)
    """
    return Remaining(
        memory=_less(remaining.memory, max(usage.memory, usage.memory_max)),
        cpu=_less(remaining.cpu, usage.cpu),
        bandwidth=_less(remaining.bandwidth, usage.bandwidth),
    )


def most(one: Remaining, other: Remaining) -> Remaining:
    """Return the larger memory and CPU of two readings.

    The bandwidth of an idle worker is not known, so it keeps it from nothing.

    >>> most(Remaining(memory=5.0, cpu=1.0), Remaining(memory=2.0, cpu=3.0, bandwidth=1.0))
    Remaining(memory=5.0, cpu=3.0, bandwidth=None)
    """

    def greater(*left: float | None) -> float | None:
        return max((each for each in left if each is not None), default=None)

    return Remaining(memory=greater(one.memory, other.memory), cpu=greater(one.cpu, other.cpu))


def award(
    applications: Sequence[Application], terms: BiddingTerms, demand: JobDemand | None = None
) -> Award:
    """Choose the worker that gets a job; of several applications of a worker its last one counts.

    First those are dropped whose first byte comes clearly later than the best one's, then those
    whose bytes come clearly slower than the best of the others. A link as fast as runs
    of the job's spider took (``demand``) is as good as a faster one; where nothing is known, faster
    is better, as a first run on a tenth of the speed lasts ten times as long. Then the highest
    weighted sum of what is left wins, each resource as a part of the most that one of them has, so
    that no unit decides. The sum of a worker that has won k jobs lately is divided by k + 1:
    readings lag, and jobs that come at once would else all go to the same worker. The worker's name
    breaks a tie. Raises ValueError (nobody has applied).
    """
    if not applications:
        raise ValueError("nobody has applied")
    standing = {one.worker: one for one in sorted(applications, key=lambda each: each.at)}
    applicants = [standing[worker] for worker in sorted(standing)]
    dropped: list[Ranked] = []
    near = _not_dropped(applicants, dropped, _later(applicants, terms))
    swift = _not_dropped(near, dropped, _slower(near, terms, _enough(demand)))
    scores = _scores(swift, terms)
    order = sorted(swift, key=lambda one: (-scores[one.worker], one.worker))
    ranked = [
        Ranked(worker=one.worker, score=scores[one.worker], why=_why(one, scores[one.worker]))
        for one in order
    ]
    return Award(winner=order[0], ranking=(*ranked, *dropped))


def describe_demand(demand: JobDemand, link: LinkNeeds) -> str:
    """Describe what a job wants before it is lowered, for people.

    >>> usage = Usage(memory=1e9, memory_max=2e9, cpu=0.5)
    >>> demand = JobDemand(tenant="a", biz="b", spider="c", runs=3, usage=usage)
    >>> describe_demand(demand, LinkNeeds(seconds_below=0.2))
    'memory 2.0 GB, cpu 0.50 GHz, below 200 ms to the first byte'
    """
    wants = wanted(demand, 0).items()
    words = [f"{resource} {_amount(resource, want)}" for resource, want in wants if want]
    if link.seconds_below is not None:
        words.append(f"below {1000 * link.seconds_below:.0f} ms to the first byte")
    if link.bytes_per_second_above is not None:
        words.append(f"above {_bytes(link.bytes_per_second_above)}/s")
    return ", ".join(words) or "nothing but an answer of its site"


def _link_faults(probe: Probe, link: LinkNeeds) -> list[str]:
    if probe.seconds is None:
        return [f"link: no answer from the site ({probe.fault or 'nothing was read'})"]
    why = []
    # Not "longer than": a reading that is no number is above and below nothing.
    if link.seconds_below is not None and not probe.seconds < link.seconds_below:
        found, most = f"{1000 * probe.seconds:.0f} ms", f"{1000 * link.seconds_below:.0f} ms"
        why.append(f"link: {found} to the first byte, below {most} wanted")
    least, speed = link.bytes_per_second_above, probe.bytes_per_second
    if least is not None and (speed is None or not speed > least):
        found = "an unknown speed" if speed is None else f"{_bytes(speed)}/s"
        why.append(f"link: {found}, above {_bytes(least)}/s wanted")
    return why


def _later(applicants: Sequence[Application], terms: BiddingTerms) -> _Fault:
    """Make the check that drops an applicant for its latency, with the reason."""
    known = [one.probe.seconds for one in applicants if one.probe.seconds is not None]
    if not known:
        return lambda _: None
    best = min(known)

    def later(one: Application) -> str | None:
        seconds = one.probe.seconds
        if seconds is None:
            return "dropped: the site did not answer it, and others it did"
        if seconds - best < terms.slower_seconds:
            return None
        return f"dropped: {1000 * (seconds - best):.0f} ms later than the best"

    return later


def _enough(demand: JobDemand | None) -> float:
    """Return the speed beyond which more is of no use to a job, infinite where that is unknown.

    A probe is one download, a run several: what one alone reaches is enough for all.
    """
    taken = 0.0 if demand is None else wanted(demand, 0)["bandwidth"]
    return taken if taken > 0 else math.inf


def _slower(applicants: Sequence[Application], terms: BiddingTerms, enough: float) -> _Fault:
    """Make the check that drops an applicant for its speed; an unknown one drops nobody."""
    best = max((one.probe.bytes_per_second or 0.0 for one in applicants), default=0.0)
    best = min(best, enough)

    def slower(one: Application) -> str | None:
        speed = one.probe.bytes_per_second
        if speed is None or speed * terms.slower_times > best or speed >= best:
            return None
        times = f"{best / speed:.3g} times slower" if speed > 0 else "standing still"
        what = "than it takes" if best == enough else "beside the best"
        return f"dropped: {times} {what} ({_bytes(best)}/s)"

    return slower


def _not_dropped(
    applicants: Sequence[Application], dropped: list[Ranked], fault: _Fault
) -> list[Application]:
    kept = []
    for one in applicants:
        why = fault(one)
        if why is None:
            kept.append(one)
        else:
            dropped.append(Ranked(worker=one.worker, score=None, why=why))
    return kept


def _scores(applicants: Sequence[Application], terms: BiddingTerms) -> dict[str, float]:
    sums = dict.fromkeys((one.worker for one in applicants), 0.0)
    for resource in _RESOURCES:
        weight: float = getattr(terms.weights, resource)
        left = {one.worker: _left(one.remaining, resource) for one in applicants}
        known = [value for value in left.values() if value is not None]
        most, least = max(known, default=0.0), min(known, default=0.0)
        if most <= 0:
            continue
        for worker, value in left.items():
            sums[worker] += weight * (least if value is None else value) / most
    divisors = {one.worker: 1 + max(0, one.lately) for one in applicants}
    return {worker: round(sums[worker] / count, _DIGITS) for worker, count in divisors.items()}


def _left(remaining: Remaining, resource: str) -> float | None:
    left: float | None = getattr(remaining, resource)
    return max(0.0, left) if left is not None and math.isfinite(left) else None


def _why(one: Application, score: float) -> str:
    left = ", ".join(
        f"{resource} {'unknown' if value is None else _amount(resource, value)}"
        for resource, value in ((each, _left(one.remaining, each)) for each in _RESOURCES)
    )
    lately = f"; {one.lately} won lately, divided by {one.lately + 1}" if one.lately > 0 else ""
    return f"{score:.3f} of what is left ({left}{lately})"


def _less(left: float | None, taken: float) -> float | None:
    return None if left is None else max(0.0, left - taken)


def _amount(resource: str, value: float) -> str:
    if resource == "cpu":
        return f"{value:.2f} GHz"
    return _bytes(value) if resource == "memory" else f"{_bytes(value)}/s"


def _bytes(value: float) -> str:
    """Write a size in the largest fitting unit.

    >>> _bytes(1_250_000), _bytes(999), _bytes(3e12)
    ('1.2 MB', '999 B', '3000.0 GB')
    """
    for unit, worth in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= worth:
            return f"{value / worth:.1f} {unit}"
    return f"{value:.0f} B"

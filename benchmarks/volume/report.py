"""Report a run, for people and for programs: figures, charts, and what an hour holds."""

import os
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from rich.table import Table

from benchmarks.charts import timeline
from benchmarks.volume.meters import Look
from benchmarks.volume.run import Phase, Result

#: Moments of a chart.
MOMENTS: Final = 20
_HOUR: Final = 3_600
_MB: Final = 1_000_000
#: Of the machine that all of it shares.
CORES: Final = os.cpu_count() or 1
#: Whose CPU is whose; all else on the machine is others'.
_OURS: Final = ("submitters", "workers")


def hour_of(phases: Sequence[Phase]) -> float:
    """Requests an hour when each goes through all of these, one after the other on one machine.

    >>> a = Phase(name="a", requests=10, seconds=1.0, cpu={})
    >>> hour_of([a, a])
    18000.0
    """
    return _HOUR / sum(phase.seconds / phase.requests for phase in phases)


def figures(result: Result) -> dict[str, float]:
    """The run in plain numbers."""
    submit, drain = result.phase("submit"), result.phase("drain")
    count = result.plan.requests
    full_at = next(look for look in result.looks if look.phase == "full")
    empty_at = result.looks[0]
    found = {
        "requests": count,
        "submitted_per_s": submit.rate,
        "drained_per_s": drain.rate,
        "one_hour_holds": hour_of([submit, drain]),
        "one_hour_holds_by_cpu": _HOUR * CORES / sum(_spent(submit, drain)) * count,
        "redis_bytes_per_request": (full_at.redis_bytes - empty_at.redis_bytes) / count,
        "redis_mb_full": full_at.redis_bytes / _MB,
        "mongo_resident_mb_peak": max(look.mongo_rss_bytes for look in result.looks) / _MB,
        "disk_mb_full": full_at.disk_bytes / _MB,
        "disk_mb_peak": result.peak_disk_bytes / _MB,
        "disk_bytes_per_request": (result.peak_disk_bytes - empty_at.disk_bytes) / count,
        "lost": len(result.problems),
        "looked_for": result.looked_for,
        "batches_sent_again": result.refused,
        "longest_submission_s": max(one["longest_seconds"] for one in result.submitters),
        "worker_peak_mb": max(one["peak_mb"] for one in result.workers),
    }
    for name, value in result.full_lookups.items():
        found[f"lookup_full_{name}_ms"] = value
    for name, value in result.draining_lookups.items():
        found[f"lookup_draining_{name}_ms"] = value
    if result.refill_seconds is not None:
        found["refilled_per_s"] = count / result.refill_seconds
    if any(phase.name == "expire" for phase in result.phases):
        expire = result.phase("expire")
        found["expired_per_s"] = expire.rate
        found["one_hour_holds_with_removal"] = hour_of([submit, drain, expire])
    for phase in result.phases:
        for part, spent in phase.cpu.items():
            found[f"{phase.name}_{part}_cpu_ms_per_request"] = 1_000 * spent / count
    return {key: float(f"{value:.4g}") for key, value in found.items()}


def _spent(*phases: Phase) -> Iterator[float]:
    """CPU seconds of the work itself, without those of measuring it and of others."""
    for phase in phases:
        yield from (phase.cpu.get(part, 0.0) for part in (*_OURS, "mongodb", "redis"))


def document(result: Result) -> dict[str, Any]:
    """Figures first, then everything."""
    whole: dict[str, Any] = msgspec.to_builtins(result)
    return {"figures": figures(result), "hour": sentence(result), **whole}


def sentence(result: Result) -> str:
    """Say what one hour holds, and which part used the machine for it."""
    submit, drain = result.phase("submit"), result.phase("drain")
    used = {
        part: submit.cpu.get(part, 0.0) + drain.cpu.get(part, 0.0)
        for part in {*submit.cpu, *drain.cpu}
    }
    whole = sum(used.values())
    ours = sum(used.get(part, 0.0) for part in _OURS)
    rest = whole - ours - used["mongodb"] - used["redis"]
    held = hour_of([submit, drain])
    by_cpu = _HOUR * CORES / sum(_spent(submit, drain)) * result.plan.requests
    return (
        f"One hour holds {_about(held)} requests, submitted and drained, on this machine of "
        f"{CORES} cores for everything ({_about(24 * held)} a day): {submit.rate:,.0f} a "
        f"second while they are submitted, {drain.rate:,.0f} a second while they are drained, "
        f"measured with {result.plan.requests:,}. Of the CPU that took, {ours / whole:.0%} was "
        f"ours, {used['mongodb'] / whole:.0%} MongoDB's, {used['redis'] / whole:.0%} Redis', "
        f"{rest / whole:.0%} that of measuring and of all else on the machine; without these "
        f"{CORES} cores of CPU would be enough for {_about(by_cpu)} an hour."
    )


def _about(number: float) -> str:
    """A large number in words.

    >>> _about(7_640_000)
    '7.6 million'
    """
    return f"{number / 1e6:,.1f} million" if number < 1e8 else f"{number / 1e6:,.0f} million"


def tables(result: Result) -> Iterator[Table]:
    """The phases, and the figures."""
    title = f"volume, {result.plan.requests:,} requests; cores that each kept busy"
    phases = Table(title=title)
    parts = list(dict.fromkeys(part for phase in result.phases for part in phase.cpu))
    for column in ("phase", "seconds", "a second", *parts):
        phases.add_column(column, justify="left" if column == "phase" else "right")
    for phase in result.phases:
        cores = phase.cores
        busy = (f"{cores[part]:.2f}" if part in cores else "" for part in parts)
        phases.add_row(phase.name, f"{phase.seconds:,.1f}", f"{phase.rate:,.0f}", *busy)
    yield phases
    plain = Table(show_header=False)
    plain.add_column(no_wrap=True)
    plain.add_column(justify="right")
    for name, value in figures(result).items():
        plain.add_row(name, f"{value:,.4g}" if value < 1_000 else f"{value:,.0f}")
    plain.add_section()
    for name, took in result.operations.items():
        plain.add_row(f"{name}, full, ms", f"{took:,.1f}")
    yield plain


def charts(result: Result) -> Iterator[str]:
    """Curves over the whole run, as Mermaid draws them."""
    looks = result.looks
    last = looks[-1].seconds
    moments = [last * (place + 1) / MOMENTS for place in range(MOMENTS)]

    def curve(value: Callable[[Look], float]) -> list[float]:
        return [value(look_at(looks, moment)) for moment in moments]

    def rate(value: Callable[[Look], int]) -> list[float]:
        starts = [0.0, *moments[:-1]]
        return [
            max(0.0, between(looks, value, start, end))
            for start, end in zip(starts, moments, strict=True)
        ]

    yield timeline(
        "requests, thousands",
        moments,
        {
            "not done": curve(lambda look: (look.submitted - look.done) / 1_000),
            "done": curve(lambda look: look.done / 1_000),
            "held by MongoDB": curve(lambda look: look.left / 1_000),
        },
    )
    yield timeline(
        "requests a second",
        moments,
        {
            "submitted": rate(lambda look: look.submitted),
            "drained": rate(lambda look: look.done),
        },
    )
    yield timeline(
        "memory and disk, MB",
        moments,
        {
            "Redis": curve(lambda look: look.redis_bytes / _MB),
            "MongoDB, resident": curve(lambda look: look.mongo_rss_bytes / _MB),
            "MongoDB, disk": curve(lambda look: look.disk_bytes / _MB),
        },
    )


def look_at(looks: Sequence[Look], moment: float) -> Look:
    """The latest look at that moment, or the first."""
    place = bisect_right([look.seconds for look in looks], moment)
    return looks[max(0, place - 1)]


def between(looks: Sequence[Look], value: Callable[[Look], int], start: float, end: float) -> float:
    """Get how much was done a second between two moments, from sample to sample."""
    first, last = look_at(looks, start), look_at(looks, end)
    if last.seconds <= first.seconds:
        return 0.0
    return (value(last) - value(first)) / (last.seconds - first.seconds)


def page(result: Result) -> str:
    """Sentence, charts and phases as a piece of Markdown."""
    rows = "\n".join(_row(phase) for phase in result.phases)
    head = "| phase | seconds | requests a second | cores kept busy |\n|---|---|---|---|"
    return "\n\n".join([sentence(result), f"{head}\n{rows}", *charts(result)]) + "\n"


def _row(phase: Phase) -> str:
    return f"| {phase.name} | {phase.seconds:,.0f} | {phase.rate:,.0f} | {_reported(phase.cores)} |"


def _reported(cores: Mapping[str, float]) -> str:
    return ", ".join(f"{part} {share:.2f}" for part, share in cores.items())

"""What a spider's runs are known to take (SPEC.md B3).

An average is that of all runs, each counting as one: what one run had no reading of, it does not
move. A maximum stays a maximum, where the sources' own text averages it too: the average of maxima
would promise a worker less than every other run takes. But it is that of the latest runs only
(:data:`PEAKS`), so that a spider whose one page once took all memory is not kept from every worker
for ever.
"""

import math
from typing import Final

from msgspec.structs import replace

from crawlfleet.model.usage import JobDemand, Peak, Usage

#: A run's maxima count until so many others have come after it.
PEAKS: Final = 20


def learn(demand: JobDemand, run: Usage) -> JobDemand:
    """The demand with one run more; when that was measured is for the caller to note.

    Whatever a reading says, no figure gets below 0, or anything else than a number.
    """
    known, runs = demand.usage, max(0, demand.runs)
    peak = Peak(
        memory=max(_sound(run.memory_max, 0.0), _sound(run.memory, 0.0)),
        cpu=max(_sound(run.cpu_max, 0.0), _sound(run.cpu, 0.0)),
        bandwidth=max(_sound(run.bandwidth_max, 0.0), _sound(run.bandwidth, 0.0)),
    )
    peaks = (*demand.peaks, peak)[-PEAKS:]
    memory = _average(known.memory, runs, run.memory)
    cpu = _average(known.cpu, runs, run.cpu)
    bandwidth = _average(known.bandwidth, runs, run.bandwidth)
    usage = Usage(
        memory=memory,
        cpu=cpu,
        bandwidth=bandwidth,
        # Where the great ones were long ago the average may be above all the latest maxima.
        memory_max=max(memory, *(one.memory for one in peaks)),
        cpu_max=max(cpu, *(one.cpu for one in peaks)),
        bandwidth_max=max(bandwidth, *(one.bandwidth for one in peaks)),
    )
    return replace(demand, runs=runs + 1, usage=usage, peaks=peaks)


def _average(known: float, runs: int, value: float) -> float:
    before = _sound(known, 0.0)
    run = _sound(value, before)
    if runs == 0:
        return run
    found = before + (run - before) / (runs + 1)
    return min(max(found, min(before, run)), max(before, run))  # whatever rounding does


def _sound(value: float, otherwise: float) -> float:
    """A reading that is one: a number, not below 0."""
    return float(value) if math.isfinite(value) and value >= 0 else otherwise

"""What a run takes of a worker (SPEC.md B2, B3, B10), and what a worker has left of it (B4).

The CPU index is SPEC.md's: frequency in GHz times cores times how much of them is used; what is
left of a worker's is the same of what is not used.
"""

from datetime import datetime

import msgspec


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Of one run, or of many: how much it takes, on average over its time and at its highest.

    Memory in bytes, bandwidth in bytes a second, CPU as the index. Nothing is below 0.
    """

    memory: float = 0.0
    memory_max: float = 0.0
    cpu: float = 0.0
    cpu_max: float = 0.0
    bandwidth: float = 0.0
    bandwidth_max: float = 0.0


class Peak(msgspec.Struct, frozen=True, kw_only=True):
    """The highest that one run took of each resource."""

    memory: float = 0.0
    cpu: float = 0.0
    bandwidth: float = 0.0


class JobDemand(msgspec.Struct, frozen=True, kw_only=True):
    """What the runs of a spider have taken so far: ``usage`` is their average, weighted by runs.

    The maxima are those of the latest runs, whose ``peaks`` are kept for that, the newest last
    (policy.demand). ``runs`` 0 is a spider that never ran, whose demand is nothing: only latency
    and speed decide about it. ``spider`` is what is learnt for: a kept spider's name, or that of a
    rule whose jobs have none.
    """

    tenant: str
    biz: str
    spider: str
    runs: int = 0
    usage: Usage = Usage()
    peaks: tuple[Peak, ...] = ()
    measured_at: datetime | None = None


class Remaining(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker has left, from real readings; None is what this machine does not tell.

    Attributes:
        memory: Bytes until the function's memory, or the control group's, is full.
        cpu: The index of what is not used: GHz times cores times the idle part.
        bandwidth: Bytes a second that it has been seen to move and does not move now; None unless
            it moves half of that or more, as what it could is not known otherwise.
    """

    memory: float | None = None
    cpu: float | None = None
    bandwidth: float | None = None


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """What the way to a site was like: one request for the test link, or why there was none.

    ``seconds`` until the first byte, connecting included; ``bytes_per_second`` of the body. Both
    are None where the site gave no answer, and ``fault`` then says why in words for people.
    """

    at: datetime
    seconds: float | None = None
    bytes_per_second: float | None = None
    fault: str | None = None

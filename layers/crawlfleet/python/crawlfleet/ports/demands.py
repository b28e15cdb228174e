"""What runs took, one by one, and what spiders are known to take (SPEC.md B3, B10)."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from crawlfleet.model.run import RunFigures, RunPart, RunRecord
from crawlfleet.model.usage import JobDemand


class DemandStore(Protocol):
    """Demands and runs of all tenants."""

    def add_run(self, parts: Sequence[RunPart], now: datetime) -> None:
        """Keep what workers have measured of runs; a part takes the place of the one it was.

        So it does no harm to say it again. Kept for a month after it was last said.
        """
        ...

    def measured(self, tenant: str, biz: str, job: str) -> RunFigures:
        """What the parts of a job come to together; nothing where there are none."""
        ...

    def end_run(self, run: RunRecord) -> None:
        """Keep that a run has ended, to be closed later; until it is, the last word counts.

        A closed one is open again where its job was retried since (``retries``): its figures and
        whether it was learnt from stay. Otherwise nothing changes.
        """
        ...

    def forget_end(self, run: RunRecord) -> None:
        """It has not ended after all; one that is closed, or ended at another time, stays.

        One that was closed before goes back to that.
        """
        ...

    def tenants_to_learn(self, before: datetime) -> list[str]:
        """Tenants that have runs which ended before a moment and are not closed."""
        ...

    def to_learn(self, tenant: str, before: datetime, limit: int) -> list[RunRecord]:
        """Such runs of one tenant, the longest ended first."""
        ...

    def close_run(self, run: RunRecord, known: JobDemand, learnt: JobDemand | None) -> bool:
        """Close a run with its figures, and keep what was learnt from it, both or none.

        On the condition that the run is open, with this end, and that the demand has as many runs
        as ``known`` (0: there is none yet), for which ``learnt`` is kept; None leaves it alone.
        False where one of both stands otherwise by now: nothing is written then. Its parts are
        removed.
        """
        ...

    def get(self, tenant: str, biz: str, spider: str) -> JobDemand | None:
        """What the runs of a spider have taken, or None where there was none."""
        ...

    def of_biz(self, tenant: str, biz: str, after: str | None, limit: int) -> list[JobDemand]:
        """Demands by the spider's name, beginning after a name."""
        ...

    def run(self, tenant: str, biz: str, job: str) -> RunRecord | None:
        """The run of a job that has ended, or None."""
        ...

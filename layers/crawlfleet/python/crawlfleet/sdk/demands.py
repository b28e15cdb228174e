"""What runs take, in the SDK: demands of spiders, and the run of a job."""

from datetime import datetime

import msgspec

from crawlfleet.sdk.calls import Calls
from crawlfleet.sdk.pages import Pages
from crawlfleet.sdk.paths import parameters, path_of

#: Entries of one page of a list.
PAGE_SIZE = 500


class Amount(msgspec.Struct, frozen=True, kw_only=True):
    """Of one resource: on average while it ran, and at its highest."""

    average: float = 0.0
    maximum: float = 0.0


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """What is taken of a worker: bytes, the CPU index (GHz in use), bytes a second."""

    memory: Amount = Amount()
    cpu: Amount = Amount()
    bandwidth: Amount = Amount()


class Demand(msgspec.Struct, frozen=True, kw_only=True):
    """What a spider's runs have taken: an average of all ``runs``, the maxima of the latest 20."""

    spider: str
    runs: int = 0
    measured_at: datetime | None = None
    usage: Usage = Usage()

    @property
    def id(self) -> str:
        """What tells it from the others of its biz: the spider."""
        return self.spider


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """The run of a job. While it goes on ``ended_at`` is None, and all of it is up to now.

    ``usage`` is what it took of each worker, ``seconds`` the time of all ``workers`` together in
    which tasks of it were under way. ``requests`` counts attempts, ``errors`` those that failed,
    ``counts`` its tasks by how they ended. ``learnt_at`` is when it became part of the demand.
    """

    job: str
    spider: str | None = None
    usage: Usage = Usage()
    seconds: float = 0.0
    workers: int = 0
    requests: int = 0
    records: int = 0
    errors: int = 0
    bytes: int = 0
    counts: dict[str, int] = {}
    started_at: datetime | None = None
    ended_at: datetime | None = None
    learnt_at: datetime | None = None


class DemandsPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of demands, as it travels."""

    demands: tuple[Demand, ...]
    cursor: str | None = None
    more: bool = False


class DemandCalls(Calls):
    """Reading demands, and the run of a job."""

    def demands(self, biz: str, *, page_size: int = PAGE_SIZE) -> Pages[Demand]:
        """What the runs of each spider or rule take of a worker, by name."""
        path = path_of(biz, "demands")

        def read(at: str | None) -> tuple[tuple[Demand, ...], str | None, bool]:
            page = self._get(path, DemandsPage, parameters(limit=page_size, cursor=at))
            return page.demands, page.cursor, page.more

        return Pages(read, None, clock=self._clock)

    def demand(self, biz: str, spider: str) -> Demand:
        """What the runs of one take.

        Raises:
            NotFoundError: nothing was learnt of it yet.
        """
        return self._get(path_of(biz, "demands", spider), Demand)

    def run(self, biz: str, job: str) -> Run:
        """What the run of a job took; while it goes on, up to now.

        Raises:
            NotFoundError: nothing was measured of such a job, or it was more than a month ago.
        """
        return self._get(path_of(biz, "jobs", job, "run"), Run)

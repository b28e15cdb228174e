"""What a worker does for the fleet beside its pages, in rounds: each method blocks, in a thread.

It looks whether others died and has them replaced, asks whether it is one too many, recovers what
is lost, ends cancelled jobs and awards those that wait when it is its turn, makes tasks of jobs,
hands out seeds, and stores the items of the data queue. A pool that takes bound work alone leaves
recovery, seeds and items to the usual workers: what they make is theirs to do.
"""

import threading
from collections.abc import Callable, Mapping, Sequence

from crawlfleet.config.lookup import shares_work
from crawlfleet.crawling.frontier.worker import FrontierClient
from crawlfleet.crawling.records.pipeline import Drainer
from crawlfleet.fleet.models import Throughput, WorkReport
from crawlfleet.fleet.recovery.reaper import reap
from crawlfleet.fleet.recovery.service import LOCK as RECOVERY
from crawlfleet.fleet.recovery.service import recover
from crawlfleet.fleet.scaling import replace_dead, report_throughput
from crawlfleet.jobs.background import LOCK as ADVANCING
from crawlfleet.jobs.background import advance, can_advance
from crawlfleet.jobs.bidding.auction import OFF_EVERY, award_jobs
from crawlfleet.jobs.cancellation import ROUND_SECONDS, cancel_jobs
from crawlfleet.worker.ports import WorkPorts


class BackgroundTasks:
    """The rounds of one worker.

    Args:
        ports: What the rounds are done through.
        worker: Whose they are.
        sower: Hands out seeds.
        report: Counts what was done.
        time_left: How many seconds a round may go on.
    """

    def __init__(
        self,
        ports: WorkPorts,
        worker: str,
        frontier: FrontierClient,
        report: WorkReport,
        time_left: Callable[[], float],
    ) -> None:
        self._ports = ports
        self._id = worker
        self._frontier = frontier
        self._drainer = Drainer(ports.draining, worker, ports.clock)
        self._report = report
        self._time_left = time_left
        self._recovering = threading.Lock()
        self._dispatching = threading.Lock()
        self._advancing = threading.Lock()
        self._ending = False
        self._pauses, self._now = ports.pauses, ports.steady.now
        self._awarded_at = self._now()
        #: Whether this worker is to leave, whatever there is to do.
        self.is_surplus = False
        #: How many other workers live, when it was last asked; None before that.
        self.others: int | None = None
        #: How many workers are kept available by stated needs, as far as it was told.
        self.floor = 0

    @property
    def are_shared(self) -> bool:
        """Whether this worker hands out seeds, stores items and recovers: its pool may not."""
        return shares_work(self._ports.config.current().stage, self._ports.pool)

    def reap(self) -> None:
        """Look whether other workers have died; their places are filled at once."""
        ports = self._ports
        found = reap(ports.reaper, ports.config.current(), self._id, ports.clock())
        self._report.buried += len(found.dead)
        if found.dead:
            replace_dead(ports.targets, found.pools, ports.clock)

    def report_throughput(
        self, throughput: Throughput | None, throughputs: Mapping[str, Throughput]
    ) -> None:
        """Tell what this worker can do in a second, and ask whether it is one too many."""
        ports = self._ports
        told = report_throughput(ports.targets, self._id, throughput, ports.clock(), throughputs)
        if told is not None:
            self.is_surplus = self.is_surplus or told.leaves
            self.others, self.floor = told.others, told.floor

    def recover(self) -> None:
        """Bring back what is lost, if it is this worker's turn to."""
        ports = self._ports
        if not self.are_shared:
            return

        def time_left() -> float:
            return 0.0 if self._ending else self._time_left()

        with self._recovering:
            recover(ports.recovery, ports.config.current(), self._id, ports.clock(), time_left)

    def advance(self) -> None:
        """Make tasks of jobs, and end those that have none open, if it is this worker's turn."""
        ports, until = self._ports, self._now() + self._pauses.advance_round

        def time_left() -> float:
            return 0.0 if self._ending else min(self._time_left(), until - self._now())

        with self._advancing:
            if time_left() > 0:
                tree = ports.config.current()
                done = advance(ports.advancing, tree, self._id, ports.clock, time_left)
                self._report.tasks += done.tasks

    def can_advance(self) -> bool:
        """Whether there is a job that tasks can be made of, once this worker's round has ended.

        What a round that is under way has made is queued when this returns.
        """
        with self._advancing:
            return can_advance(self._ports.advancing, self._ports.clock())

    def dispatch_seeds(self) -> int:
        """Make requests of seeds that are due; how many."""
        # Who leaves has to see what the round before it has made: seeds that are handed out are
        # not ready any more, and their requests are queued a moment later.
        with self._dispatching:
            if self._ending or not self.are_shared:
                return 0
            return self._frontier.dispatch(self._ports.config.current())

    def drain(self) -> None:
        """Make records of the data queue's items."""
        if not self._ending and self.are_shared:
            self._report.items += self._drainer.drain(self._ports.config.current())

    def cancel(self) -> None:
        """Go on with the jobs that are being cancelled, if it is this worker's turn to."""
        ports, ends_at = self._ports, self._now() + ROUND_SECONDS

        def time_left() -> float:
            left = 0.0 if self._ending else self._time_left()
            return min(left, ends_at - self._now())

        if not self._ending:
            tree, detector = ports.config.current(), ports.recovery.detector
            cancel_jobs(ports.cancelling, detector, tree, self._id, ports.clock(), time_left)

    def award(self) -> None:
        """Give jobs that wait to workers that applied, if it is this worker's turn to."""
        ports, now = self._ports, self._now()
        tree = ports.config.current()
        # Where jobs wait for nobody there is next to nothing to do.
        every = 0.0 if tree.stage.bidding is not None else OFF_EVERY.total_seconds()
        if now - self._awarded_at < every:
            return
        self._awarded_at, until = now, now + self._pauses.award_round

        def time_left() -> float:
            return 0.0 if self._ending else min(self._time_left(), until - self._now())

        if time_left() > 0:
            award_jobs(ports.awarding, tree, self._id, ports.clock, time_left)

    def rounds(self) -> Sequence[tuple[float, Callable[[], object]]]:
        """How often each is done that needs nothing from outside."""
        pauses = self._pauses
        return (
            (pauses.watch, self.reap),
            (pauses.recover, self.recover),
            (pauses.cancel, self.cancel),
            (pauses.dispatch_seeds, self.dispatch_seeds),
            (pauses.drain, self.drain),
            (pauses.advance, self.advance),
            (pauses.award, self.award),
        )

    def stop(self) -> None:
        """Begin no round any more."""
        self._ending = True

    def end(self) -> None:
        """Recover no more, and keep nobody else from it.

        A round that does not end soon is frozen with this worker, and its turn would be with it.
        """
        if self._recovering.acquire(timeout=self._pauses.round_end):
            self._recovering.release()
        else:
            self._ports.recovery.detector.release_lock(RECOVERY, self._id)
        # A batch stands written down, for others to go on with.
        if self._advancing.acquire(timeout=self._pauses.round_end):
            self._advancing.release()
        else:
            self._ports.advancing.detector.release_lock(ADVANCING, self._id)
        # Seeds that are handed out here are to have their requests before this is frozen.
        if self._dispatching.acquire(timeout=self._pauses.round_end):
            self._dispatching.release()

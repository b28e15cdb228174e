"""Assign jobs by bidding, round-robin, random and least-loaded, and compare (SPEC.md B2-B6).

A simulation, as a hundred workers are not to be had here. Workers, links and sites are made up; who
may apply, who gets a job, what is learnt of a run and how demands are lowered is decided by the
product's own policy (jobs.bidding.selection, jobs.usage, jobs.bidding.listing). The same jobs, on
the same workers, under each policy; benchmarks/assignment_rounds.py plays and compares them.

How a worker slows down: its jobs want processor (GHz) and bandwidth. Where they want more than it
has of one, each gets that part of what it wants; a job advances by the least of its parts, and of
what the link to its site carries. Beside that each job waits for its site, by the link's latency
times its requests over its connections. Where its jobs come to more memory than a worker has, it is
killed: it is back after RESTART_SECONDS, and its jobs are placed anew with what they had done, less
what was under way (LOST_PART).

Memory kills under every policy alike. Under bidding it does so where a job is not known yet, or
takes more than its spider's runs did; the others are killed by it often only because they never
look at what a job takes or what a worker has left. All know each machine's true size: bidding
as a reading, the others as the number of jobs that it takes at once.

Bidding only knows what it has learnt: each spider's first runs come with no demand. Readings are
late: a job shows in them READ_SECONDS after its begin. A worker reads so many jobs from the head.
The others know nothing of jobs and links. Each worker takes so many jobs at once for its memory as
an operator would set who has tried every number of SLOTS_PER_GB on these very jobs, each with those
that were killed placed first or last, and keeps what leaves fewest undone and has the shortest
mean; with too many, workers are killed faster than they end jobs. Least-loaded sees how full
workers are at this moment, which no real one does.

benchmarks/assignment_waste.py explains what counts as waste.
"""

import heapq
import math
import random
import statistics
from collections import deque
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from benchmarks.assignment_policies import chooser
from benchmarks.assignment_scene import MB, Due, Machine, Outcome, Scene, Task
from benchmarks.assignment_waste import Waste
from benchmarks.bench import BenchError
from crawlfleet.config.documents.policies import BiddingTerms
from crawlfleet.fleet.models import Remaining
from crawlfleet.jobs.bidding.listing import Step, decide, noted
from crawlfleet.jobs.bidding.models import Application, Decline, Probe, WhyNot
from crawlfleet.jobs.bidding.selection import after, award, fits
from crawlfleet.jobs.models import JobDemand, Usage
from crawlfleet.jobs.usage import learn

READ_SECONDS: Final = 5.0
RESTART_SECONDS: Final = 5.0
LOST_PART: Final = 0.05
LATEST_SECONDS: Final = 3_600.0
#: The likeliest first; with five, workers are killed faster than they end jobs.
SLOTS_PER_GB: Final = (3.0, 3.5, 4.0, 2.5, 2.0, 1.5, 1.0, 4.5, 5.0)
#: Jobs that a worker reads from the head before it comes again.
READ_AHEAD: Final = 20
TERMS: Final = BiddingTerms()
BIDDING: Final = "bidding"
#: Moments at which it is noted how many wait lie so far apart, at least.
NOTED_SECONDS: Final = 30.0
_EPOCH: Final = datetime(2026, 1, 1, tzinfo=UTC)


class Simulation:
    """The simulation of a policy over a scene.

    ``slots`` are those for a GB of a worker, where it has any; ``killed_last`` places the jobs of a
    worker that was killed after all others, not before them.
    """

    def __init__(
        self,
        scene: Scene,
        policy: str,
        seed: int,
        terms: BiddingTerms,
        slots: float = SLOTS_PER_GB[0],
        *,
        killed_last: bool = False,
    ) -> None:
        self._scene = scene
        for machine in scene.machines:
            machine.slots = max(1, round(slots * machine.memory / (1_000 * MB)))
        self._terms = terms
        self._rng = random.Random(seed)
        self._now = 0.0
        self._events: list[tuple[float, int, str, object]] = []
        self._count = 0
        self._queue: deque[Task] = deque()
        self._demands: dict[str, JobDemand] = {}
        self.ended: list[Task] = []
        self._unplaced = 0
        self._killed = self._misplaced = 0
        self._killed_last = killed_last
        self._on_workers = 0.0
        self._waste = Waste(scene)
        # Those that have come and not ended: how many, and the sum of when they came; and the sum
        # of the seconds of those that have ended.
        self._under_way, self._came, self._seconds = 0, 0.0, 0.0
        self._measured_at = 0.0
        self._bids = policy == BIDDING
        if not self._bids:
            self._choose = chooser(policy, len(scene.machines), self._rng)
        self._round_comes = False
        self.waiting: list[list[float]] = []

    def run(self, mean: float = math.inf, most_killed: float = math.inf) -> Outcome:
        """Until every job has ended, or is out; or it is sure to have a longer mean than that.

        Or until more workers than that are killed.
        """
        tasks = self._scene.tasks
        for task in tasks:
            self._at(task.at, "comes", task)
        latest = tasks[-1].at + LATEST_SECONDS
        while len(self.ended) + self._unplaced < len(tasks):
            if not self._events:
                raise BenchError("assignment: jobs were lost")
            least = self._seconds + self._under_way * self._now - self._came
            if self._now > latest or self._killed > most_killed or least > mean * len(tasks):
                break
            at, _, what, whom = heapq.heappop(self._events)
            self._account(at)
            self._now = at
            getattr(self, f"_{what}")(whom)
        return self._outcome()

    def _outcome(self) -> Outcome:
        over = {task.number for task in self.ended}
        late = [task for task in self._scene.tasks if task.number not in over]
        late = late if len(over) + self._unplaced < len(self._scene.tasks) else []
        # What has not ended by now counts as if it did: that is too good for whoever has such.
        flows = [task.ended - task.at for task in self.ended]
        flows = sorted(flows + [max(0.0, self._now - task.at) for task in late])
        end = self._now if late else max(task.ended for task in self.ended)
        for task in (task for machine in self._scene.machines for task in machine.tasks):
            self._waste.on_worker(task, end - task.began)
        full = sum(task.full for task in self.ended)
        self.waiting.append([end, len(self._queue)])
        return Outcome(
            makespan=end - self._scene.tasks[0].at,
            mean=statistics.fmean(flows),
            p95=flows[int(0.95 * (len(flows) - 1))],
            waste=self._waste.held + self._waste.free,
            thrown_away=self._waste.thrown_away,
            free=self._waste.free,
            slowdown=self._on_workers / full if full else math.inf,
            killed=self._killed,
            misplaced=self._misplaced,
            unplaced=self._unplaced,
            unfinished=len(late),
            waiting=self.waiting,
        )

    def _at(self, at: float, what: str, whom: object) -> None:
        self._count += 1
        heapq.heappush(self._events, (at, self._count, what, whom))

    def _account(self, until: float) -> None:
        self._waste.pass_time(self._queue, until)
        if until - self._measured_at >= NOTED_SECONDS:
            self._measured_at = until
            self.waiting.append([until, len(self._queue)])

    # ---- events --------------------------------------------------------------------------------

    def _comes(self, task: object) -> None:
        assert isinstance(task, Task)
        task.waits_since = self._now
        self._under_way += 1
        self._came += task.at
        self._wait(task)
        self._place_soon()

    def _wait(self, task: Task, *, first: bool = False) -> None:
        if first:
            self._queue.appendleft(task)
        else:
            self._queue.append(task)

    def _waits_no_more(self, task: Task) -> None:
        self._queue.remove(task)

    def _place_soon(self) -> None:
        if not self._bids:
            self._push()
        elif not self._round_comes:
            self._round_comes = True
            self._at(self._now + self._terms.window_seconds, "round", None)

    def _round(self, _: object) -> None:
        self._round_comes = False
        self._bid()
        if self._queue:
            self._place_soon()

    def _up(self, _: object) -> None:
        self._place_soon()

    def _done(self, due: object) -> None:
        assert isinstance(due, Due)
        machine = due.machine
        if machine.version != due.version:
            return
        self._advance(machine)
        for task in [one for one in machine.tasks if one.left <= 1e-6]:
            machine.tasks.remove(task)
            self._end(task)
        self._plan(machine)
        self._place_soon()

    def _end(self, task: Task) -> None:
        task.ended = self._now
        self._under_way -= 1
        self._came -= task.at
        self._seconds += self._now - task.at
        self._leaves(task)
        self._waste.ended(task)
        self.ended.append(task)
        seconds = max(1.0, self._now - task.began)
        part = task.full / seconds  # how much of what it wanted it had, on average
        name = task.spider.name
        run = Usage(
            memory=0.8 * task.memory,
            memory_max=task.memory,
            cpu=task.cpu * min(1.0, part),
            cpu_max=task.cpu,
            bandwidth=task.bandwidth * min(1.0, part),
            bandwidth_max=task.bandwidth,
        )
        self._demands[name] = learn(self._demand(task), run)

    def _leaves(self, task: Task) -> None:
        """Book the time of a task that has left its worker."""
        self._on_workers += self._now - task.began
        self._waste.on_worker(task, self._now - task.began)

    def _demand(self, task: Task) -> JobDemand:
        name = task.spider.name
        known = self._demands.get(name)
        if known is None:
            known = self._demands[name] = JobDemand(tenant="t", biz="b", spider=name)
        return known

    # ---- workers -------------------------------------------------------------------------------

    def _advance(self, machine: Machine) -> None:
        passed, machine.moved_at = self._now - machine.moved_at, self._now
        for task in machine.tasks:
            task.left -= task.rate * passed

    def _plan(self, machine: Machine) -> None:
        """Rates from now on, and when the first of its jobs is done at those."""
        machine.version += 1
        first = math.inf
        for task, rate in self._scene.rates(machine):
            task.rate = rate
            first = min(first, max(0.0, task.left) / rate)
        if machine.tasks:
            self._at(self._now + first, "done", Due(machine, machine.version))

    def _give(self, task: Task, machine: Machine) -> None:
        link = self._scene.links[machine.region][task.spider.site]
        below = task.spider.link.seconds_below
        self._misplaced += below is not None and link.seconds >= below
        self._advance(machine)
        task.began = self._now
        task.placements += 1
        machine.tasks.append(task)
        if sum(one.memory for one in machine.tasks) > machine.memory:
            self._kill(machine)
        self._plan(machine)

    def _kill(self, machine: Machine) -> None:
        self._killed += 1
        machine.down_until = self._now + RESTART_SECONDS
        machine.won.clear()
        gone, machine.tasks = machine.tasks, []
        for task in reversed(gone):
            self._leaves(task)
            left = min(task.full, max(task.left, 0.0) + LOST_PART * task.full)
            self._waste.lost(task, left - max(task.left, 0.0))
            task.left = left
            task.waits_since = self._now
            self._wait(task, first=not self._killed_last)
        self._at(machine.down_until, "up", machine)

    # ---- policies ------------------------------------------------------------------------------

    def _push(self) -> None:
        now, machines = self._now, self._scene.machines
        while self._queue:
            free = [m for m in machines if m.down_until <= now and len(m.tasks) < m.slots]
            if not free:
                return
            task, machine = self._queue[0], self._choose(free)
            self._waits_no_more(task)
            self._give(task, machine)

    def _bid(self) -> None:
        """Run a bidding window: free workers apply for the first fitting job; award jobs."""
        applied: dict[int, Sequence[tuple[Application, Machine]]] = {}
        head = [task for _, task in zip(range(READ_AHEAD), self._queue, strict=False)]
        machines = [one for one in self._scene.machines if one.down_until <= self._now]
        self._rng.shuffle(machines)
        for machine in machines:
            self._apply(machine, head, applied)
        for task in head:
            if task.number in applied:
                self._award(task, applied[task.number])
            elif self._now - task.waits_since >= self._terms.wait_seconds:
                self._lower(task)

    def _apply(
        self,
        machine: Machine,
        head: Sequence[Task],
        applied: dict[int, Sequence[tuple[Application, Machine]]],
    ) -> None:
        remaining = self._remaining(machine)
        for task in head:
            others = applied.get(task.number, ())
            demand = self._demand(task)
            known = task.times, demand.runs
            # It would say the same again.
            if len(others) >= self._terms.applicants or machine.declined.get(task.number) == known:
                continue
            link = self._scene.links[machine.region][task.spider.site]
            probe = Probe(at=_EPOCH, seconds=link.seconds, bytes_per_second=link.speed)
            if fits(remaining, probe, demand, task.spider.link, task.times, self._terms).is_fit:
                application = Application(
                    worker=machine.name,
                    pool="main",
                    remaining=remaining,
                    probe=probe,
                    at=_EPOCH + timedelta(seconds=self._now),
                    lately=len(machine.won),
                )
                applied[task.number] = [*others, (application, machine)]
                return
            machine.declined[task.number] = known
            self._declined(machine, task, demand, probe)

    def _declined(self, machine: Machine, task: Task, demand: JobDemand, probe: Probe) -> None:
        """Note why it does not apply: each kind of answer is as if of a pool of its own."""
        whole = Remaining(memory=machine.memory, cpu=machine.cpu)
        free = fits(whole, probe, demand, task.spider.link, task.times, self._terms)
        kind = WhyNot.BUSY if free.is_fit else WhyNot.LACKS
        now = _EPOCH + timedelta(seconds=self._now)
        said = Decline(kind=kind, lowered=task.times, why="")
        task.notes[kind] = noted(said, task.notes.get(kind), now)

    def _remaining(self, machine: Machine) -> Remaining:
        """Get what its readings say, less what it has won since and they do not show yet."""
        if machine.left_version == machine.version and self._now < machine.left_until:
            return machine.left
        while machine.won and machine.won[0][0] <= self._now - READ_SECONDS:
            machine.won.popleft()
        shown = [task for task in machine.tasks if task.began <= self._now - READ_SECONDS]
        left = Remaining(
            memory=machine.memory - sum(task.memory for task in shown),
            cpu=machine.cpu - sum(task.cpu * task.rate for task in shown),
            bandwidth=machine.bandwidth - sum(task.bandwidth * task.rate for task in shown),
        )
        for _, usage in machine.won:
            left = after(left, usage)
        machine.left, machine.left_version = left, machine.version
        hidden = [task.began for task in machine.tasks if task.began > self._now - READ_SECONDS]
        hidden += [at for at, _ in machine.won]
        machine.left_until = min(hidden, default=math.inf) + READ_SECONDS
        machine.declined.clear()
        return left

    def _award(self, task: Task, applied: Sequence[tuple[Application, Machine]]) -> None:
        demand = self._demand(task)
        winner = award([one for one, _ in applied], self._terms, demand).winner.worker
        machine = next(one for _, one in applied if one.name == winner)
        self._waits_no_more(task)
        machine.won.append((self._now, demand.usage))
        self._give(task, machine)

    def _lower(self, task: Task) -> None:
        """Decide as the product does when no worker has bid in its wait."""
        since, now = (_EPOCH + timedelta(seconds=at) for at in (task.at, self._now))
        kinds = [kind for kind, note in task.notes.items() if note.lowered == task.times]
        decided = decide(task.notes, task.times, kinds or ["nobody"], since, now, self._terms)
        task.waits_since = self._now
        if decided.step is Step.STAY:
            return
        self._waits_no_more(task)
        if decided.step is Step.GIVE_UP:
            self._unplaced += 1
            self._under_way -= 1
            self._came -= task.at
            return
        task.times += decided.step is Step.LOWER
        self._wait(task)

"""Which worker gets which job: bidding beside round-robin, random, least-loaded (SPEC.md B2-B6).

A simulation, as a hundred workers are not to be had here. Workers, links and sites are made up; who
may apply, who gets a job, what is learnt of a run and how demands are lowered is decided by the
product's own policy (policy.bidding, policy.demand). The same jobs, on the same workers, under each
policy; medians over seeds.

How a worker slows down: its jobs want processor (GHz) and bandwidth. Where they want more than it
has of one, each gets that part of what it wants; a job advances by the least of its parts, and of
what the link to its site carries. Beside that each job waits for its site, by the link's latency
times its requests over its connections. Where its jobs come to more memory than a worker has, it is
killed: it is back after RESTART_SECONDS, and its jobs are placed anew with what they had done, less
what was under way (LOST_PART).

Bidding only knows what it has learnt: each spider's first runs come with no demand. Readings are
late: a job shows in them READ_SECONDS after its begin. A worker reads so many jobs from the head.
The others know nothing of jobs and links. Each worker takes so many jobs at once for its memory as
an operator would set who has tried every number of SLOTS_PER_GB on these very jobs, and keeps what
has the shortest mean; with too many, workers are killed faster than they end jobs. Least-loaded
sees how full workers are at this moment, which no real one does.
"""

import heapq
import math
import os
import random
import statistics
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from benchmarks.assignment_scene import MB, Machine, Scene, Task, a_scene
from benchmarks.bench import Bench, BenchError, Found
from crawlfleet.model.bidding import Application, BiddingTerms
from crawlfleet.model.board import Decline, WhyNot
from crawlfleet.model.usage import JobDemand, Probe, Remaining, Usage
from crawlfleet.policy.bidding import after, award, fits
from crawlfleet.policy.board import noted
from crawlfleet.policy.declining import Step, decide
from crawlfleet.policy.demand import learn

WORKERS: Final = 100
READ_SECONDS: Final = 5.0
RESTART_SECONDS: Final = 5.0
LOST_PART: Final = 0.05
LATEST_SECONDS: Final = 3_600.0
CONNECTIONS: Final = 16
SLOTS_PER_GB: Final = (2, 3, 4)
#: A try that takes so many times as long as the best one before it is given up.
PATIENCE: Final = 1.5
#: Jobs that a worker reads from the head before it comes again.
READ_AHEAD: Final = 20
TERMS: Final = BiddingTerms()
TRACES: Final = ("steady", "bursts", "day")
POLICIES: Final = ("bidding", "least-loaded", "round-robin", "random")
_EPOCH: Final = datetime(2026, 1, 1, tzinfo=UTC)


class _Due(msgspec.Struct, frozen=True):
    """A worker's first job is done, unless its jobs are others by then."""

    machine: Machine
    version: int


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one run of a policy.

    Attributes:
        makespan: Seconds from the first arrival to the last end.
        mean: Seconds from a job's arrival to its end; ``p95`` of one in twenty it is longer.
        unused: Part of all processors that waiting jobs wanted, and nobody had.
        slowdown: Seconds on workers over seconds at full speed.
        killed: Workers that ran out of memory.
        misplaced: Jobs whose way to the site was not what they need.
        unplaced: Jobs that nobody applied for until they were out.
        unfinished: Jobs that had not ended LATEST_SECONDS after the last one came.
    """

    makespan: float
    mean: float
    p95: float
    unused: float
    slowdown: float
    killed: int
    misplaced: int
    unplaced: int
    unfinished: int = 0
    waiting: list[list[float]] = []


class Simulation:
    """One policy over one scene; ``slots`` are those for a GB of a worker, where it has any."""

    def __init__(
        self,
        scene: Scene,
        policy: str,
        seed: int,
        terms: BiddingTerms,
        slots: int = SLOTS_PER_GB[0],
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
        self._wanted = 0.0  # the processors of all that wait
        self._next = 0
        self._demands: dict[str, JobDemand] = {}
        self._ended: list[Task] = []
        self._unplaced = 0
        self._killed = self._misplaced = 0
        self._on_workers = 0.0
        self._idle_seconds = self._busy = 0.0
        self._capacity = sum(machine.cpu for machine in scene.machines)
        self._measured_at = 0.0
        self._place: Callable[[], None] = {
            "bidding": self._bid,
            "round-robin": lambda: self._push(self._round_robin),
            "random": lambda: self._push(self._random),
            "least-loaded": lambda: self._push(self._least_loaded),
        }[policy]
        self._bids = policy == "bidding"
        self._round_comes = False
        self.waiting: list[list[float]] = []

    def run(self, longest: float = math.inf) -> Outcome:
        """Until every job has ended, or is out; for so many seconds at most."""
        tasks = self._scene.tasks
        for task in tasks:
            self._at(task.at, "comes", task)
        latest = min(tasks[-1].at + LATEST_SECONDS, tasks[0].at + longest)
        while len(self._ended) + self._unplaced < len(tasks):
            if not self._events:
                raise BenchError("assignment: jobs were lost")
            if self._now > latest:
                break
            at, _, what, whom = heapq.heappop(self._events)
            self._account(at)
            self._now = at
            getattr(self, f"_{what}")(whom)
        return self._outcome()

    def _outcome(self) -> Outcome:
        over = {task.number for task in self._ended}
        late = [task for task in self._scene.tasks if task.number not in over]
        late = late if len(over) + self._unplaced < len(self._scene.tasks) else []
        # What has not ended by now counts as if it did: that is too good for whoever has such.
        flows = [task.ended - task.at for task in self._ended]
        flows = sorted(flows + [self._now - task.at for task in late])
        end = self._now if late else max(task.ended for task in self._ended)
        return Outcome(
            makespan=end - self._scene.tasks[0].at,
            mean=statistics.fmean(flows),
            p95=flows[int(0.95 * (len(flows) - 1))],
            unused=self._idle_seconds / (self._capacity * end),
            slowdown=self._on_workers / sum(task.full for task in self._ended),
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
        if self._queue and until > self._now:
            idle = self._capacity - self._busy
            self._idle_seconds += max(0.0, min(idle, self._wanted)) * (until - self._now)
        if until - self._measured_at >= 30.0:
            self._measured_at = until
            self.waiting.append([until, len(self._queue)])

    # ---- events --------------------------------------------------------------------------------

    def _comes(self, task: object) -> None:
        assert isinstance(task, Task)
        task.waits_since = self._now
        self._wait(task)
        self._place_soon()

    def _wait(self, task: Task, *, first: bool = False) -> None:
        self._wanted += task.cpu
        if first:
            self._queue.appendleft(task)
        else:
            self._queue.append(task)

    def _waits_no_more(self, task: Task) -> None:
        self._queue.remove(task)
        self._wanted = self._wanted - task.cpu if self._queue else 0.0

    def _place_soon(self) -> None:
        if not self._bids:
            self._place()
        elif not self._round_comes:
            self._round_comes = True
            self._at(self._now + self._terms.window_seconds, "round", None)

    def _round(self, _: object) -> None:
        self._round_comes = False
        self._place()
        if self._queue:
            self._place_soon()

    def _up(self, _: object) -> None:
        self._place_soon()

    def _done(self, due: object) -> None:
        assert isinstance(due, _Due)
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
        self._on_workers += self._now - task.began
        self._ended.append(task)
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
        cpu = sum(task.cpu for task in machine.tasks)
        bandwidth = sum(task.bandwidth for task in machine.tasks)
        by_cpu = min(1.0, machine.cpu / cpu) if cpu else 1.0
        by_network = min(1.0, machine.bandwidth / bandwidth) if bandwidth else 1.0
        first = math.inf
        for task in machine.tasks:
            link = self._scene.links[machine.region][task.spider.site]
            by_link = min(1.0, link.speed / task.bandwidth)
            spider = task.spider
            waits = spider.requests * link.seconds / CONNECTIONS / spider.seconds
            task.rate = min(by_cpu, by_network, by_link, 1.0 / max(1.0, waits))
            first = min(first, max(0.0, task.left) / task.rate)
        busy = sum(task.cpu * task.rate for task in machine.tasks)
        self._busy += busy - machine.busy
        machine.busy = busy
        if machine.tasks:
            self._at(self._now + first, "done", _Due(machine, machine.version))

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
            self._on_workers += self._now - task.began
            task.left = min(task.full, max(task.left, 0.0) + LOST_PART * task.full)
            task.waits_since = self._now
            self._wait(task, first=True)
        self._at(machine.down_until, "up", machine)

    # ---- policies ------------------------------------------------------------------------------

    def _push(self, choose: Callable[[Sequence[Machine]], Machine]) -> None:
        now, machines = self._now, self._scene.machines
        while self._queue:
            free = [m for m in machines if m.down_until <= now and len(m.tasks) < m.slots]
            if not free:
                return
            task, machine = self._queue[0], choose(free)
            self._waits_no_more(task)
            self._give(task, machine)

    def _round_robin(self, free: Sequence[Machine]) -> Machine:
        self._next += 1
        names = [int(one.name[1:]) for one in free]
        turn = self._next % len(self._scene.machines)
        at = next((place for place, number in enumerate(names) if number >= turn), 0)
        self._next = names[at]
        return free[at]

    def _random(self, free: Sequence[Machine]) -> Machine:
        return self._rng.choice(free)

    def _least_loaded(self, free: Sequence[Machine]) -> Machine:
        return min(free, key=lambda one: (one.fullness(), one.name))

    def _bid(self) -> None:
        """One window: whoever is free applies for the first job that fits it; then the awards."""
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
        """What its readings say, less what it has won since and they do not show yet."""
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
        """Nobody has applied in its wait: what the product decides then."""
        since, now = (_EPOCH + timedelta(seconds=at) for at in (task.at, self._now))
        kinds = [kind for kind, note in task.notes.items() if note.lowered == task.times]
        decided = decide(task.notes, task.times, kinds or ["nobody"], since, now, self._terms)
        task.waits_since = self._now
        if decided.step is Step.STAY:
            return
        self._waits_no_more(task)
        if decided.step is Step.GIVE_UP:
            self._unplaced += 1
            return
        task.times += decided.step is Step.LOWER
        self._wait(task)


# ---- the benchmark -----------------------------------------------------------------------------


def title_of(trace: str) -> str:
    """How the rounds of a trace are called among a run's details."""
    return f"assignment, seconds from arrival to end, {trace}"


def one_run(asked: tuple[str, str, int, int]) -> Outcome:
    """Trace, policy, jobs, seed: in a process of its own, as nothing is shared."""
    trace, policy, jobs, seed = asked
    if policy == "bidding":
        return Simulation(a_scene(trace, jobs, WORKERS, seed), policy, seed, TERMS).run()
    return tuned(lambda: a_scene(trace, jobs, WORKERS, seed), policy, seed)


def tuned(scene: Callable[[], Scene], policy: str, seed: int) -> Outcome:
    """A policy with the number of slots that suits it best, by the mean of its jobs."""
    first, *others = SLOTS_PER_GB
    best = Simulation(scene(), policy, seed, TERMS, first).run()
    for slots in others:
        longest = math.inf if best.unfinished else PATIENCE * best.makespan
        found = Simulation(scene(), policy, seed, TERMS, slots).run(longest)
        best = min(best, found, key=lambda one: (one.unfinished, one.mean))
    return best


def run(bench: Bench) -> Found:
    """Every policy on every trace, seed by seed; a table, ratios to the best of the others."""
    jobs, seeds = bench.scale.assignment_jobs, range(1, bench.scale.assignment_seeds + 1)
    asked = [(t, p, jobs, seed) for t in TRACES for p in POLICIES for seed in seeds]
    found: dict[tuple[str, str], list[Outcome]] = {}
    with ProcessPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
        for (trace, policy, _, _), outcome in zip(asked, pool.map(one_run, asked), strict=True):
            found.setdefault((trace, policy), []).append(outcome)
            bench.tick(f"assignment, {trace}, {policy}")
    figures = {
        f"assignment_{name}_vs_best": max(_ratio(found, trace, name) for trace in TRACES)
        for name in ("mean", "p95", "makespan")
    }
    details: dict[str, object] = {
        title_of(trace): {
            policy: [round(one.mean, 3) for one in found[trace, policy]] for policy in POLICIES
        }
        for trace in TRACES
    }
    details["assignment, all figures"] = {
        f"{trace}, {policy}": [msgspec.to_builtins(one) for one in outcomes]
        for (trace, policy), outcomes in found.items()
    }
    return Found(figures=figures, details=details, notes=[table(found, jobs)])


def _ratio(found: Mapping[tuple[str, str], Sequence[Outcome]], trace: str, name: str) -> float:
    """Bidding beside whichever of the others is best at this on the trace."""
    ours, *others = (_median(found[trace, policy], name) for policy in POLICIES)
    return ours / min(others)


def _median(outcomes: Sequence[Outcome], name: str) -> float:
    return statistics.median(float(getattr(one, name)) for one in outcomes)


def table(found: Mapping[tuple[str, str], Sequence[Outcome]], jobs: int) -> str:
    """Medians over the seeds, a line for each trace and policy."""
    names = (
        "makespan",
        "mean",
        "p95",
        "slowdown",
        "unused",
        "killed",
        "misplaced",
        "unplaced",
        "unfinished",
    )
    lines = [f"assignment: {jobs:,} jobs on {WORKERS} workers, medians over seeds"]
    lines.append(f"{'trace':8}{'policy':14}" + "".join(f"{name:>11}" for name in names))
    for (trace, policy), outcomes in found.items():
        values = (_median(outcomes, name) for name in names)
        cells = "".join(f"{value:>11.3g}" if value < 10 else f"{value:>11,.0f}" for value in values)
        lines.append(f"{trace:8}{policy:14}{cells}")
    return "\n".join(lines)

"""Count the waste of benchmarks/assignment.py: memory of workers over time, in byte seconds.

Memory is what workers are paid by, held by a job for as long as it is on one, and what ends a
worker that has too little. What there is of it at a moment is one of four things: what a job needs,
as it would at full speed; what a job holds beyond that, as its work was thrown away with a worker,
or is slowed down by others or by its way; what is free while a job waits that could run there at
full speed; and what is free and of no use to anybody who waits. Waste is the second and the third,
over the first of all jobs, which is the same under every policy.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from benchmarks.assignment_scene import Machine, Scene, Task

#: What is free of use is looked at so often.
LOOK_SECONDS: Final = 10.0


class Waste:
    """Counts it for one run of a policy. What jobs truly take decides, not what is known of it."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._needed = sum(task.memory * task.full for task in scene.tasks)
        self._looked_at = 0.0
        self._on_workers = self._ended = self._lost = self._free = 0.0

    @property
    def held(self) -> float:
        """Held by jobs and not needed, over what is needed of all."""
        return max(0.0, self._on_workers - self._ended) / self._needed

    @property
    def thrown_away(self) -> float:
        """Return the waste of lost progress, at full speed, over what is needed of all."""
        return self._lost / self._needed

    @property
    def free(self) -> float:
        """Free, and wanted."""
        return self._free / self._needed

    def on_worker(self, task: Task, seconds: float) -> None:
        """Add the seconds that a task was on a worker."""
        self._on_workers += task.memory * seconds

    def ended(self, task: Task) -> None:
        """Add a task that is done; what it needed is not wasted."""
        self._ended += task.memory * task.full

    def lost(self, task: Task, seconds: float) -> None:
        """So much of its work at full speed was thrown away."""
        self._lost += task.memory * seconds

    def pass_time(self, queue: Iterable[Task], until: float) -> None:
        """These wait until then."""
        if until - self._looked_at >= LOOK_SECONDS:
            self._free += self.usable(queue) * (until - self._looked_at)
            self._looked_at = until

    def usable(self, queue: Iterable[Task]) -> float:
        """Memory that is free, and that jobs which wait could have at once and run at full speed.

        The first worker that suits one has it; no two have the same.
        """
        waiting = list(queue)
        if not waiting:
            return 0.0
        memory, cpu = min(one.memory for one in waiting), min(one.cpu for one in waiting)
        free = [_Free(machine) for machine in self._scene.machines]
        free = [one for one in free if one.memory >= memory and one.cpu >= cpu]
        found = 0.0
        for task in waiting:
            one = self._first(free, task)
            if one is None:
                continue
            one.take(task)
            found += task.memory
            if one.memory < memory or one.cpu < cpu:
                free.remove(one)
                if not free:
                    break
        return found

    def _first(self, free: Sequence["_Free"], task: Task) -> "_Free | None":
        memory, cpu, bandwidth = task.memory, task.cpu, task.bandwidth
        for one in free:
            # Of a million that are asked, nearly all have too little.
            if one.memory >= memory and one.cpu >= cpu and one.bandwidth >= bandwidth:
                below = task.spider.link.seconds_below
                link = self._scene.links[one.region][task.spider.site]
                if below is None or link.seconds < below:
                    return one
        return None


class _Free:
    """The free resources of a worker."""

    __slots__ = ("bandwidth", "cpu", "memory", "region")

    def __init__(self, machine: Machine) -> None:
        self.region = machine.region
        self.memory = machine.memory
        self.cpu = machine.cpu
        self.bandwidth = machine.bandwidth
        for task in machine.tasks:
            self.memory -= task.memory
            self.cpu -= task.cpu * task.rate
            self.bandwidth -= task.bandwidth * task.rate

    def take(self, task: Task) -> None:
        """A job that waits could have this."""
        self.memory -= task.memory
        self.cpu -= task.cpu
        self.bandwidth -= task.bandwidth

"""What benchmarks/assignment.py counts as waste: memory of workers over time, in byte seconds.

Memory is what workers are paid by, held by a job for as long as it is on one, and what ends a
worker that has too little. What there is of it at a moment is one of four things: what a job needs,
as it would at full speed; what a job holds beyond that, as its work was thrown away with a worker,
or is slowed down by others or by its way; what is free while a job waits that could run there at
full speed; and what is free and of no use to anybody who waits. Waste is the second and the third,
over the first of all jobs, which is the same under every policy.
"""

from collections.abc import Iterable
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
        """Of that what progress had taken that was lost with a worker, at full speed."""
        return self._lost / self._needed

    @property
    def free(self) -> float:
        """Free, and wanted."""
        return self._free / self._needed

    def on_worker(self, task: Task, seconds: float) -> None:
        """It was on a worker for so long."""
        self._on_workers += task.memory * seconds

    def ended(self, task: Task) -> None:
        """It is done: what it needed is not wasted."""
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
        least = min(task.memory for task in waiting)
        free = [_Free(machine) for machine in self._scene.machines]
        found = 0.0
        for task in waiting:
            free = [one for one in free if one.memory >= least]
            for one in free:
                if one.suits(task, self._scene):
                    one.take(task)
                    found += task.memory
                    break
        return found


class _Free:
    """What a worker has free."""

    def __init__(self, machine: Machine) -> None:
        self.region = machine.region
        self.memory = machine.memory - sum(task.memory for task in machine.tasks)
        self.cpu = machine.cpu - sum(task.cpu * task.rate for task in machine.tasks)
        self.bandwidth = machine.bandwidth - sum(
            task.bandwidth * task.rate for task in machine.tasks
        )

    def suits(self, task: Task, scene: Scene) -> bool:
        if self.memory < task.memory or self.cpu < task.cpu or self.bandwidth < task.bandwidth:
            return False
        below = task.spider.link.seconds_below
        return below is None or scene.links[self.region][task.spider.site].seconds < below

    def take(self, task: Task) -> None:
        self.memory -= task.memory
        self.cpu -= task.cpu
        self.bandwidth -= task.bandwidth

"""A worker that hears of a cancelled job lets go what it holds of it, downloads under way too."""

import asyncio

import pytest

from tests.fakes.fetching import MemoryFetcher
from tests.kit.requests import State
from tests.kit.worker import Stopper, Worker
from tests.kit.worlds import worker as worlds
from tests.kit.worlds.doubles import Broken, Failing
from tests.kit.worlds.memory import DOCS, World, make_tree
from tests.kit.worlds.worker import until

KEY = ("default", "docs", "june")


@pytest.fixture(autouse=True)
def _quick(world):
    world.pace(cancellations=0.01)


class Slow(MemoryFetcher):
    """A site that answers when it is told to."""

    def __init__(self) -> None:
        super().__init__({})
        self.go = asyncio.Event()
        self.begun = self.under_way = self.stopped = 0

    async def fetch(self, body, *args):
        self.begun += 1
        self.under_way += 1
        self.answers[body.url] = b"a page"
        try:
            await self.go.wait()
            return await super().fetch(body, *args)
        except asyncio.CancelledError:
            self.stopped += 1
            raise
        finally:
            self.under_way -= 1


def submitted(world: World, count: int, job: str | None) -> list[int]:
    urls = [f"https://{job or 'none'}.example/{n}" for n in range(count)]
    return worlds.submitted(world, *urls, job=job)


class Announced:
    """Cancellations of which it is known when they have been heard, and acted on."""

    def __init__(self, world: World) -> None:
        self._cancellations = world.cancellations
        self._jobs: set[object] = set()
        #: Of how many jobs a worker knew when it asked last.
        self.count = 0

    def announced(self, reached):
        self.count = len(self._jobs)
        found = self._cancellations.announced(reached)
        self._jobs.update(found.jobs)
        return found


def cancel(world: World) -> int:
    return world.store.cancel_job(DOCS, world.biz, "june", 1_000, "a caller", world.now)


def work(world: World, during, **ports: object):
    """A worker's report, who works while ``during`` goes on with its site."""

    async def run():
        site = Slow()
        working = asyncio.ensure_future(Worker(world.work({}, fetcher=site, **ports), "w").run())
        try:
            async with asyncio.timeout(60):
                await during(site)
                site.go.set()
                return await working
        finally:
            working.cancel()

    return asyncio.run(run())


def test_downloads_under_way_are_stopped_and_what_waits_is_not_begun(world):
    submitted(world, 12, "june")
    submitted(world, 2, "july")

    async def during(site):
        await until(lambda: site.under_way == 4)
        cancel(world)
        world.cancellations.announce([KEY])
        await until(lambda: site.stopped == 4)

    report = work(world, during)

    assert ledger(world, "june") == (12, 0, 0, 12)
    assert ledger(world, "july") == (2, 0, 2, 0)
    assert (report.done, report.lost, report.stopped_because) == (2, 0, "idle")
    assert report.cancelled >= 5, "more than those that were under way"
    assert world.queue.depth(DOCS).leased == 0
    assert all(record.url.startswith("https://july") for record in _records(world))


def test_nothing_of_it_is_begun_afterwards_though_it_is_not_swept_yet(world):
    world.cancellations.announce([KEY])
    reported = Announced(world)
    ids = []

    async def during(site):
        await until(lambda: reported.count == 1)
        ids.extend(submitted(world, 3, "june"))
        await until(lambda: leased_once(world, ids))
        assert site.begun == 0

    world.tree = make_tree(idle_seconds=0.2)
    report = work(world, during, cancelling=world.cancelling(cancellations=reported))

    assert (report.done, report.cancelled) == (0, 3)
    assert world.queue.depth(DOCS).leased == 0
    assert cancel(world) == 3


def test_a_job_of_that_name_of_another_biz_and_what_has_no_job_go_on(world):
    submitted(world, 2, "june")
    submitted(world, 2, None)

    async def during(site):
        await until(lambda: site.under_way == 4)
        world.cancellations.announce([("default", "other", "june"), ("acme", "docs", "june")])
        await until(lambda: reported.count == 2)

    reported = Announced(world)
    report = work(world, during, cancelling=world.cancelling(cancellations=reported))

    assert report.done == 4


def test_without_announcements_the_renewal_of_leases_stops_the_downloads(world):
    world.tree = make_tree(lease_seconds=1.0)
    submitted(world, 4, "june")

    async def during(site):
        await until(lambda: site.under_way == 4)
        cancel(world)
        await until(lambda: site.stopped == 4)

    report = work(world, during, cancelling=world.cancelling(cancellations=Broken()))

    assert (report.done, report.lost) == (0, 4)
    assert any("announced: no answer" in warning for warning in world.warnings)
    assert ledger(world, "june") == (4, 0, 0, 4)


def test_what_is_dropped_of_a_job_that_goes_on_after_all_is_worked_on_again(world):
    [an_id] = submitted(world, 1, "june")

    async def during(site):
        await until(lambda: site.under_way == 1)
        world.cancellations.announce([KEY])
        await until(lambda: site.stopped == 1)

    assert work(world, during).cancelled == 1
    assert world.store.get(DOCS, world.biz, an_id).state == State.LEASED
    assert ledger(world, "june") == (1, 1, 0, 0)


def test_an_index_that_does_not_answer_leaves_the_leases_to_their_end(world):
    submitted(world, 2, "june")
    queue = Failing(world.queue)

    async def during(site):
        await until(lambda: site.under_way == 2)
        queue.left["finish"] = 9
        cancel(world)
        world.cancellations.announce([KEY])
        await until(lambda: site.stopped == 2)

    report = work(world, during, queue=queue)

    assert (report.done, report.cancelled) == (0, 2)
    assert any("finish: no answer" in warning for warning in world.warnings)


def leased_once(world: World, ids: list[int]) -> bool:
    found = [world.store.get(DOCS, world.biz, an_id).state for an_id in ids]
    return found == [State.LEASED] * len(ids) and world.queue.depth(DOCS).leased == 0


def ledger(world: World, job: str) -> tuple[int, ...]:
    """Submitted, open, done and cancelled of a job; it balances."""
    found = world.ledgers.audit(DOCS, world.biz, world.now, job)
    assert found.difference == 0
    return found.submitted, found.open, found.done, found.cancelled


def _records(world: World):
    return world.store.records(DOCS, world.biz, request_id=None, after=None, limit=100)


# ---- the stopper -------------------------------------------------------------------------------


def test_a_stop_and_the_workers_end_at_once_are_the_end():
    async def run():
        stopper, leased, began = Stopper(), object(), asyncio.Event()

        async def attempt():
            began.set()
            await asyncio.sleep(30)

        task = asyncio.create_task(stopper.run(leased, attempt()))
        await began.wait()
        stopper.stop(leased)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert task.cancelled()

    asyncio.run(run())


def test_an_attempt_that_ends_in_spite_of_being_stopped_leaves_no_cancellation_behind():
    async def run():
        stopper, leased, began = Stopper(), object(), asyncio.Event()

        async def stubborn():
            began.set()
            try:
                await asyncio.sleep(30)
            except asyncio.CancelledError:
                return "an end"

        async def runner():
            first = await stopper.run(leased, stubborn())
            await asyncio.sleep(0)
            return first, asyncio.current_task().cancelling()

        task = asyncio.create_task(runner())
        await began.wait()
        stopper.stop(leased)
        stopper.stop(leased)
        assert await task == ("an end", 0)
        stopper.stop(leased)

    asyncio.run(run())


def test_nobody_stops_the_own_attempt():
    async def run():
        stopper, leased = Stopper(), object()

        async def attempt():
            stopper.stop(leased)
            await asyncio.sleep(0)
            return "an end"

        assert await stopper.run(leased, attempt()) == "an end"

    asyncio.run(run())

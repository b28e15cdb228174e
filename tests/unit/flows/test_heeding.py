"""A worker that hears of a cancelled job lets go what it holds of it, downloads under way too."""

import asyncio
from collections.abc import Callable

import pytest

from tests.kit.fakes import MemoryFetcher
from tests.kit.requests import State, Submission
from tests.kit.submission import submit
from tests.kit.worker import Stopper, Worker, heeding
from tests.unit.flows.world import DOCS, Broken, World, make_tree

KEY = ("default", "docs", "june")


@pytest.fixture(autouse=True)
def _quick(quick, monkeypatch):
    monkeypatch.setattr(heeding, "HEED_SECONDS", 0.01)


class Slow(MemoryFetcher):
    """A site that answers when it is told to."""

    def __init__(self) -> None:
        super().__init__({})
        self.go = asyncio.Event()
        self.under_way = self.stopped = 0

    async def fetch(self, body, *args):
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
    pages = [Submission(url=f"https://{job or 'none'}.example/{n}", job=job) for n in range(count)]
    receipts = submit(world.submission(), world.tree, "default", "docs", pages, world.now)
    return [receipt.id for receipt in receipts]


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110  what is waited for knows of no event
            await asyncio.sleep(0.002)


def cancel(world: World) -> int:
    return world.store.cancel_job(DOCS, world.biz, "june", 1_000, "a caller", world.now)


def work(world: World, during, **ports: object):
    """A worker's report, who works while ``during`` goes on with its site."""

    async def run():
        site = Slow()
        mine = Worker(world.work({}, fetcher=site, **ports), "w")
        working = asyncio.ensure_future(mine.run())
        try:
            async with asyncio.timeout(60):
                await during(site, mine)
                site.go.set()
                return await working
        finally:
            working.cancel()

    return asyncio.run(run())


def test_downloads_under_way_are_stopped_and_what_waits_is_not_begun(world):
    submitted(world, 12, "june")
    submitted(world, 2, "july")

    async def during(site, mine):
        await until(lambda: site.under_way == 4)
        cancel(world)
        world.cancellations.announce([KEY])
        await until(lambda: site.stopped == 4 and mine._report.cancelled >= 5)

    report = work(world, during)

    assert ledger(world, "june") == (12, 0, 0, 12)
    assert ledger(world, "july") == (2, 0, 2, 0)
    assert (report.done, report.lost, report.stopped_because) == (2, 0, "idle")
    assert world.queue.depth(DOCS).leased == 0
    assert all(record.url.startswith("https://july") for record in _records(world))


def test_nothing_of_it_is_begun_afterwards_though_it_is_not_swept_yet(world):
    world.cancellations.announce([KEY])

    async def during(site, mine):
        await until(lambda: mine._heeding._jobs != {})
        submitted(world, 3, "june")
        await until(lambda: mine._report.cancelled == 3)
        assert site.under_way == 0

    world.tree = make_tree(idle_seconds=0.2)
    report = work(world, during)

    assert (report.done, report.cancelled) == (0, 3)
    assert world.queue.depth(DOCS).leased == 0
    assert cancel(world) == 3


def test_a_job_of_that_name_of_another_biz_and_what_has_no_job_go_on(world):
    submitted(world, 2, "june")
    submitted(world, 2, None)

    async def during(site, mine):
        await until(lambda: site.under_way == 4)
        world.cancellations.announce([("default", "other", "june"), ("acme", "docs", "june")])
        await until(lambda: len(mine._heeding._jobs) == 2)

    assert work(world, during).done == 4


def test_without_announcements_the_renewal_of_leases_stops_the_downloads(world):
    world.tree = make_tree(lease_seconds=1.0)
    submitted(world, 4, "june")

    async def during(site, _):
        await until(lambda: site.under_way == 4)
        cancel(world)
        await until(lambda: site.stopped == 4)

    report = work(world, during, cancelling=world.cancelling(cancellations=Broken()))

    assert (report.done, report.lost) == (0, 4)
    assert any("could not be heard of" in warning for warning in world.warnings)
    assert ledger(world, "june") == (4, 0, 0, 4)


def test_what_is_dropped_of_a_job_that_goes_on_after_all_is_worked_on_again(world):
    [an_id] = submitted(world, 1, "june")

    async def during(site, mine):
        await until(lambda: site.under_way == 1)
        world.cancellations.announce([KEY])
        await until(lambda: mine._report.cancelled == 1)

    work(world, during)

    assert world.store.get(DOCS, world.biz, an_id).state == State.LEASED
    assert ledger(world, "june") == (1, 1, 0, 0)


def test_an_index_that_does_not_answer_leaves_the_leases_to_their_end(world, monkeypatch):
    submitted(world, 2, "june")

    async def during(site, mine):
        await until(lambda: site.under_way == 2)
        monkeypatch.setattr(mine._leasing, "forget", Broken().forget)
        cancel(world)
        world.cancellations.announce([KEY])
        await until(lambda: mine._report.cancelled == 2)

    report = work(world, during)

    assert report.done == 0
    assert any("could not be ended" in warning for warning in world.warnings)


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
        stopper, held, began = Stopper(), object(), asyncio.Event()

        async def attempt():
            began.set()
            await asyncio.sleep(30)

        task = asyncio.create_task(stopper.run(held, attempt()))
        await began.wait()
        stopper.stop(held)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert task.cancelled()

    asyncio.run(run())


def test_an_attempt_that_ends_in_spite_of_being_stopped_leaves_no_cancellation_behind():
    async def run():
        stopper, held, began = Stopper(), object(), asyncio.Event()

        async def stubborn():
            began.set()
            try:
                await asyncio.sleep(30)
            except asyncio.CancelledError:
                return "an end"

        async def runner():
            first = await stopper.run(held, stubborn())
            await asyncio.sleep(0)
            return first, asyncio.current_task().cancelling()

        task = asyncio.create_task(runner())
        await began.wait()
        stopper.stop(held)
        stopper.stop(held)
        assert await task == ("an end", 0)
        stopper.stop(held)

    asyncio.run(run())


def test_nobody_stops_the_own_attempt():
    async def run():
        stopper, held = Stopper(), object()

        async def attempt():
            stopper.stop(held)
            await asyncio.sleep(0)
            return "an end"

        assert await stopper.run(held, attempt()) == "an end"

    asyncio.run(run())

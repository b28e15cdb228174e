import asyncio
from datetime import timedelta

from msgspec.structs import replace

from tests.fakes.requests import MemoryRules
from tests.kit.fetching import NO_FETCH_CONTEXT
from tests.kit.kernel import ConnectFailedError, ThrottledError, to_ms
from tests.kit.requests import Entry, Page, State
from tests.kit.worker import GIVE_UP, Worker
from tests.kit.worlds.doubles import Failing
from tests.kit.worlds.memory import DOCS, OTHER, START, make_tree
from tests.kit.worlds.worker import submitted, tracked, until, work


def test_a_request_is_downloaded_read_stored_and_done(world):
    [an_id] = submitted(world, "https://example.org/a")

    report = work(world, {"https://example.org/a": b"Title"})

    assert (report.done, report.records, report.stopped_because) == (1, 1, "idle")
    [record] = world.store.records(DOCS, world.biz, request_id=an_id, after=None, limit=9)
    assert record.fields == {"title": "Title"}
    assert [event.state for event in tracked(world, an_id).timeline] == [
        State.PENDING,
        State.LEASED,
        State.DONE,
    ]
    assert tracked(world, an_id).worker == "w"
    depth = world.queue.depth(DOCS)
    assert (depth.queued, depth.leased, depth.delayed) == (0, 0, 0)


def test_many_requests_of_several_tenants_are_all_done_once(world):
    urls = [f"https://example.org/{n}" for n in range(37)]
    submitted(world, *urls)
    submitted(world, *urls[:11], tenant="acme")

    report = work(world, dict.fromkeys(urls, b"x"))

    assert (report.done, report.records, report.leased) == (48, 48, 48)
    assert world.ledger().done == 37
    assert world.ledger(OTHER).done == 11


def test_a_failure_that_may_pass_waits_for_its_next_attempt(world):
    [an_id] = submitted(world, "https://example.org/a")
    pages = {"https://example.org/a": ConnectFailedError("refused")}

    report = work(world, pages)

    found = tracked(world, an_id)
    assert (report.retried, found.state, found.attempts) == (1, State.WAITING, 1)
    assert found.due_at == START + timedelta(seconds=10)
    assert found.error.endswith("refused")
    assert world.queue.depth(DOCS).delayed == 1


def test_attempts_are_bounded_and_the_last_failure_is_kept(world):
    [an_id] = submitted(world, "https://example.org/a")
    pages = {"https://example.org/a": ThrottledError("slow down", retry_after_seconds=40)}

    for _ in range(3):
        work(world, pages)
        world.now += timedelta(seconds=120)

    found = tracked(world, an_id)
    assert (found.state, found.attempts) == (State.DEAD, 3)
    assert "slow down" in found.error


def test_a_page_that_the_rule_cannot_read_is_dead_and_says_which_field(world):
    [an_id] = submitted(world, "https://example.org/a")

    work(world, {"https://example.org/a": b"bad"})

    assert "title: is missing" in tracked(world, an_id).error


def test_a_rule_version_that_is_not_stored_is_a_reason(world):
    [an_id] = submitted(world, "https://example.org/a")

    work(world, {}, rules=MemoryRules())

    assert tracked(world, an_id).reason == "UnknownRule"


def test_an_entry_without_a_request_costs_one_pop(world):
    world.queue.enqueue(DOCS, [Entry(5, "docs", to_ms(START))], START)

    report = work(world, {})

    assert (report.skipped, report.done) == (1, 0)
    assert world.queue.depth(DOCS).leased == 0


def test_an_entry_that_is_there_twice_is_worked_on_once(world):
    [an_id] = submitted(world, "https://example.org/a")
    world.queue.requeue(DOCS, [Entry(an_id, "docs", to_ms(START))])

    report = work(world, {"https://example.org/a": b"x"})

    assert (report.done, report.records) == (1, 1)


def test_a_store_that_fails_for_a_while_loses_nothing(world):
    urls = [f"https://example.org/{n}" for n in range(20)]
    submitted(world, *urls)
    store = Failing(world.store, claim=2, settle=3)

    report = work(world, dict.fromkeys(urls, b"x"), store=store)

    assert (report.done, report.records) == (20, 20)
    assert world.queue.depth(DOCS).queued == 0
    assert any("settle: no answer" in warning for warning in world.warnings)


def test_a_queue_that_fails_for_a_while_loses_nothing(world):
    urls = [f"https://example.org/{n}" for n in range(20)]
    submitted(world, *urls)
    queue = Failing(world.queue, lease=2, finish=2, loads=1)

    report = work(world, dict.fromkeys(urls, b"x"), queue=queue)

    assert report.done == 20
    assert world.ledger().done == 20


def test_workers_that_cannot_be_registered_still_work(world):
    submitted(world, "https://example.org/a")

    report = work(
        world, {"https://example.org/a": b"x"}, workers=Failing(world.workers, beat=1, leave=9)
    )

    assert report.done == 1


class SlowFetcher:
    """Answers when it is told to, and counts what is in flight."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.go = asyncio.Event()
        self.asked = 0

    async def fetch(self, body, limits, hop_guard=None, fetch_context=NO_FETCH_CONTEXT):
        self.asked += 1
        self.started.set()
        await self.go.wait()
        return Page(url=body.url, status=200, headers={}, body=b"x")


def test_at_the_end_of_its_time_a_worker_hands_back_what_it_holds(world):
    ids = submitted(world, *(f"https://example.org/{n}" for n in range(12)))
    fetcher = SlowFetcher()
    left = [600.0]

    async def run():
        worker = Worker(world.work({}, fetcher=fetcher, remaining=lambda: left[0]), "w")
        running = asyncio.create_task(worker.run())
        await fetcher.started.wait()
        left[0] = 0.0
        return await asyncio.wait_for(running, 60)

    report = asyncio.run(run())

    assert (report.stopped_because, report.done) == ("time", 0)
    assert report.handed_back == report.leased > 0
    assert {tracked(world, an_id).state for an_id in ids} == {State.PENDING}
    assert {tracked(world, an_id).attempts for an_id in ids} == {0}
    assert world.queue.depth(DOCS).queued == 12


def test_downloads_that_run_may_end_while_there_is_time(world):
    ids = submitted(world, *(f"https://example.org/{n}" for n in range(4)))
    fetcher = SlowFetcher()
    left = [600.0]

    async def run():
        worker = Worker(world.work({}, fetcher=fetcher, remaining=lambda: left[0]), "w")
        running = asyncio.create_task(worker.run())
        await fetcher.started.wait()
        await until(lambda: fetcher.asked == 4)
        left[0] = GIVE_UP.total_seconds() + 5
        asyncio.get_running_loop().call_later(0.05, fetcher.go.set)
        return await asyncio.wait_for(running, 60)

    report = asyncio.run(run())

    assert report.done == 4
    assert {tracked(world, an_id).state for an_id in ids} == {State.DONE}


def test_a_worker_whose_lease_was_lost_writes_nothing(world):
    [an_id] = submitted(world, "https://example.org/a")
    fetcher = SlowFetcher()

    async def run():
        worker = Worker(world.work({}, fetcher=fetcher), "late")
        running = asyncio.create_task(worker.run())
        await fetcher.started.wait()
        world.now += timedelta(minutes=10)
        entry = Entry(an_id, "docs", to_ms(START))
        until = world.now + timedelta(minutes=1)
        [claim] = world.store.claim(DOCS, world.biz, [entry], "new", world.now, until, "new")
        fetcher.go.set()
        report = await asyncio.wait_for(running, 60)
        return report, claim

    report, claim = asyncio.run(run())

    assert (report.lost, report.done, report.records) == (1, 0, 0)
    assert tracked(world, an_id).worker == "new" == claim.token
    assert world.store.records(DOCS, world.biz, request_id=an_id, after=None, limit=9) == []


def test_leases_are_renewed_while_a_download_lasts(world):
    world.pace(renew=0.01, account=0.01)
    world.tree = make_tree(world.biz, lease_seconds=0.03)
    [kept, taken] = submitted(world, "https://example.org/a", "https://example.org/b")
    fetcher = SlowFetcher()
    store = Failing(world.store, renew=1)

    async def run():
        worker = Worker(world.work({}, fetcher=fetcher, store=store), "w")
        running = asyncio.create_task(worker.run())
        await until(lambda: fetcher.asked == 2)
        entry = Entry(taken, "docs", to_ms(START))
        later = START + timedelta(minutes=1)
        world.store.claim(DOCS, world.biz, [entry], "new", later, later, "new")
        given = tracked(world, kept).due_at
        world.now = START + timedelta(milliseconds=20)
        await until(lambda: tracked(world, kept).due_at > given)
        fetcher.go.set()
        return await asyncio.wait_for(running, 60)

    report = asyncio.run(run())

    assert (report.done, report.lost) == (1, 1)
    assert any("renew: no answer" in warning for warning in world.warnings)


class SlowRelease:
    """A store that releases when downloads have ended and all runners have looked."""

    def __init__(self, world, fetcher: SlowFetcher) -> None:
        self._store = world.store
        self._fetcher = fetcher
        self.loop: asyncio.AbstractEventLoop | None = None

    def release(self, *args):
        assert self.loop is not None
        asyncio.run_coroutine_threadsafe(self._runners_look(), self.loop).result(60)
        return self._store.release(*args)

    async def _runners_look(self) -> None:
        self._fetcher.go.set()
        for _ in range(50):
            await asyncio.sleep(0)

    def __getattr__(self, name):
        return getattr(self._store, name)


def test_what_is_being_handed_back_is_not_begun_any_more(world):
    world.tree = make_tree(world.biz, concurrency=2)
    submitted(world, *(f"https://example.org/{n}" for n in range(6)))
    fetcher = SlowFetcher()
    store = SlowRelease(world, fetcher)
    left = [600.0]

    async def run():
        store.loop = asyncio.get_running_loop()
        ports = world.work({}, fetcher=fetcher, store=store, remaining=lambda: left[0])
        running = asyncio.create_task(Worker(ports, "w").run())
        await until(lambda: fetcher.asked == 2)
        left[0] = GIVE_UP.total_seconds() + 10
        return await asyncio.wait_for(running, 60)

    report = asyncio.run(run())

    assert report.done == 2
    assert report.handed_back == report.leased - 2 > 0
    assert fetcher.asked == 2, "what another worker is to have was downloaded here"


def test_work_that_cannot_be_handed_back_is_left_to_its_lease(world):
    submitted(world, "https://example.org/a")
    fetcher = SlowFetcher()
    left = [600.0]

    async def run():
        store = Failing(world.store, release=9)
        ports = world.work({}, fetcher=fetcher, store=store, remaining=lambda: left[0])
        running = asyncio.create_task(Worker(ports, "w").run())
        await fetcher.started.wait()
        left[0] = 0.0
        return await asyncio.wait_for(running, 60)

    report = asyncio.run(run())

    assert report.handed_back == 0
    assert any("release: no answer" in warning for warning in world.warnings)


def test_a_submission_that_comes_while_the_worker_leaves_is_not_left_alone(world):
    submitted(world, "https://example.org/a")
    queue = world.queue

    class Watching:
        """Something is submitted at the very moment the worker says good-bye."""

        done = False

        def leave(self, worker):
            world.workers.leave(worker)
            if not self.done:
                self.done = True
                submitted(world, "https://example.org/b")

        def __getattr__(self, name):
            return getattr(world.workers, name)

    pages = {"https://example.org/a": b"x", "https://example.org/b": b"y"}

    report = work(world, pages, workers=Watching(), queue=queue)

    assert report.done == 2


def test_a_worker_leaves_when_it_cannot_look(world):
    queue = Failing(world.queue)

    class LeaveThenDown:
        def leave(self, worker):
            queue.left["loads"] = 1

        def __getattr__(self, name):
            return getattr(world.workers, name)

    assert work(world, {}, queue=queue, workers=LeaveThenDown()).stopped_because == "idle"


def test_a_stage_without_bizs_has_nothing_to_do(world):
    world.tree = replace(world.tree, bizs={})

    assert work(world, {}).stopped_because == "idle"


def test_the_account_of_time_names_the_phases(world):
    submitted(world, "https://example.org/a")

    report = work(world, {"https://example.org/a": b"x"})

    assert {"lease", "claim", "fetch", "extract", "store"} <= report.phases.keys()
    assert set(world.queue.phases(DOCS)) == set(report.phases)


def test_a_worker_stays_for_a_retry_that_is_due_soon_and_for_no_other(world):
    [soon, later] = submitted(world, "https://example.org/soon", "https://example.com/later")
    began = world.now
    answers = {
        "https://example.org/soon": [ConnectFailedError("refused"), b"x"],
        "https://example.com/later": [ThrottledError("wait", retry_after_seconds=3_000)],
    }

    class Site:
        async def fetch(self, body, limits, hop_guard=None, fetch_context=NO_FETCH_CONTEXT):
            given = answers[body.url].pop(0)
            if isinstance(given, Exception):
                raise given
            return Page(url=body.url, status=200, headers={}, body=given)

    class Leaving:
        """A registry of workers where each request to leave takes four seconds."""

        def leave(self, worker):
            world.now += timedelta(seconds=4)
            world.workers.leave(worker)

        def __getattr__(self, name):
            return getattr(world.workers, name)

    report = work(world, {}, fetcher=Site(), workers=Leaving(), jitter=lambda: 0.5)

    assert (report.done, report.retried) == (1, 2)
    assert tracked(world, soon).state == State.DONE
    assert tracked(world, later).state == State.WAITING
    assert world.now - began < timedelta(seconds=60)

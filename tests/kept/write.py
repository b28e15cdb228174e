"""Makes a state of both stores that has some of everything, and writes it down: what is kept.

    python -m tests.kept.write

It is not written anew because the code has changed: that later code goes on with what this code
has stored is what the dump is for. See README.md.
"""

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Thread
from typing import Any

from infra.local.redis_server import RedisServer
from tests.functions.http import ask, submit
from tests.kept.dump import write, write_api
from tests.kept.stage import BUSY, SHOP, SLOW, Web, a_kept_world, a_web, push, through
from tests.kit.jobs import GRACE
from tests.kit.kernel import QueueKey, names, to_ms
from tests.kit.politeness import RedisRobotsCache, RobotsCopy
from tests.kit.records import RedisDataQueue, wire_of
from tests.kit.requests import Item
from tests.kit.scrapy import Forget, Marks, Pushed, RedisCrawl
from tests.kit.worlds.functions import Context, World
from tests.waiting import eventually

TICK = {"source": "aws.events", "detail-type": "Scheduled Event"}


@contextmanager
def made(world: World, web: Web) -> Iterator[None]:
    """Have the stage do some of everything; a worker is at it until the block ends."""
    through(world, web)
    push(world, small=True)
    _robots(world)
    _done_jobs(world)
    _pages(world)
    _seeds(world)
    _plans(world)
    _waiting_hosts(world)
    _scrapy(world)
    with _busy_worker(world):
        try:
            _half_done(world)
            _incident(world)
            _placing(world)
            yield
        finally:
            web.well = True
            web.answer.set()


def sent(world: World, method: str, path: str, body: Any = None, **options: Any) -> Any:
    """Send a call that the router must carry out; return its answer."""
    answer = ask(world, method, f"/v1/{path}", body, **options)
    assert 200 <= answer.status < 300, answer.text
    return answer.json if answer.text else None


def tick(world: World) -> Any:
    """A tick of the scheduler."""
    return world.call(names.SCHEDULER, TICK)


def job(world: World, name: str, biz: str = "docs") -> Any:
    """A job, as its tenant sees it."""
    return sent(world, "GET", f"{biz}/jobs/{name}")


class _Term(Context):
    """The time that Lambda gives a worker; it is over when somebody says so."""

    is_over = False

    def get_remaining_time_in_millis(self) -> int:
        return 0 if self.is_over else super().get_remaining_time_in_millis()


@contextmanager
def a_worker(world: World) -> Iterator[Thread]:
    """A worker that is at work for as long as the block is, unless it finds nothing to do."""
    term = _Term(600.0)
    thread = Thread(target=world.call, args=(names.CONSUMER, {}, term))
    thread.start()
    try:
        yield thread
    finally:
        term.is_over = True
        thread.join(60)


def working(world: World, holds: Callable[[], bool], what: str) -> None:
    """Have workers work, one after the other, until something holds."""
    deadline = time.monotonic() + 60.0
    while not holds():
        with a_worker(world) as worker:
            eventually(lambda w=worker: not w.is_alive() or holds(), what=what)
        assert time.monotonic() < deadline, what


def until_done(world: World, name: str, biz: str = "docs", *, ticking: bool = False) -> None:
    """Work until a job has ended: workers make its tasks, award it and end it, as a tick does.

    ``ticking`` is for a job of the scheduler's time, which is not due by the workers' clock.
    """

    def is_done() -> bool:
        if ticking:
            tick(world)
        return bool(job(world, name, biz)["state"] in {"done", "failed", "cancelled"})

    working(world, is_done, f"the end of {name}")


def _robots(world: World) -> None:
    """Cache robots.txt of the sites for a day: no proxy is asked for it, so nothing fetches it."""
    cache = RedisRobotsCache(world.own.redis)
    wanted = b"User-agent: *\nDisallow: /private\n"
    copy = RobotsCopy(status=200, text=wanted, fetched_ms=to_ms(datetime.now(UTC)))
    for site in (SHOP, BUSY, *SLOW):
        cache.save(site, copy, 86_400.0, "acme")


def _done_jobs(world: World) -> None:
    """A finished job, learnt from; one of a spider with two versions; one that was cancelled."""
    order = {"rule": "page", "urls": [f"{SHOP}/1", f"{SHOP}/2", f"{SHOP}/gone"], "name": "nightly"}
    sent(world, "POST", "docs/jobs", order, headers={"Idempotency-Key": "nightly-key"})
    until_done(world, "nightly")
    spider = {"rule": "page", "start": {"pattern": f"{SHOP}/{{zone}}/{{page}}", "values": {}}}
    for last in (1, 2):
        spider["start"]["values"] = {"page": {"last": last}}  # type: ignore[index]
        sent(world, "PUT", "docs/spiders/all", spider)
    sent(world, "POST", "docs/jobs", {"spider": "all", "values": {"zone": "n"}, "name": "zone"})
    until_done(world, "zone")
    soon = datetime.now(UTC) + GRACE + timedelta(minutes=1)
    world.clocks[names.SCHEDULER] = lambda: soon
    assert tick(world)["learnt"] == 2
    world.clocks.clear()
    sent(world, "POST", "docs/jobs", {"rule": "page", "urls": [f"{SHOP}/never"], "name": "off"})
    sent(world, "POST", "docs/jobs/off/cancel")
    until_done(world, "off")


def _pages(world: World) -> None:
    """Pages that were read, dead letters, and submissions under keys of their clients'."""
    submit(world, f"{SHOP}/a", f"{SHOP}/b", biz="news", meta={"list_page": 3})
    submit(world, f"{SHOP}/gone/1", f"{SHOP}/gone/2", job="letters", priority=8)
    world.work()
    one = {"url": f"{SHOP}/keyed"}
    sent(world, "POST", "docs/requests", one, headers={"Idempotency-Key": "submission-key"})
    sent(world, "POST", "docs/requests", {**one, "client_id": "client-1"})
    submit(world, f"{SHOP}/counted", biz="shop")
    sent(world, "POST", "docs/requests", {"url": f"{SHOP}/theirs"}, key="rival")
    world.work()


def _seeds(world: World) -> None:
    """Seeds that are finished, and one that failed."""
    offers = [{"url": f"{SHOP}/seed/1"}, {"url": f"{SHOP}/gone/seed"}]
    sent(world, "POST", "docs/seeds", {"seeds": offers})

    def ended() -> bool:
        tick(world)
        [found] = sent(world, "GET", "docs/seeds/totals")["segments"]
        return (found["finished"], found["failed"]) == (1, 1)

    working(world, ended, "the end of both seeds")


def _plans(world: World) -> None:
    """Schedules: of a rule, of a spider, which have fired, and one that stands still."""
    plan = {"cron": "0 * * * *", "time_zone": "Europe/Berlin"}
    pages = {"rule": "page", "urls": [f"{SHOP}/hourly"]}
    sent(world, "PUT", "docs/schedules/hourly", {**plan, **pages, "missed": "latest"})
    zone = {"spider": "all", "values": {"zone": "s"}, "overlap": "queue"}
    sent(world, "PUT", "docs/schedules/zones", {**plan, **zone})
    sent(world, "PUT", "docs/schedules/resting", {**plan, **pages})
    sent(world, "POST", "docs/schedules/resting/pause")
    due = datetime.fromisoformat(sent(world, "GET", "docs/schedules/zones")["next_at"])
    world.clocks[names.SCHEDULER] = lambda: due
    assert tick(world)["fires"] == 2
    world.clocks[names.SCHEDULER] = lambda: due + timedelta(minutes=1)
    for one in sent(world, "GET", "docs/jobs")["jobs"]:
        if one["schedule"]:
            until_done(world, one["name"], ticking=True)
    world.clocks.clear()


def _waiting_hosts(world: World) -> None:
    """Requests that wait for a host in its back-off, or for another attempt at it."""
    submit(world, *(f"{BUSY}/{n}" for n in range(4)), biz="waits")
    submit(world, f"{BUSY}/urgent", biz="waits", priority=9)
    world.work()


def _scrapy(world: World) -> None:
    """A Scrapy crawl: queued, leased, put aside, known; and items on their way to be records."""
    crawl = RedisCrawl(world.own.redis, "acme", "crawl", "process-1", lease_ms=600_000)
    crawl.enter()
    crawl.set_fingerprinter("2.7")
    marked = [Pushed(content=b"%d" % n, marks=Marks.SEEN, mark=b"%16d" % n) for n in range(4)]
    crawl.push([*marked, Pushed(content=b"first", priority=7)])
    crawl.push([Pushed(content=b"start", marks=Marks.STARTS, mark=b"s" * 16, start=True)])
    first, second = crawl.lease(2)[0]
    crawl.mark_dead(first.id, "no request")
    crawl.renew([second.id])
    crawl.learn([b"m" * 16])
    gone = RedisCrawl(world.own.redis, "acme", "crawl", "process-2", lease_ms=1)
    gone.enter()
    gone.leave(Forget.NEVER)


#: Two that are under way, one that is read next, and one more.
HELD = 4


@contextmanager
def _busy_worker(world: World) -> Iterator[None]:
    """A worker that is at two sites that do not answer, and has leased two pages more."""
    submit(world, *(f"{site}/slow" for site in SLOW), job="slow", priority=7)
    with a_worker(world):
        queue, place = world.own.queue, QueueKey("acme", "docs", "main")
        eventually(lambda: queue.depth(place).leased == HELD, what="a worker that is busy")
        yield


def _half_done(world: World) -> None:
    """Create work that nobody has begun: requests, seeds, a job with tasks, items, a wait."""
    for priority in (1, 5, 9, 10):
        submit(world, f"{SHOP}/queued/{priority}", priority=priority)
    pages = {"pattern": f"{SHOP}/half/{{page}}", "values": {"page": {"last": 8}}}
    sent(world, "POST", "shop/jobs", {"rule": "page", "start": pages, "name": "half"})
    offers = [{"url": f"{SHOP}/seed/{n}"} for n in range(2, 7)]
    sent(world, "POST", "docs/seeds", {"seeds": offers})
    tick(world)
    later = (datetime.now(UTC) + timedelta(days=3)).isoformat()
    sent(world, "POST", "docs/seeds", {"seeds": [{"url": f"{SHOP}/later", "starts_at": later}]})
    items = RedisDataQueue(world.own.redis)
    place, now = QueueKey("acme", "docs", "main"), datetime.now(UTC)
    item = Item(rule="page", fields={"title": "item"}, url=f"{SHOP}/item")
    items.put(place, [wire_of(item)])
    assert items.lease(place, "drainer.1", 9, now, now + timedelta(hours=1))
    # Nobody looks after a biz that is not configured: these wait.
    items.put(QueueKey("acme", "later", "main"), [wire_of(item)] * 2)


def _incident(world: World) -> None:
    """An incident that is open: what waits for the busy worker has waited too long."""
    push(world, small=True, waiting_seconds=0.001)

    def is_open() -> bool:
        world.call(names.MONITOR, TICK)
        return bool(sent(world, "GET", "incidents")["incidents"])

    eventually(is_open, what="an incident")
    push(world, small=True)


def _placing(world: World) -> None:
    """A job on the board, of which the window for applications is open."""
    push(world, small=True, bidding={"window_seconds": 60, "wait_seconds": 3600})
    sent(world, "POST", "docs/jobs", {"rule": "page", "urls": [f"{SHOP}/placed"], "name": "placed"})
    tick(world)
    assert job(world, "placed")["state"] == "placing"


def main() -> None:
    """Write what is kept."""
    commit = subprocess.run(
        ["git", "log", "-1", "--format=%H", "--", "layers", "functions"],
        check=True,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
    ).stdout.strip()
    with ExitStack() as stack:
        redis = stack.enter_context(RedisServer())
        world = stack.enter_context(a_kept_world(redis.url))
        with made(world, stack.enter_context(a_web(well=False))):
            write(world, commit)
        write_api(ask(world, "GET", "/openapi.json", key=None).json)


if __name__ == "__main__":
    main()

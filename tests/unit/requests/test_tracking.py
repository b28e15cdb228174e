import asyncio
from datetime import timedelta

import pytest

from tests.kit.kernel import ConflictError, InvalidRequestError, NotFoundError, UnknownBizError
from tests.kit.requests import State, Submission
from tests.kit.submission import state_label
from tests.kit.worker import Worker
from tests.kit.worlds.memory import DOCS, START, World


def submitted(world: World, *urls: str) -> list[int]:
    entries = [Submission(url=url) for url in urls]
    receipts = world.submission().submit(world.tree, "default", "docs", entries, world.now)
    return [receipt.id for receipt in receipts]


def requests(world: World, **changes: object):
    settings = {"state": None, "since": None, "cursor": None, "limit": 2, "now": world.now}
    return world.tracking().list_requests(world.tree, "default", "docs", **(settings | changes))


def records(world: World, **changes: object):
    settings = {"request": None, "cursor": None, "limit": 2, "now": world.now} | changes
    return world.tracking().list_records(world.tree, "default", "docs", **settings)


def crawled(world: World, count: int) -> list[int]:
    urls = [f"https://example.org/{n}" for n in range(count)]
    ids = submitted(world, *urls)
    asyncio.run(Worker(world.work(dict.fromkeys(urls, b"x")), "w").run())
    return ids


def test_a_request_is_found_by_its_id_by_its_tenant_only(world):
    [an_id] = submitted(world, "https://example.org/a")
    ports = world.tracking()

    found = ports.look_up(world.tree, "default", "docs", str(an_id))

    assert found.request.id == an_id
    with pytest.raises(NotFoundError):
        ports.look_up(world.tree, "acme", "docs", str(an_id))
    with pytest.raises(UnknownBizError):
        ports.look_up(world.tree, "default", "nobiz", str(an_id))
    with pytest.raises(InvalidRequestError):
        ports.look_up(world.tree, "default", "docs", "no id")


def test_pages_of_a_list_have_each_request_once_and_in_order(world):
    ids = []
    for _ in range(5):
        ids += submitted(world, "https://example.org/a")
        world.now += timedelta(seconds=1)
    seen, cursor, more = [], None, True

    while more:
        page = requests(world, cursor=cursor)
        seen += [one.request.id for one in page.items]
        cursor, more = page.cursor, page.more

    assert seen == ids


def test_a_list_is_narrowed_by_state_and_time(world):
    [first] = submitted(world, "https://example.org/a")
    world.now += timedelta(minutes=1)
    [second] = submitted(world, "https://example.org/b")

    late = requests(world, since=START + timedelta(seconds=1))
    pending = requests(world, state="pending")
    done = requests(world, state="done")
    own = requests(world, state="reviewed")

    assert [one.request.id for one in late.items] == [second]
    assert [one.request.id for one in pending.items] == [first, second]
    assert (done.items, own.items) == ([], [])


def test_an_unknown_state_is_named_with_the_known_ones(world):
    with pytest.raises(InvalidRequestError, match=r"pending.*reviewed"):
        requests(world, state="lost")


def test_records_are_paged_and_found_by_request(world):
    ids = crawled(world, 5)
    seen, cursor, more = [], None, True

    while more:
        page = records(world, cursor=cursor)
        seen += [record.request_id for record in page.items]
        cursor, more = page.cursor, page.more

    assert sorted(seen) == sorted(ids)
    assert [r.request_id for r in records(world, request=str(ids[3])).items] == [ids[3]]


def test_a_reader_that_has_caught_up_sees_what_is_stored_late(world):
    crawled(world, 1)
    page = records(world, limit=10)
    assert page.cursor is not None
    assert not page.more

    world.now += timedelta(seconds=1)
    crawled(world, 1)

    assert len(records(world, limit=10, cursor=page.cursor).items) >= 1


def test_an_empty_list_has_no_cursor(world):
    assert records(world).cursor is None


def test_a_pending_request_is_cancelled_once(world):
    [an_id] = submitted(world, "https://example.org/a")

    for _ in range(2):
        found = world.tracking().cancel(world.tree, "default", "docs", str(an_id), world.now)
        assert found.state == State.CANCELLED


def test_what_is_done_or_unknown_cannot_be_cancelled(world):
    [an_id] = crawled(world, 1)
    ports = world.tracking()

    with pytest.raises(ConflictError, match="done"):
        ports.cancel(world.tree, "default", "docs", str(an_id), world.now)
    with pytest.raises(NotFoundError):
        ports.cancel(world.tree, "default", "docs", "12345", world.now)


def test_the_statistics_add_up(world):
    crawled(world, 3)
    submitted(world, "https://example.org/z")

    found = world.tracking().stats(world.tree, "default", "docs", world.now)

    assert (found.states["done"], found.states["pending"], found.records) == (3, 1, 3)
    assert found.states["reviewed"] == 0
    assert (found.ledger.submitted, found.ledger.difference) == (4, 0)
    assert found.depth.queued == 1
    assert "fetch" in found.phases


def test_a_job_has_a_ledger_of_its_own(world):
    entries = [
        Submission(url=f"https://example.org/{job}/{n}", job=job)
        for n, job in enumerate(["red", "red", "blue.2", None])
    ]
    world.submission().submit(world.tree, "default", "docs", entries, world.now)

    def audit(job, tenant="default"):
        return world.tracking().audit(world.tree, tenant, "docs", job, world.now)

    assert audit(None).submitted == 4
    assert (audit("red").submitted, audit("red").pending) == (2, 2)
    assert audit("blue.2").pending == 1
    with pytest.raises(NotFoundError, match="green"):
        audit("green")
    with pytest.raises(NotFoundError):
        audit("red", tenant="acme")
    assert audit(None, tenant="acme").submitted == 0


def test_a_state_nobody_named_is_shown_as_its_number(world):
    assert state_label(world.biz, 100) == "reviewed"
    assert state_label(world.biz, 777) == "777"
    assert world.queue.depth(DOCS).queued == 0

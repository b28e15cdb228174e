import dataclasses
from datetime import timedelta

import pytest
from msgspec.structs import replace

from tests.kit.kernel import (
    ConfigError,
    ConflictError,
    InvalidRequestError,
    StoreUnavailableError,
    UnknownBizError,
)
from tests.kit.requests import Accepted, Refused, State, Submission
from tests.kit.submission import fire_name
from tests.kit.worlds.doubles import Broken
from tests.kit.worlds.memory import DOCS, OTHER, START, World, make_biz, make_tree

URL = "https://example.org/a"


def send(world: World, *urls: str, tenant: str = "default", **changes: object):
    submissions = [Submission(url=url, rule="page") for url in urls]
    return world.submission(**changes).submit(world.tree, tenant, "docs", submissions, world.now)


def test_an_accepted_request_is_persisted_and_queued_once(world):
    [receipt] = send(world, URL)

    assert isinstance(receipt, Accepted)
    tracked = world.store.get(DOCS, world.biz, receipt.id)
    assert (tracked.state, tracked.request.body.url) == (State.PENDING, URL)
    assert world.queue.depth(DOCS).queued == 1


def test_the_rule_is_stored_with_its_version(world):
    [receipt] = send(world, URL)

    body = world.store.get(DOCS, world.biz, receipt.id).request.body
    assert world.rules.get_version(DOCS, "page", body.rule_version) == world.biz.rules["page"]


def test_each_entry_of_a_batch_is_answered_in_its_place(world):
    wrong = InvalidRequestError.of("requests[1].url", "is missing")
    entries = [Submission(url=URL), wrong, Submission(url="ftp://x/"), Submission(url=URL)]

    receipts = world.submission().submit(world.tree, "default", "docs", entries, START)

    assert [type(receipt) for receipt in receipts] == [Accepted, Refused, Refused, Accepted]
    assert receipts[1].error is wrong
    assert [p.field for p in receipts[2].error.problems] == ["requests[2].url"]
    assert world.queue.depth(DOCS).queued == 2


def test_a_caller_names_no_callback_of_a_scrapy_spider_unless_its_biz_lets_it(world):
    entries = [Submission(url=URL, meta={"scrapy": '{"callback": "parse"}', "page": 1})]

    [refused] = world.submission().submit(world.tree, "default", "docs", entries, START)

    assert [p.field for p in refused.error.problems] == ["requests[0].meta.scrapy"]
    assert "intake.scrapy_requests" in str(refused.error)
    biz = replace(world.biz, intake=replace(world.biz.intake, scrapy_requests=True))
    [accepted] = world.submission().submit(make_tree(biz), "default", "docs", entries, START)
    assert isinstance(accepted, Accepted)


def test_nobody_submits_under_a_name_that_a_fire_will_have(world):
    name = fire_name("nightly", START)
    entries = [Submission(url=URL, job=name), Submission(url=URL, job="june")]

    refused, accepted = world.submission().submit(world.tree, "default", "docs", entries, START)

    assert isinstance(accepted, Accepted)
    [problem] = refused.error.problems
    assert (problem.field, "choose another" in problem.message) == ("requests[0].job", True)
    assert world.queue.depth(DOCS).queued == 1


def test_the_only_rule_of_a_biz_need_not_be_named(world):
    [receipt] = world.submission().submit(
        world.tree, "default", "docs", [Submission(url=URL)], START
    )

    assert world.store.get(DOCS, world.biz, receipt.id).request.body.rule == "page"


def test_an_unknown_rule_or_biz_is_answered_with_those_there_are(world):
    [receipt] = world.submission().submit(
        world.tree, "default", "docs", [Submission(url=URL, rule="pgae")], START
    )
    with pytest.raises(UnknownBizError, match="there is no biz called 'dosc'; there are: docs"):
        world.submission().submit(world.tree, "acme", "dosc", [Submission(url=URL)], START)

    [problem] = receipt.error.problems
    assert problem.message == "this biz has no rule called 'pgae'; it has: page"


def test_a_biz_with_several_rules_wants_one_named():
    rules = {"page": make_biz().rules["page"], "other": make_biz().rules["page"]}
    world = World(tree=make_tree(make_biz(rules=rules)))

    [receipt] = world.submission().submit(
        world.tree, "default", "docs", [Submission(url=URL)], START
    )

    assert receipt.error.problems[0].field == "requests[0].rule"
    assert "other, page" in receipt.error.problems[0].message


def test_an_unknown_rule_is_named_and_nothing_is_stored(world):
    [receipt] = world.submission().submit(
        world.tree,
        "default",
        "docs",
        [Submission(url=URL, rule="no")],
        START,
        single=True,
    )

    assert receipt.error.problems[0].field == "rule"
    assert world.ledger().pending == 0


def test_an_unknown_biz_is_refused(world):
    with pytest.raises(UnknownBizError):
        world.submission().submit(world.tree, "default", "nobiz", [Submission(url=URL)], START)


def test_a_tenant_sees_nothing_of_another_ones_submission(world):
    [receipt] = send(world, URL)

    assert world.store.get(OTHER, world.biz, receipt.id) is None
    assert world.queue.depth(OTHER).queued == 0


def test_redis_down_after_mongodb_accepted_is_still_a_yes(world):
    [receipt] = send(world, URL, queue=Broken())

    assert isinstance(receipt, Accepted)
    assert world.store.get(DOCS, world.biz, receipt.id).state == State.PENDING
    assert "by recovery" in world.warnings[0]


def test_mongodb_down_is_a_no_and_nothing_is_queued(world):
    with pytest.raises(StoreUnavailableError):
        send(world, URL, rules=Broken())

    assert world.queue.depth(DOCS).queued == 0


def test_a_node_that_is_down_refuses_its_own_requests_only(world):
    class HalfDown:
        def insert(self, queue_key, biz, requests, kept):
            from tests.kit.requests import Inserted

            dead = StoreUnavailableError("mongodb", "no answer")
            world.store.insert(queue_key, biz, requests[1:])
            return Inserted(refused={requests[0].id: dead})

    receipts = send(world, URL, URL + "2", store=HalfDown())

    assert [type(receipt) for receipt in receipts] == [Refused, Accepted]
    assert world.queue.depth(DOCS).queued == 1


def test_every_node_down_is_an_error(world):
    class Down:
        def insert(self, queue_key, biz, requests, kept):
            from tests.kit.requests import Inserted

            dead = StoreUnavailableError("mongodb", "no answer")
            return Inserted(refused={request.id: dead for request in requests})

    with pytest.raises(StoreUnavailableError):
        send(world, URL, store=Down())


def test_an_id_that_is_taken_is_a_conflict_and_not_queued_again(world):
    [receipt] = send(world, URL)
    request = world.store.get(DOCS, world.biz, receipt.id).request

    [again] = world.submission().persist_and_enqueue(DOCS, world.biz, [request], START)

    assert isinstance(again.error, ConflictError)
    assert world.queue.depth(DOCS).queued == 1


def test_the_first_submission_to_an_idle_fleet_wakes_one_consumer(world):
    send(world, URL)
    send(world, URL)

    assert world.woken == [1]


def test_a_submission_to_a_living_fleet_wakes_nobody(world):
    world.workers.beat("w", START)

    send(world, URL)

    assert world.woken == []


@pytest.mark.parametrize("wrong", [timedelta(minutes=-5), timedelta(minutes=5)])
def test_a_router_whose_clock_is_wrong_wakes_nobody_where_a_worker_lives(world, wrong):
    world.workers.beat("w", world.now)
    there = world.now + wrong

    pages = [Submission(url="https://example.org/")]
    world.submission().submit(world.tree, "default", "docs", pages, there)

    assert world.woken == []


def test_a_submission_behind_others_wakes_a_worker_where_all_have_died(world):
    send(world, URL)
    world.workers.beat("w", world.now)
    world.woken.clear()
    world.now += timedelta(seconds=16)

    send(world, URL)

    assert world.queue.depth(DOCS).queued == 2
    assert world.woken == [1]


def test_submissions_to_a_queue_that_fills_look_for_a_living_worker_now_and_then_only(world):
    submission, asked = world.submission(), []
    submission = dataclasses.replace(submission, workers=Asked(asked))

    for _ in range(20):
        submission.submit(world.tree, "default", "docs", [Submission(url=URL)], world.now)

    assert len(asked) == 2, "for the first one, and for the first behind it"


class Asked:
    """Reservations that somebody lives, and how often that was asked."""

    def __init__(self, asked: list[int]) -> None:
        self._asked = asked

    def reserve_wake(self, _now: object, wanted: int, _most: int | None = None) -> int:
        self._asked.append(wanted)
        return 0


def test_a_consumer_that_cannot_be_woken_is_left_to_the_tick(world):
    [receipt] = send(world, URL, waker=Broken())

    assert isinstance(receipt, Accepted)
    assert "no consumer" in world.warnings[0]


def test_a_batch_of_which_nothing_is_admitted_asks_for_no_ids(world):
    before = world.ids.last

    send(world, "ftp://x/", "ftp://y/")

    assert world.ids.last == before


def test_a_biz_whose_document_was_never_right_is_no_unknown_one(world):
    world.tree = replace(world.tree, bizs={}, refused=frozenset({("default", "docs")}))

    with pytest.raises(ConfigError, match="bizs/default/docs"):
        send(world, URL)
    with pytest.raises(UnknownBizError):
        send(world, URL, tenant="acme")

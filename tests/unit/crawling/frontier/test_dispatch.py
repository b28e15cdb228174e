from datetime import timedelta

import pytest
from msgspec.structs import replace

from tests.fakes.submission import MemoryIntake
from tests.kit.frontier import NODE_AWAY_RETRY, SeedState
from tests.kit.kernel import StoreError, StoreUnavailableError
from tests.kit.requests import Dead, Done, Entry, Inserted, Retry, State
from tests.kit.worlds.doubles import Broken, Failing
from tests.kit.worlds.frontier import SeedWorld, a_spec, url
from tests.kit.worlds.memory import DOCS, RULE, make_biz, make_tree

HOUR = timedelta(hours=1)
SECOND = timedelta(seconds=1)
DAY = timedelta(days=1)


@pytest.fixture
def world() -> SeedWorld:
    return SeedWorld()


def late(world: SeedWorld) -> None:
    world.now += HOUR + SECOND


def states(world: SeedWorld) -> list[str]:
    return [seed.state.label for seed in sorted(world.kept(), key=lambda seed: seed.spec.url)]


# ---- dispatched --------------------------------------------------------------------------------


def test_a_seed_becomes_a_request_that_says_so(world):
    given = a_spec(1, meta={"a": 1}, headers={"X-A": "b"}, depth=3, job="june")
    [answer] = world.add(given)

    assert world.dispatch() == 1

    [tracked] = world.requests()
    body = tracked.request.body
    assert (body.url, body.rule, body.rule_version) == (url(1), "page", RULE.version)
    assert (body.meta, body.headers, body.depth) == ({"a": 1}, {"X-A": "b"}, 3)
    assert body.seed == f"{answer.segment}/{answer.key}"
    assert (tracked.request.job, tracked.request.queued_at) == ("june", world.now)
    assert world.rules.get_version(DOCS, "page", RULE.version) == RULE
    assert world.queue.depth(DOCS).queued == 1
    assert world.woken == [1]
    [seed] = world.kept()
    assert (seed.state, seed.request) == (SeedState.HANDED, tracked.request.id)
    assert world.dispatch() == 0


def test_no_more_are_queued_than_wanted_ahead(world):
    world.set_policy(ahead=5)
    world.add(*range(12))

    assert [world.dispatch(), world.dispatch()] == [5, 0]
    claims = world.claim(world.now + HOUR)
    assert world.dispatch() == 0, "what is worked on counts too"
    world.settle([(claim, Done(())) for claim in claims[:3]])
    assert world.dispatch() == 3
    assert len(world.kept(SeedState.READY)) == 4


def test_links_are_followed_beside_a_backlog_of_others(world):
    world.set_policy(ahead=5)
    world.queue.enqueue(DOCS, [Entry(10**9 + n, "docs", 1) for n in range(50)], world.now)
    world.add(*range(12))

    assert [world.dispatch(beside=3), world.dispatch(beside=3)] == [3, 0]
    assert world.seeds.handed(DOCS, world.biz, 9) == 3
    assert world.seeds.handed(DOCS, world.biz, 2) == 2


def test_one_call_dispatches_in_batches_up_to_a_bound(world):
    world.set_policy(ahead=50_000)
    for start in range(0, 3_000, 1_000):
        world.add(*range(start, start + 1_000))

    handed = [
        world.ports().dispatch(world.tree, DOCS, world.biz, world.now, most=1_500) for _ in range(3)
    ]

    assert handed == [1_500, 1_500, 0]


def test_no_ids_are_taken_where_nothing_is_due(world):
    world.add(a_spec(1, starts_at=world.now + DAY))

    assert world.dispatch(ids=Broken()) == 0
    world.now += DAY
    assert world.dispatch() == 1


def test_a_dispatcher_that_comes_second_dispatches_nothing(world):
    class Late:
        def __getattr__(self, name):
            return getattr(world.seeds, name)

        def dispatch(self, *args):
            assert world.dispatch() == 2
            return world.seeds.dispatch(*args)

    world.add(1, 2)

    assert world.dispatch(seeds=Late()) == 0
    assert len(world.requests()) == 2


def test_nothing_is_dispatched_while_redis_is_nearly_full(world):
    world.add(1)

    assert world.dispatch(intake=MemoryIntake(world.queue, memory=lambda: 0.9)) == 0
    assert states(world) == ["ready"]


def test_a_seed_whose_rule_is_gone_fails_and_can_be_released(world):
    world.add(1)
    tree = world.tree
    world.tree = make_tree(make_biz(rules={"other": RULE}))

    assert world.dispatch() == 0

    [seed] = world.kept()
    assert seed.state is SeedState.FAILED
    assert "no rule called 'page'" in seed.why
    assert world.requests() == []
    world.tree = tree
    world.seeds.release(DOCS, world.biz, [seed.id], "again", world.now)
    assert world.dispatch() == 1


def test_refused_requests_go_back_and_are_stored_when_looked_after(world):
    world.add(1, 2)

    class Half:
        def insert(self, queue_key, biz, requests, kept):
            refused = {requests[0].id: StoreUnavailableError("mongodb", "away")}
            found = world.store.insert(queue_key, biz, requests[1:], kept)
            return Inserted(existing=found.existing, refused=refused)

    assert world.dispatch(store=Half()) == 1
    ids = {seed.request for seed in world.kept()}
    world.now += SECOND
    assert world.recheck() == 1
    assert {tracked.request.id for tracked in world.requests()} == ids
    assert world.queue.depth(DOCS).queued == 2


def test_when_the_store_is_away_seeds_wait_for_a_recheck(world):
    world.add(1, 2)

    with pytest.raises(StoreUnavailableError):
        world.dispatch(store=Broken())

    ids = {seed.request for seed in world.kept(SeedState.HANDED)}
    world.now += SECOND
    assert world.recheck() == 2
    assert {tracked.request.id for tracked in world.requests()} == ids


def test_a_request_that_can_never_be_stored_fails_its_seed_and_no_other(world):
    world.add(1, 2, 3)
    bad = url(2)

    class Picky:
        def insert(self, queue_key, biz, requests, kept):
            error = StoreError("too large")
            wrong = {r.id: error for r in requests if r.body.url == bad}
            good = [r for r in requests if r.id not in wrong]
            found = world.store.insert(queue_key, biz, good, kept)
            return Inserted(existing=found.existing, refused=wrong)

    assert world.dispatch(store=Picky()) == 2
    assert states(world) == ["handed", "failed", "handed"]
    assert "too large" in world.kept(SeedState.FAILED)[0].why


def test_where_none_can_ever_be_stored_each_is_asked_about_alone(world):
    world.add(1, 2)

    class Full:
        def insert(self, queue_key, biz, requests, kept):
            if len(requests) == 1 and requests[0].body.url == url(1):
                return world.store.insert(queue_key, biz, requests, kept)
            return Inserted(refused={r.id: StoreError("too large") for r in requests})

    assert world.dispatch(store=Full()) == 1
    assert states(world) == ["handed", "failed"]


def test_without_redis_requests_are_stored_and_queued_by_recovery(world):
    world.add(1)

    assert world.dispatch(queue=Broken()) == 1
    assert [tracked.state for tracked in world.requests()] == [State.PENDING]
    with pytest.raises(StoreUnavailableError):
        world.dispatch(intake=Broken())


# ---- rechecked ---------------------------------------------------------------------------------


def test_seeds_are_not_rechecked_before_their_time_is_up(world):
    world.add(1)
    world.dispatch()

    assert world.recheck() == 0
    world.now += HOUR
    assert world.recheck() == 0


def test_unfinished_requests_get_more_time(world):
    world.add(1)
    world.dispatch()
    late(world)

    assert world.recheck() == 1
    assert [seed.due_at for seed in world.kept()] == [world.now + HOUR]
    assert len(world.requests()) == 1
    assert world.recheck() == 0


def test_whoever_thaws_while_its_seeds_are_rechecked_makes_no_second_request(world):
    world.add(1, 2)

    class Frozen:
        def insert(self, queue_key, biz, requests, kept):
            late(world)
            assert world.recheck() == 2
            world.work()
            return world.store.insert(queue_key, biz, requests, kept)

    assert world.dispatch(store=Frozen()) == 2

    assert states(world) == ["finished"] * 2
    assert len(world.requests()) == 2
    assert world.work() == 0, "what is queued again is done already"


def test_two_that_recheck_the_same_seed_store_one_request(world):
    world.add(1)
    with pytest.raises(StoreUnavailableError):
        world.dispatch(store=Broken())
    late(world)

    class Slow:
        def get(self, *arguments):
            return world.store.get(*arguments)

        def insert(self, *arguments):
            world.recheck()
            return world.store.insert(*arguments)

    assert world.recheck(store=Slow()) == 1

    assert len(world.requests()) == 1
    assert states(world) == ["handed"]


@pytest.mark.parametrize(
    ("outcome", "state", "why"),
    [
        (Done(()), SeedState.FINISHED, ""),
        (Dead("PageGone: 404", "PageGone"), SeedState.FAILED, "is dead: PageGone: 404"),
    ],
)
@pytest.mark.parametrize("seeds_end", [True, False], ids=["by the worker", "by the recheck"])
def test_a_seed_ends_as_its_request_does_also_when_its_worker_died_before_reporting(
    world, outcome, state, why, seeds_end
):
    world.add(1)
    world.dispatch()
    world.work(lambda _: outcome, seeds_end=seeds_end)
    late(world)
    assert world.recheck() == (0 if seeds_end else 1)

    [seed] = world.kept()
    assert seed.state is state
    assert seed.why.endswith(why)
    assert world.add(1)[0].accepted is False


def expire(world):
    """Let the biz's time to live pass, and recovery book what has expired."""
    world.now += timedelta(seconds=world.biz.ttl_seconds + 1)
    world.store.expire(DOCS, world.biz, world.now)


def test_a_cancelled_request_fails_its_seed(world):
    world.add(1)
    world.dispatch()
    [tracked] = world.requests()
    world.store.cancel(DOCS, world.biz, tracked.request.id, "me", world.now)
    late(world)

    assert world.recheck() == 1
    [seed] = world.kept()
    assert (seed.state, seed.why.endswith("was cancelled")) == (SeedState.FAILED, True)


def test_seeds_whose_requests_expired_are_dispatched_again_and_end_well(world):
    world.add(1, 2)
    world.dispatch()
    first = {seed.spec.url: seed.request for seed in world.kept()}
    expire(world)

    assert world.recheck() == 2
    [seed, _] = world.kept()
    assert (seed.state, seed.request, seed.due_at) == (SeedState.READY, None, world.now)
    assert seed.why == (
        f"request {first[seed.spec.url]} expired: nobody worked on it within the TTL; "
        "it is dispatched again"
    )
    assert world.dispatch() == 2
    assert world.work() == 2
    assert {seed.state for seed in world.kept()} == {SeedState.FINISHED}
    assert {seed.tries for seed in world.kept()} == {2}


def test_an_expired_seed_is_found_when_its_time_to_live_is_over_and_not_a_lease_later():
    world = SeedWorld(lease_seconds=10 * 365 * 86_400)
    world.add(1)
    world.dispatch()
    expire(world)

    assert world.recheck() == 1
    assert [seed.state for seed in world.kept()] == [SeedState.READY]


def test_the_seed_of_a_request_that_is_gone_with_its_time_to_live_is_dispatched_again(world):
    world.add(1)
    with pytest.raises(StoreUnavailableError):
        world.dispatch(store=Broken())
    world.now += timedelta(seconds=world.biz.ttl_seconds)

    assert world.recheck() == 1

    [seed] = world.kept()
    assert seed.state is SeedState.READY
    assert "is gone, with the biz's TTL; it is dispatched again" in seed.why
    assert world.dispatch() == 1


def test_seeds_of_a_node_that_is_away_are_rechecked_later(world):
    world.add(*range(3))
    world.dispatch()
    late(world)

    assert world.recheck(store=Broken()) == 3
    assert len(world.warnings) == 1
    assert {seed.due_at for seed in world.kept()} == {world.now + NODE_AWAY_RETRY}
    assert {seed.state for seed in world.kept()} == {SeedState.HANDED}


def test_a_retry_does_not_end_a_seed_and_a_replay_ends_it_well(world):
    world.add(1)
    world.dispatch()
    [claim] = world.claim(world.now + HOUR)
    ports = world.ports()

    assert ports.end(DOCS, world.biz, [(claim, Retry(world.now, "503"))], world.now) == 0
    assert ports.end(DOCS, world.biz, [(claim, Dead("503"))], world.now) == 1
    assert states(world) == ["failed"]
    assert ports.end(DOCS, world.biz, [(claim, Done(()))], world.now) == 1
    assert states(world) == ["finished"]


def test_requests_that_were_no_seeds_end_none(world):
    world.add(1)
    world.dispatch()
    [claim] = world.claim(world.now + HOUR)
    plain = replace(
        claim, request=replace(claim.request, body=replace(claim.request.body, seed=None))
    )

    assert world.ports().end(DOCS, world.biz, [(plain, Done(()))], world.now) == 0
    assert states(world) == ["handed"]


def test_an_end_that_cannot_be_reported_is_found_out_later(world):
    world.add(1)
    world.dispatch()
    [claim] = world.claim(world.now + HOUR)
    ports = world.ports(seeds=Failing(world.seeds, ended=1))

    assert ports.end(DOCS, world.biz, [(claim, Done(()))], world.now) == 0
    assert len(world.warnings) == 1


def test_a_released_seed_is_dispatched_again_as_another_request(world):
    world.add(1)
    world.dispatch()
    world.work(lambda _: Dead("404"))
    [failed] = world.kept()

    world.seeds.release(DOCS, world.biz, [failed.id], "mended", world.now)
    assert world.dispatch() == 1
    world.work()

    [seed] = world.kept()
    assert (seed.state, seed.tries) == (SeedState.FINISHED, 2)
    assert sorted(tracked.state for tracked in world.requests()) == [State.DONE, State.DEAD]

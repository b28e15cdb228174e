"""Tenants are held to their ceilings: submissions are refused, or requests wait; both say why."""

from contextlib import ExitStack
from datetime import timedelta

import pytest
from msgspec.structs import replace

from tests.fakes.ceilings import MemoryCeilings, MemorySizes
from tests.kit.ceilings import REDIS_SECONDS, STORED_SECONDS, Ceilings, QueueBytes
from tests.kit.config import Tenant
from tests.kit.kernel import BacklogFullError, StoreUnavailableError
from tests.kit.requests import Submission
from tests.kit.worlds.memory import DOCS, OTHER
from tests.kit.worlds.worker import Parts, submitted

GIGABYTE = 10**9


def bounded(world, tenant="default", **ceilings):
    """The world in which a tenant has these ceilings."""
    tenants = {**world.tree.tenants, tenant: Tenant(ceilings=Ceilings(**ceilings))}
    world.tree = replace(world.tree, tenants=tenants)


def queue(world, count, tenant="default", submission=None):
    pages = [Submission(url=f"https://{tenant}.example/{n}") for n in range(count)]
    submission = submission or world.submission()
    return submission.submit(world.tree, tenant, "docs", pages, world.now)


def refused(world, count=1, **ports):
    with pytest.raises(BacklogFullError) as caught:
        queue(world, count, **ports)
    assert world.queue.depth(DOCS).queued <= 1
    return caught.value


def test_a_submission_beyond_the_tenants_bytes_in_redis_says_which_how_much_and_when(world):
    queue(world, 1)
    bounded(world, redis_bytes=5_000_000)
    world.permits.queues = QueueBytes(5_000_000, 0)

    error = refused(world)

    assert (error.limit, error.used, error.allowed) == (
        "ceilings.redis_bytes",
        5_000_000,
        5_000_000,
    )
    assert error.retry_after_seconds == REDIS_SECONDS
    assert "5,000,000 of 5,000,000 (ceilings.redis_bytes)" in str(error)


@pytest.mark.parametrize(
    ("name", "sizes"), [("stored_bytes", (GIGABYTE, 1)), ("documents", (1, GIGABYTE))]
)
def test_a_submission_beyond_what_the_tenant_may_store_is_refused(world, name, sizes):
    bounded(world, **{name: GIGABYTE})
    world.sizes.sizes = {"default": sizes}

    error = refused(world)

    assert (error.limit, error.used, error.allowed) == (f"ceilings.{name}", GIGABYTE, GIGABYTE)
    assert error.retry_after_seconds == STORED_SECONDS


def test_one_of_several_tenants_has_no_more_than_its_part_of_redis_by_default(world):
    """A half of what all may have: nobody has the whole, though nobody was given a ceiling."""
    queue(world, 1)
    allowed = round(GIGABYTE * 0.85 * 0.5)
    world.permits.queues = QueueBytes(allowed, GIGABYTE)

    error = refused(world)

    assert (error.limit, error.allowed) == ("tenant_redis_ratio", allowed)


def test_a_tenant_that_is_alone_has_the_whole_of_redis(world):
    world.tree = replace(world.tree, bizs={"default": {"docs": world.biz}})
    queue(world, 1)
    world.permits.queues = QueueBytes(GIGABYTE, GIGABYTE)

    assert len(queue(world, 1)) == 1


def test_one_tenant_at_its_ceiling_keeps_no_other_from_anything(world):
    bounded(world, documents=1_000)
    world.sizes.sizes = {"default": (0, 1_000)}

    assert len(queue(world, 3, tenant="acme")) == 3
    refused(world)


def test_what_this_process_has_queued_counts_before_it_is_measured(world):
    """Within the seconds for which a size is remembered."""
    bounded(world, redis_bytes=1_000_000)
    submission = world.submission()
    queue(world, 1, submission=submission)
    world.ceilings().sizes.queued("acme", 10**6)
    for _ in range(12):
        queue(world, 1_000, submission=submission)

    with pytest.raises(BacklogFullError, match="redis_bytes"):
        queue(world, 1, submission=submission)


def test_sizes_are_asked_for_again_after_some_seconds_and_not_before(world):
    bounded(world, documents=1_000)
    submission = world.submission()
    queue(world, 1, submission=submission)
    world.sizes.sizes = {"default": (0, 1_000)}
    queue(world, 1, submission=submission)
    world.now += timedelta(seconds=31)

    with pytest.raises(BacklogFullError):
        queue(world, 1, submission=submission)


def test_submissions_beyond_the_tenants_rate_are_told_when_to_come_back(world):
    bounded(world, submissions_per_second=2.0, burst=4)
    queue(world, 4)

    with pytest.raises(BacklogFullError) as caught:
        queue(world, 1)

    assert caught.value.limit == "ceilings.submissions_per_second"
    assert caught.value.retry_after_seconds == 0.5
    assert (caught.value.used, caught.value.allowed) == (2.0, 2.0)
    assert "of late there were 2 a second" in str(caught.value)
    world.now += timedelta(seconds=0.5)
    assert len(queue(world, 1)) == 1


class Away(MemoryCeilings, MemorySizes):
    """Stores that do not answer."""

    def _fail(self, *_):
        raise StoreUnavailableError("mongodb", "away")

    permits = trials = rate = bytes = of = _fail


def test_a_store_that_does_not_answer_stands_against_no_submission(world):
    bounded(world, documents=1_000, redis_bytes=1_000_000, submissions_per_second=1.0)
    world.permits = world.sizes = Away()

    assert len(queue(world, 3)) == 3
    assert any("not known" in one for one in world.warnings)


def test_jobs_and_seeds_wait_while_their_tenant_is_at_a_ceiling(world):
    bounded(world, documents=1_000)
    world.sizes.sizes = {"default": (0, 1_000)}
    ceilings = world.ceilings()

    assert [one.limit for one in ceilings.standing_against(world.tree, "default")] == [
        "ceilings.documents"
    ]
    with pytest.raises(BacklogFullError):
        world.submission().make_room(world.tree, DOCS, 1, world.biz.intake, world.now)


# ---- trials ------------------------------------------------------------------------------------


def test_a_trial_beyond_its_tenants_says_which_limit_how_much_and_when(world):
    bounded(world, trials=2)
    ceilings = world.ceilings()
    with ExitStack() as under_way:
        for _ in range(2):
            under_way.enter_context(ceilings.trial(world.tree, "default"))
        with pytest.raises(BacklogFullError) as caught, ceilings.trial(world.tree, "default"):
            pass
        with ceilings.trial(world.tree, "acme"):
            pass

    error = caught.value
    assert (error.limit, error.used, error.allowed) == ("ceilings.trials", 2, 2)
    assert error.retry_after_seconds == 1.0
    with ceilings.trial(world.tree, "default"):
        pass


def test_a_trial_that_fails_is_under_way_no_more(world):
    bounded(world, trials=1)
    for _ in range(2):
        with pytest.raises(KeyError), world.ceilings().trial(world.tree, "default"):
            raise KeyError


def test_rules_are_tried_while_redis_does_not_answer(world):
    bounded(world, trials=1)
    world.permits = Away()

    with (
        world.ceilings().trial(world.tree, "default"),
        world.ceilings().trial(world.tree, "default"),
    ):
        assert any("trials go on" in one for one in world.warnings)


# ---- leases ------------------------------------------------------------------------------------


def served(parts, batches=3):
    """Lease and keep what comes, as a worker does."""
    found = []
    for _ in range(batches):
        for one in parts.leases.take().leased:
            parts.session.in_flight.add(one)
            found.append(one)
    return found


def test_nothing_is_leased_of_a_tenant_that_has_stored_what_it_may(world):
    submitted(world, "https://a.example/", "https://b.example/")
    submitted(world, "https://c.example/", tenant="acme")
    bounded(world, stored_bytes=GIGABYTE)
    world.sizes.sizes = {"default": (GIGABYTE, 1)}

    assert {one.queue_key for one in served(Parts(world))} == {OTHER}


def test_workers_together_lease_no_more_than_a_tenant_may_have_in_flight(world):
    submitted(world, *(f"https://h{n}.example/" for n in range(40)))
    bounded(world, in_flight=7)
    one, other = Parts(world, name="one"), Parts(world, name="other")

    first, second = served(one), served(other)

    assert (len(first), len(second)) == (7, 0)
    for leased in first[:3]:
        one.session.in_flight.drop(leased)
    world.now += timedelta(seconds=1)
    assert len(served(one)) + len(served(other)) == 3


def test_what_a_worker_gives_up_others_have_within_a_second(world):
    submitted(world, *(f"https://h{n}.example/" for n in range(40)))
    bounded(world, in_flight=5)
    one, other = Parts(world, name="one"), Parts(world, name="other")
    for leased in served(one):
        one.session.in_flight.drop(leased)
    world.tree = replace(world.tree, bizs={"default": {}, "acme": world.tree.bizs["acme"]})
    world.now += timedelta(seconds=1)
    one.leases.take()  # it has nothing to lease any more, and says so
    world.tree = replace(world.tree, bizs={"default": {"docs": world.tree.bizs["acme"]["docs"]}})

    assert len(served(other)) == 5


def test_leases_keep_to_the_tenants_rate_and_others_have_the_workers_meanwhile(world):
    submitted(world, *(f"https://h{n}.example/" for n in range(40)))
    submitted(world, *(f"https://h{n}.example/" for n in range(10)), tenant="acme")
    bounded(world, leases_per_second=3.0)
    parts = Parts(world)

    leased = served(parts, 6)

    assert sum(one.queue_key == DOCS for one in leased) == 3
    assert sum(one.queue_key == OTHER for one in leased) == 10
    world.now += timedelta(seconds=1)
    assert len(served(parts)) == 3


def test_a_ceiling_that_is_changed_holds_from_the_next_lease_on(world):
    submitted(world, *(f"https://h{n}.example/" for n in range(40)))
    bounded(world, in_flight=5)
    parts = Parts(world)
    assert len(served(parts)) == 5
    bounded(world, in_flight=8)
    world.now += timedelta(seconds=1)

    assert len(served(parts)) == 3


def test_a_tenant_waits_while_its_permits_are_not_known_and_nobody_else_does(world):
    submitted(world, *(f"https://h{n}.example/" for n in range(4)))
    submitted(world, *(f"https://h{n}.example/" for n in range(4)), tenant="acme")
    bounded(world, in_flight=9)
    world.permits = Away()

    assert [one.queue_key for one in served(Parts(world))] == [OTHER] * 4
    assert any("is not known" in one for one in world.warnings)


def test_permits_that_cannot_be_given_back_keep_nobody_from_a_lease(world, monkeypatch):
    submitted(world, *(f"https://h{n}.example/" for n in range(4)))
    bounded(world, in_flight=9)
    parts = Parts(world)
    assert len(served(parts)) == 4
    submitted(world, *(f"https://h{n}.example/" for n in range(4)), tenant="acme")
    monkeypatch.setattr(world.permits, "permits", Away().permits)
    world.now += timedelta(minutes=1)

    assert [one.queue_key for one in served(parts)] == [OTHER] * 4
    assert any("could not be given back" in one for one in world.warnings)


def test_without_ceilings_redis_is_asked_for_no_permits(world):
    submitted(world, *(f"https://h{n}.example/" for n in range(4)))
    world.permits = Away()

    assert len(served(Parts(world))) == 4

from collections import Counter
from dataclasses import replace as with_changes
from functools import partial

import pytest
from msgspec.structs import replace

from tests.kit.config import Tenant
from tests.kit.jobs import MOST_REFUSALS, JobState
from tests.kit.spiders import Range, Start
from tests.kit.worker import SteadyTime
from tests.kit.worlds.crashes import Kill, KilledError
from tests.kit.worlds.jobs import (
    assert_exact,
    begin,
    job_of,
    run,
    tasks,
)
from tests.kit.worlds.memory import DOCS, OTHER, make_biz, make_tree

in_fours = partial(run, batch=4)


def test_a_job_becomes_as_many_tasks_as_it_has_each_once(world):
    begin(world, 2_345)

    done = run(world)

    assert (done.batches, done.tasks) == (3, 2_345)
    assert job_of(world).state is JobState.RUNNING
    assert job_of(world).expanded_at == world.now
    assert_exact(world)
    assert world.queue.depth(DOCS).queued == 2_345
    assert run(world).batches == 0


def test_tasks_have_the_rule_version_of_their_job(world):
    job = begin(world, 2)
    edited = replace(world.biz.rules["page"], fields={})
    world.tree = make_tree(make_biz(rules={"page": edited}))

    run(world)

    assert edited.version != job.rule_version
    assert {one.body.rule_version for one in tasks(world)} == {job.rule_version}
    assert world.rules.get_version(DOCS, "page", job.rule_version) is not None


def test_a_thousand_urls_become_a_thousand_tasks(world):
    urls = tuple(f"https://example.org/{n}" for n in range(1_000))
    begin(world, Start(urls=urls))

    assert run(world).batches == 1
    assert_exact(world)


def test_somebody_is_woken_to_work_on_them(world):
    begin(world, 5)

    run(world)

    assert world.woken == [1]


def test_a_url_that_may_not_be_asked_for_is_counted_and_keeps_no_other_from_it(world):
    words = tuple("x" * length for length in (1, 3, 400, 2))
    long = f"https://example.org/{'y' * 7_700}"
    begin(world, Start(pattern=long + "/{n}/{w}", values={"w": words, "n": Range(last=20)}))

    run(world)

    job = job_of(world)
    assert (job.state, job.expanded, job.refused) == (JobState.RUNNING, 80, 20)
    assert len(tasks(world)) == 60
    assert len(job.refusals) == MOST_REFUSALS
    assert all("8,000 characters" in one for one in job.refusals)


def test_a_job_of_which_every_url_is_refused_runs_with_nothing_to_do(world):
    job = replace(begin(world), name="odd", start=Start(urls=("ftp://a.example/",)), size=1)
    world.jobs.create(job)

    run(world)

    odd = job_of(world, "odd")
    assert (odd.state, odd.refused) == (JobState.RUNNING, 1)
    [refusal] = odd.refusals
    assert refusal.startswith("ftp://a.example/: ")
    assert tasks(world, "odd") == []


# ---- turns -------------------------------------------------------------------------------------


def test_a_large_job_does_not_keep_others_waiting(world):
    begin(world, 1_000, "large")
    begin(world, 4, "small")
    calls = iter([1.0] * 12 + [0.0] * 99)

    in_fours(world, time_left=lambda: next(calls))

    assert job_of(world, "small").state is JobState.RUNNING
    assert 0 < job_of(world, "large").expanded < 1_000


def test_tenants_take_turns_however_many_jobs_one_has(world):
    for number in range(30):
        begin(world, 1_000, f"j{number}")
    begin(world, 4, "mine", tenant="acme")
    calls = iter([1.0] * 16 + [0.0] * 99)

    in_fours(world, time_left=lambda: next(calls))

    assert_exact(world, "mine", OTHER)


@pytest.mark.parametrize("share", [1, 3])
def test_slow_jobs_of_one_tenant_leave_others_their_part_of_a_tick(world, share):
    """Whatever a job of one takes longer, of another as many more are expanded meanwhile."""
    world.tree = replace(world.tree, tenants={"acme": Tenant(share=share)})
    for number in range(10):
        begin(world, 1_000, f"j{number}")
        begin(world, 1_000, f"j{number}", tenant="acme")
    passed, took, get = [0.0], Counter(), world.jobs.get

    def slow(tenant, *name):
        seconds = 8.0 if tenant == "default" else 1.0
        passed[0] += seconds
        took[tenant] += seconds
        return get(tenant, *name)

    world.jobs.get = slow
    steady = SteadyTime(lambda: passed[0])
    in_fours(world, time_left=lambda: 60.0 - passed[0], steady=steady)

    assert abs(took["acme"] - share * took["default"]) <= 8.0 * share + 2


def test_nothing_is_made_when_no_time_is_left(world):
    begin(world)

    assert run(world, time_left=lambda: 0.0).batches == 0
    assert tasks(world) == []


def test_a_cancelled_job_makes_no_more_and_closes_the_batch_that_stands(world):
    begin(world, 12)
    died = Kill(1, "dies after", lambda: None)
    with pytest.raises(KilledError):
        in_fours(world, store=died.around(world.store))
    world.jobs.cancel("default", "docs", "june", world.now)
    begin(world, 12, "other")
    world.jobs.cancel("default", "docs", "other", world.now)

    in_fours(world)

    job = job_of(world)
    assert (job.state, job.batch, job.expanded) == (JobState.CANCELLING, None, 4)
    assert len(tasks(world)) == 4
    assert job_of(world, "other").expanded == 0


def test_a_cancelled_job_closes_its_batch_also_where_its_rule_is_gone(world):
    begin(world, 12)
    with pytest.raises(KilledError):
        in_fours(world, store=Kill(1, "dies before", lambda: None).around(world.store))
    world.jobs.cancel("default", "docs", "june", world.now)
    world.tree = make_tree(make_biz(rules={"other": world.biz.rules["page"]}))

    in_fours(world)

    assert (job_of(world).batch, job_of(world).expanded) == (None, 4)


def test_a_cancelled_job_of_a_biz_that_is_gone_stores_nothing(world):
    begin(world, 12)
    with pytest.raises(KilledError):
        in_fours(world, store=Kill(1, "dies before", lambda: None).around(world.store))
    world.jobs.cancel("default", "docs", "june", world.now)
    del world.tree.bizs["default"]["docs"]

    in_fours(world)

    assert job_of(world).batch is None
    assert tasks(world) == []


def test_a_tenant_is_charged_the_time_that_its_tasks_take_of_whoever_makes_them(world):
    """A worker has pages of others to read."""
    for name in ("june", "may"):
        begin(world, 2, name)
    now, charged = [0.0], []
    get = world.jobs.get

    def slow(tenant, *name):
        now[0] += 2.5
        return get(tenant, *name)

    world.jobs.get = slow
    ports = with_changes(world.expanding(None), steady=SteadyTime(lambda: now[0]))

    ports.expand(world.tree, world.clock, lambda: 60.0, lambda *charge: charged.append(charge))

    assert {tenant for tenant, _ in charged} == {"default"}
    assert sum(seconds for _, seconds in charged) == now[0]

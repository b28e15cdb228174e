"""An incident and a figure where quotas are used up (SPEC.md D9)."""

from functools import partial

import pytest
from msgspec.structs import replace

from tests.kit.incidents import Kind, evaluate
from tests.kit.jobs import JobOrder, JobState, job_of
from tests.kit.monitoring import UsedUpQuota
from tests.kit.quotas import Quota, QuotaPeriod, QuotaUnit
from tests.kit.spiders import Start
from tests.kit.worlds.memory import DOCS, START, World, make_biz, make_tree
from tests.kit.worlds.monitoring import sample
from tests.kit.worlds.quotas import hold_a_share, limited
from tests.kit.worlds.samples import a_sample, a_tree, kinds, the
from tests.kit.worlds.worker import submitted, work

DAILY = Quota(unit=QuotaUnit.REQUESTS, most=12, per=QuotaPeriod.ALL)


def under_quotas():
    tree = a_tree()
    bizs = {
        tenant: {name: replace(biz, quotas=(DAILY,)) for name, biz in each.items()}
        for tenant, each in tree.bizs.items()
    }
    return limited(replace(tree, bizs=bizs), next(iter(bizs)), quotas=(DAILY,))


def test_quotas_that_are_used_up_are_a_finding_for_each_biz_and_tenant():
    tree = under_quotas()
    tenant, bizs = next(iter(tree.bizs.items()))
    biz = next(iter(bizs))
    used = (
        UsedUpQuota(tenant=tenant, biz=biz, said="biz said"),
        UsedUpQuota(tenant=tenant, said="tenant said"),
        UsedUpQuota(tenant=tenant, said="user said"),
    )

    found = [
        finding
        for finding in evaluate(a_sample(used_up=used), None, tree).findings
        if finding.kind is Kind.QUOTA_USED_UP
    ]

    assert [(str(one.place), one.said, one.value) for one in found] == [
        (f"tenant {tenant}", "tenant said; user said", 2),
        (f"biz {tenant}/{biz}", "biz said", 1),
    ]


def test_many_of_a_tenant_are_named_as_far_as_they_fit():
    used = tuple(UsedUpQuota(tenant="acme", said=f"user {n}") for n in range(9))

    finding = the(evaluate(a_sample(used_up=used), None, under_quotas()), Kind.QUOTA_USED_UP)

    assert finding.said.endswith("user 4; and 4 more")


def test_while_none_is_used_up_there_is_no_finding_and_that_is_known():
    tree = under_quotas()

    found, unread = (evaluate(a_sample(used_up=one), None, tree) for one in ((), None))

    keys = {key for key in unread.unknown if key.startswith(Kind.QUOTA_USED_UP)}
    assert Kind.QUOTA_USED_UP not in kinds(found)
    assert Kind.QUOTA_USED_UP not in kinds(unread)
    assert keys
    assert not keys & found.unknown


@pytest.mark.parametrize("unit", [QuotaUnit.REQUESTS, QuotaUnit.BYTES])
def test_a_user_that_no_document_names_is_in_the_sample_once_its_quota_is_used_up(world, unit):
    body = world.biz.fetch.max_body_bytes
    most = 2 if unit is QuotaUnit.REQUESTS else body + 1_500
    quota = Quota(unit=unit, most=most, per=QuotaPeriod.ALL)
    world.tree = limited(make_tree(world.biz), user_quotas=(quota,))
    pages = {f"https://example.org/{n}": b"x" * 1_000 for n in range(6)}
    submitted(world, *pages, user="ann")
    submitted(world, "https://example.org/0", user="bob")
    work(world, pages)

    [used] = sample(world, quotas=world.quotas.used_up).used_up

    assert (used.tenant, used.biz) == (DOCS.tenant, "")
    assert used.said.startswith("user ann has used 2")
    assert "(user_quotas[0])" in used.said

    world.tree = limited(make_tree(world.biz), user_quotas=(replace(quota, most=10 * most),))
    assert sample(world, quotas=world.quotas.used_up).used_up == ()


def test_an_open_job_whose_quota_is_used_up_is_a_finding_of_its_biz(world: World):
    quota = Quota(unit=QuotaUnit.REQUESTS, most=2)
    order = JobOrder(
        tenant="default",
        biz="docs",
        by="api",
        rule="page",
        start=Start(urls=("https://example.org/",)),
        quotas=(quota,),
    )
    made = job_of(order, None, "page", "v1", order.start, None, START, waits=False)
    job = replace(made, name="june", state=JobState.RUNNING)
    world.jobs.create(job)
    read = partial(world.quotas.used_up, jobs=world.jobs.quota_terms_of_open)
    submitted(world, *(f"https://example.org/{n}" for n in range(4)), job="june")
    assert sample(world, quotas=read).used_up == ()

    work(world, {f"https://example.org/{n}": b"" for n in range(4)})

    [used] = sample(world, quotas=read).used_up
    assert (used.tenant, used.biz) == ("default", "docs")
    assert used.said.startswith("job june of biz docs has used 2 of 2 requests in all (quotas[0])")

    world.jobs.set_quotas(job.key, (replace(quota, most=20),))
    assert sample(world, quotas=read).used_up == ()


def test_a_sample_says_which_quotas_are_used_up(world: World):
    biz = make_biz(quotas=(DAILY,))
    world.tree = make_tree(biz)
    read = world.quotas.used_up
    assert sample(world, quotas=read).used_up == ()

    hold_a_share(world.quotas, DOCS, world.now, most=12, wanted=12, spent=12)

    [used] = sample(world, quotas=read).used_up
    assert (used.tenant, used.biz) == (DOCS.tenant, DOCS.biz)
    assert used.said.startswith(f"biz {DOCS.biz} has used 12 of 12 requests in all (quotas[0])")

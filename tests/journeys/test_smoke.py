"""Checks of `make smoke` on a local cloud: pages through the API, its access by key, its health."""

import pytest

from infra.aws_access import Access
from infra.local.aws_server import CREDENTIALS
from infra.local.cloud import LocalCloud
from infra.local.demo import documentation_site
from infra.localstack.load import Load
from infra.localstack.site import urls
from infra.smoke import checks, pages
from infra.smoke.deployment import Deployment
from infra.steps import Step, StepError
from tests.kit.sdk import Client
from tests.waiting import eventually

BIZ = "docs"


@pytest.fixture(scope="module")
def cloud(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("REDIS_URL", raising=False)
        patch.delenv("MONGODB_URI", raising=False)
        folder = tmp_path_factory.mktemp("cloud")
        with LocalCloud(folder / "state", ticking=False) as cloud:
            yield cloud


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    with documentation_site(tmp_path_factory.mktemp("site")) as site:
        yield site.start


@pytest.fixture
def deployment(cloud):
    access = Access({**CREDENTIALS, "AWS_ENDPOINT_URL": cloud.aws_endpoint_url})
    # The local cloud's API has an address of its own, and no API Gateway that knows its keys.
    access.endpoint_url = None
    found = Deployment("local", access, {"api": {"Url": cloud.api_url}}, {})
    found.__dict__["api_key"] = cloud.api_key
    return found


@pytest.fixture
def client(deployment):
    with deployment.client() as client:
        yield client


@pytest.fixture
def step():
    return Step("it", lambda _: None)


def said_by_the_doctor(deployment: Deployment) -> str:
    try:
        return checks.doctor(deployment)
    except StepError as error:
        return str(error)


def test_the_doctor_finds_a_local_cloud_well_whose_scheduler_ticks(cloud, deployment):
    said = []

    def is_well():
        # A tick that found a store slow has faults, and is the latest one until the next.
        failed = cloud.fire("scheduler-tick")["failed"]
        said.append(said_by_the_doctor(deployment))
        return not failed and "the worst is" in said[-1]

    try:
        # What the router has seen it believes for ten seconds.
        eventually(is_well, 120)
    except AssertionError:
        pytest.fail(f"it is not well: {said[-1]}")


def test_pages_that_are_put_in_become_records_and_can_be_tracked(deployment, client, site, step):
    fetch_context = pages.FetchContext(biz=BIZ, rule="page", urls=urls(site, 12))

    ids = pages.submit(deployment, client, fetch_context)
    pages.wait_done(deployment, client, fetch_context, ids, 120, step)

    assert len(ids) == 12
    assert pages.records(client, fetch_context, ids) == "12 records"
    assert "the ledger balances at 12" in pages.tracking(client, fetch_context, ids)


def test_a_page_that_is_not_there_is_reported_with_its_reason(deployment, client, site, step):
    fetch_context = pages.FetchContext(
        biz=BIZ, rule="page", urls=["http://127.0.0.1:9/nobody-listens"]
    )

    ids = pages.submit(deployment, client, fetch_context)
    with pytest.raises(StepError, match=r"1 of 1 requests are not done: \d+ is dead") as caught:
        pages.wait_done(deployment, client, fetch_context, ids, 120, step)

    assert caught.value.do == "`crawlfleet dead list docs` says why each was given up on."
    with pytest.raises(StepError, match="1 requests have no record"):
        pages.records(client, fetch_context, ids)


def test_requests_that_are_not_there_are_reported(deployment, client, site, step):
    fetch_context = pages.FetchContext(biz=BIZ, rule="page", urls=urls(site, 1))

    with pytest.raises(StepError, match="1 of 1 requests are not there, such as 123"):
        pages.wait_done(deployment, client, fetch_context, ["123"], 120, step)


def test_a_biz_that_is_not_there_is_reported(deployment, client, site):
    fetch_context = pages.FetchContext(biz="nobody", urls=urls(site, 1))

    with pytest.raises(StepError, match="the submission was refused"):
        pages.submit(deployment, client, fetch_context)


def test_what_is_not_done_in_time_is_reported_with_what_explains_it(deployment, client, step, site):
    class Busy(Client):
        def stats(self, biz):
            found = super().stats(biz)
            found.states["pending"] = 1
            return found

    fetch_context = pages.FetchContext(biz=BIZ, rule="page", urls=urls(site, 1))
    with (
        Busy(deployment.api_url, deployment.api_key) as busy,
        pytest.raises(StepError, match=r"1 requests of docs are worked off: not within 0 s") as it,
    ):
        pages.wait_done(deployment, busy, fetch_context, ["5"], 0, step)

    assert "crawlfleet explain docs 5" in it.value.do


def test_the_door_lets_in_who_has_the_key_alone(deployment):
    assert checks.door(deployment) == "403 without a key, 0 open incidents with one"


def test_a_door_that_is_open_to_everybody_is_reported(deployment, monkeypatch):
    monkeypatch.setattr(
        checks.requests, "get", lambda *_, **__: type("A", (), {"status_code": 200})
    )

    with pytest.raises(StepError, match="answers 200 to who has no key, not 403"):
        checks.door(deployment)


def test_what_was_pushed_is_in_force(deployment, cloud):
    assert checks.configuration(deployment).startswith("revision ")


def test_a_newer_configuration_than_is_in_force_is_reported(deployment, monkeypatch):
    monkeypatch.setattr(checks, "pushed_revision", lambda _: "newer")

    with pytest.raises(StepError, match="pushed is newer"):
        checks.configuration(deployment)


def test_an_api_that_is_away_is_reported(deployment):
    away = Deployment("local", deployment.access, {"api": {"Url": "http://127.0.0.1:9/"}}, {})
    away.__dict__["api_key"] = "k"

    for check in (checks.door, checks.configuration, checks.doctor):
        with pytest.raises(StepError):
            check(away)


def test_a_load_goes_on_as_long_as_its_block_and_counts_what_fails(client, site, cloud):
    with Load(client, BIZ, "page", urls(site, 3)) as load:
        eventually(lambda: len(load.ids) >= 10)
    ids = len(load.ids)
    with Load(client, "nobody", "page", urls(site, 3)) as refused:
        eventually(lambda: refused.failures)

    assert load.failures == []
    assert len(set(load.ids)) == ids == len(load.ids)
    assert refused.ids == []

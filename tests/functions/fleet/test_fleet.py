"""The platform: its health to anybody, the fleet to operators, hosts to whose biz is there."""

from datetime import UTC, datetime, timedelta

import pytest

from infra.local.parts import free_port
from tests.functions.http import ask, submit
from tests.kit.api import AT_WORK_SECONDS, GLANCE_SECONDS, VITALS_SECONDS
from tests.kit.fleet import RedisWorkers, WorkerStatus
from tests.kit.kernel import VERSION, QueueKey, names
from tests.kit.politeness import HostAsk, HostReport, RedisHosts
from tests.kit.worlds.functions import default_bizs

PAGE = {"url": "https://example.org/"}


@pytest.fixture(autouse=True)
def _cold(world):
    """End the environments after each test, with all that they opened or kept."""
    yield
    world.end_environments()


@pytest.fixture
def operator(world):
    """The tenant whose key reads everything."""
    world.push(default_bizs(), stage={"operators": [world.tenants["acme"]]})
    return "acme"


def revision(world) -> str:
    """Return the revision of the configuration in force."""
    name = f"{names.config_root('test')}/{names.CONFIG_REVISION}"
    return world.ssm.get_parameter(Name=name)["Parameter"]["Value"]


def deep(world):
    """Health, anew: it is kept for some seconds."""
    world.end_environments()
    return ask(world, "GET", "/v1/health")


# ---- health --------------------------------------------------------------------------------------


def test_a_shallow_check_reports_the_parts_and_no_more(world):
    for query in ({}, {"deep": "0"}):
        answer = ask(world, "GET", "/health", key=None, query=query)

        assert answer.status == 200
        assert set(answer.json) == {"status", "parts"}


def test_a_deep_check_reports_what_runs(world):
    submit(world, "https://example.org/")
    redis = world.parts[-1].redis
    RedisWorkers(redis).beat(f"w-{world.tenants['acme']}", datetime.now(UTC))

    answer = deep(world)

    found = answer.json["deep"]
    assert (answer.status, answer.json["status"]) == (200, "ok")
    assert (found["version"], found["stage"]) == (VERSION, "test")
    assert found["revision"] == revision(world)
    assert found["config_refused"] is False
    assert len(found["config_digest"]) == 12
    assert found["workers"]["alive"] >= 1
    assert abs(datetime.fromisoformat(found["at"]) - datetime.now(UTC)) < timedelta(seconds=30)


def test_a_deep_check_gives_nothing_away(world):
    reported = deep(world).text

    secrets = [*world.tenants.values(), "mongodb://", "redis://", "127.0.0.1", "key-acme"]
    assert [one for one in secrets if one in reported] == []


def test_deep_checks_are_answered_from_one_look_for_some_seconds(world):
    world.end_environments()
    found = datetime.now(UTC)

    def looked_at(seconds: float) -> datetime:
        world.clocks[names.ROUTER] = lambda: found + timedelta(seconds=seconds)
        answer = ask(world, "GET", "/v1/health")
        return datetime.fromisoformat(answer.json["deep"]["at"])

    seen = {looked_at(seconds) for seconds in (0, 1, VITALS_SECONDS - 1)}
    later = looked_at(VITALS_SECONDS)

    assert len(seen) == 1
    assert later - seen.pop() == timedelta(seconds=VITALS_SECONDS)


def test_a_deep_check_without_redis_says_so_and_knows_no_workers(world, monkeypatch):
    world.end_environments()
    monkeypatch.setenv(names.ENV_REDIS_URL, f"redis://127.0.0.1:{free_port()}/0")

    answer = deep(world)

    assert (answer.status, answer.json["status"]) == (200, "degraded")
    assert answer.json["parts"]["redis"] == "does not answer"
    assert answer.json["deep"]["workers"] is None
    world.end_environments()


def test_without_configuration_no_key_is_known_and_a_plain_check_says_so(world):
    world.end_environments()
    world.dead.add("ssm")

    assert deep(world).status == 503
    answer = ask(world, "GET", "/health", key=None)
    assert (answer.status, answer.json["status"]) == (503, "down")


def test_what_runs_is_shown_to_no_stranger(world):
    for answer in (
        ask(world, "GET", "/health", key=None, query={"deep": "1"}),
        ask(world, "GET", "/v1/health", key=None),
        ask(world, "GET", "/v1/health", key="of-nobody"),
    ):
        assert answer.status == 403
        assert VERSION not in answer.text
    assert ask(world, "GET", "/v1/health", key="rival").json["deep"]["version"] == VERSION


@pytest.mark.parametrize("given", ["2", "", "true", "1 "])
def test_deep_is_0_or_1(world, given):
    answer = ask(world, "GET", "/health", key=None, query={"deep": given})

    assert (answer.status, answer.json["errors"][0]["field"]) == (400, "deep")


# ---- the fleet -----------------------------------------------------------------------------------


def test_an_operator_sees_all_of_the_fleet(world, operator):
    submit(world, *(f"https://example.org/{n}" for n in range(5)))
    theirs = {"url": "https://example.org/"}
    assert ask(world, "POST", "/v1/docs/requests", theirs, key="rival").status == 202

    answer = ask(world, "GET", "/v1/fleet")

    assert answer.status == 200, answer.text
    found = answer.json
    assert found["unread"] == []
    assert found["revision"] == revision(world)
    queued = {(one["tenant"], one["biz"]): one["queued"] for one in found["bizs"]}
    assert queued[world.tenants["acme"], "docs"] == 5
    assert queued[world.tenants["rival"], "docs"] == 1
    assert found["totals"]["queued"] == 6
    assert found["bizs"][0]["queued"] == 5, "the one with most to do comes first"
    parts = {(one["part"], one["name"]): one for one in found["parts"]}
    assert set(parts) == {("redis", "redis"), ("mongodb", "main")}
    assert all(one["up"] and one["figures"]["Latency"] > 0 for one in parts.values())


@pytest.mark.parametrize("key", ["acme", "rival"])
def test_who_is_no_operator_does_not_see_the_fleet(world, key):
    world.push(default_bizs(), stage={"operators": ["somebody-else"]})

    answer = ask(world, "GET", "/v1/fleet", key=key)

    assert (answer.status, answer.json["type"]) == (403, "urn:crawlfleet:problem:not-operator")


def test_the_fleet_is_nobodys_without_a_key(world):
    assert ask(world, "GET", "/v1/fleet", key=None).status == 403


def test_a_dead_node_does_not_hide_the_rest_of_the_fleet(world, operator):
    submit(world, "https://example.org/")
    with world.node_at(f"mongodb://127.0.0.1:{free_port()}/?directConnection=true"):
        found = ask(world, "GET", "/v1/fleet").json

    assert found["totals"]["queued"] == 1
    [node] = [one for one in found["parts"] if one["part"] == "mongodb"]
    assert (node["up"], node["figures"]) == (False, {})
    unread = {one["what"].split(" of ")[0] for one in found["unread"]}
    assert unread == {"ledger", "fires", "streams"}


# ---- the overview --------------------------------------------------------------------------------


def overview(world, key: str = "acme"):
    answer = ask(world, "GET", "/v1/overview", key=key)
    assert answer.status == 200, answer.text
    return answer


def test_an_operator_sees_everybodys_work_in_the_overview_and_any_other_its_own(world, operator):
    submit(world, *(f"https://example.org/{n}" for n in range(5)))
    assert ask(world, "POST", "/v1/docs/requests", PAGE, key="rival").status == 202
    workers = RedisWorkers(world.parts[-1].redis)
    workers.beat(f"w-{world.tenants['acme']}", datetime.now(UTC))
    world.end_environments()

    whole, part = overview(world).json, overview(world, "rival").json

    assert (whole["of_fleet"], whole["totals"]["queued"], whole["unread"]) == (True, 6, [])
    assert whole["revision"] == revision(world)
    assert whole["bizs"][0]["queued"] == 5, "the one with most to do comes first"
    assert whole["workers"]["alive"] >= 1
    assert (whole["late"], whole["cost"]["usd"]) == ([], 0.0)
    assert (part["of_fleet"], part["totals"]["queued"]) == (False, 1)
    assert {one["tenant"] for one in part["bizs"]} == {world.tenants["rival"]}
    assert world.tenants["acme"] not in str(part)


def test_an_overview_that_a_viewer_has_is_not_sent_again(world):
    world.end_environments()
    moment = datetime.now(UTC)
    world.clocks[names.ROUTER] = lambda: moment
    first = overview(world)

    again = ask(world, "GET", "/v1/overview", headers={"If-None-Match": first.headers["ETag"]})
    stale = ask(world, "GET", "/v1/overview", headers={"If-None-Match": '"of-yesterday"'})

    assert (again.status, again.text, again.headers["ETag"]) == (304, "", first.headers["ETag"])
    assert (stale.status, stale.text) == (200, first.text)
    assert first.headers["Cache-Control"] == "private, no-cache"


def test_viewers_share_a_glance_for_some_seconds(world, operator):
    world.end_environments()
    found = datetime.now(UTC)

    def seen_at(seconds: float, key: str) -> datetime:
        world.clocks[names.ROUTER] = lambda: found + timedelta(seconds=seconds)
        return datetime.fromisoformat(overview(world, key).json["at"])

    seen = {seen_at(0, "acme"), seen_at(GLANCE_SECONDS - 1, "rival")}

    assert len(seen) == 1
    assert seen_at(GLANCE_SECONDS, "acme") - seen.pop() == timedelta(seconds=GLANCE_SECONDS)


def test_the_overview_without_its_home_node_says_what_is_missing(world, operator):
    submit(world, "https://example.org/")
    with world.node_at(f"mongodb://127.0.0.1:{free_port()}/?directConnection=true"):
        found = overview(world).json

    assert found["totals"]["queued"] == 1
    assert (found["incidents"], found["cost"], found["late"]) == (None, None, None)
    assert {"incidents", "money"} <= {one["what"] for one in found["unread"]}


def test_the_overview_is_nobodys_without_a_key(world):
    assert ask(world, "GET", "/v1/overview", key=None).status == 403


# ---- hosts ---------------------------------------------------------------------------------------


def at_hosts(world, tenant: str, *hosts: str) -> None:
    """A worker says that it has something of the tenant under way there."""
    worker_status = WorkerStatus(hosts=tuple((host, world.tenants[tenant]) for host in hosts))
    worker = f"w-{world.tenants[tenant]}"
    RedisWorkers(world.parts[-1].redis).beat(worker, datetime.now(UTC), worker_status)


def report(world, host: str, **seen) -> None:
    reported = HostReport(
        host=host, origin=f"https://{host}", tenant=world.tenants["acme"], running=1, **seen
    )
    RedisHosts(world.parts[-1].redis).report([reported], "w")


def test_workers_are_read_once_in_some_seconds_however_many_tenants_ask(world):
    world.end_environments()
    moment = datetime.now(UTC)
    world.clocks[names.ROUTER] = lambda: moment
    submit(world, "https://example.org/")
    hosts = {key: f"busy.{world.tenants[key]}.example" for key in ("acme", "rival")}
    for key, host in hosts.items():
        at_hosts(world, key, host)

    def seen(key: str) -> set[str]:
        found = ask(world, "GET", "/v1/docs/hosts", key=key).json["hosts"]
        return {one["host"] for one in found} & {*hosts.values(), later}

    later = f"later.{world.tenants['rival']}.example"
    assert seen("acme") == {hosts["acme"]}
    at_hosts(world, "rival", hosts["rival"], later)
    assert seen("rival") == {hosts["rival"]}
    moment += timedelta(seconds=AT_WORK_SECONDS)
    assert seen("rival") == {hosts["rival"], later}
    assert seen("acme") == {hosts["acme"]}


def test_a_tenant_sees_the_hosts_that_its_biz_is_at_the_worst_first(world):
    submit(world, "https://example.org/")
    names_of = [f"{kind}.{world.tenants['acme']}.example" for kind in ("well", "bad", "slow")]
    well, bad, slow = names_of
    at_hosts(world, "acme", *names_of)
    report(world, well, answered=50, seconds=0.1)
    report(world, bad, answered=1, overloads=3)
    report(world, slow, answered=2, failed=1, seconds=4.0)

    answer = ask(world, "GET", "/v1/docs/hosts")

    assert answer.status == 200, answer.text
    found = answer.json["hosts"]
    assert [one["host"] for one in found] == [bad, slow, well]
    assert (found[0]["throttled"], found[0]["success_share"]) == (True, 0.25)
    assert found[0]["backing_off_until"] is not None
    assert (found[1]["success_share"], found[1]["latency_seconds"]) == (0.5, 4.0)
    assert all((one["asked"], one["running"]) == (0, 0) for one in found)


def test_a_tenant_does_not_see_where_others_are(world):
    submit(world, "https://example.org/")
    theirs = f"theirs.{world.tenants['acme']}.example"
    at_hosts(world, "acme", theirs)
    report(world, theirs, answered=5)

    assert ask(world, "GET", "/v1/docs/hosts", key="rival").json == {"hosts": []}


def test_a_host_that_failed_lately_is_shown_when_nothing_is_under_way_there(world):
    submit(world, "https://example.org/")
    host = f"away.{world.tenants['acme']}.example"
    report(world, host, overloads=2)

    found = ask(world, "GET", "/v1/docs/hosts").json["hosts"]

    assert [(one["host"], one["throttled"]) for one in found] == [(host, True)]
    assert ask(world, "GET", "/v1/docs/hosts", key="rival").json == {"hosts": []}


def test_hosts_that_requests_wait_for_are_shown_with_how_many(world):
    host = f"left.{world.tenants['acme']}.example"
    submit(world, *(f"https://{host}/{n}" for n in range(3)))
    queue, queue_key = world.parts[-1].queue, QueueKey(world.tenants["acme"], "docs", "main")
    now = datetime.now(UTC)
    held = queue.lease(queue_key, "w:1", 3, now, now + timedelta(seconds=60))
    queue.defer(queue_key, "w:1", [(host, now + timedelta(seconds=90), held)])

    found = ask(world, "GET", "/v1/docs/hosts").json["hosts"]

    assert [(one["host"], one["waiting"]) for one in found] == [(host, 3)]


def test_hosts_of_a_biz_that_there_is_not_are_a_404(world):
    assert ask(world, "GET", "/v1/nosuch/hosts").status == 404


# ---- slots of processes outside of the fleet -----------------------------------------------------


def reserve(world, host, count, key="acme", process="p1", **more):
    asked = {"process": process, "hosts": [{"host": host, "count": count, **more}]}
    return ask(world, "POST", "/v1/docs/slots", asked, key=key)


def test_a_process_outside_reserves_slots_by_the_limits_of_its_biz(world):
    host = f"slots.{world.tenants['acme']}.example"
    answer = reserve(world, host, 3, crawl_delay_seconds=0.9)

    assert answer.status == 200, answer.text
    (slots,) = answer.json["slots"]
    assert (slots["host"], slots["count"], slots["interval_seconds"]) == (host, 3, 0.9)
    assert (answer.json["obeys_robots"], answer.json["product"]) == (True, "Crawlfleet")
    # Slots so far apart that none comes in sight while a slow machine asks again.
    slow = f"slow.{world.tenants['acme']}.example"
    assert reserve(world, slow, 9, crawl_delay_seconds=300).json["slots"][0]["count"] == 1
    (again,) = reserve(world, slow, 9, process="p2", crawl_delay_seconds=300).json["slots"]
    assert again["count"] == 0
    assert (again["why"], again["ready_seconds"] > 0) == ("rate", True)


def test_a_worker_and_a_process_outside_share_the_slots_of_a_host(world):
    host = f"shared.{world.tenants['acme']}.example"
    (slots,) = reserve(world, host, 100, crawl_delay_seconds=300).json["slots"]
    tenant, hosts = world.tenants["acme"], RedisHosts(world.parts[-1].redis)
    wish = {"count": 100, "running": 0, "interval_seconds": 300.0, "concurrency": 8}

    (grant,) = hosts.reserve([HostAsk(host=host, tenant=tenant, **wish)], "w")

    assert slots["count"] == 1
    assert grant.count == 0


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"process": "p", "hosts": []}, "hosts"),
        ({"process": "a:b", "hosts": [{"host": "a", "count": 1}]}, "process"),
        ({"process": "p", "hosts": [{"host": "A.example", "count": 1}]}, "hosts[0].host"),
        ({"process": "p", "hosts": [{"host": "a}b", "count": 1}]}, "hosts[0].host"),
        ({"process": "p", "hosts": [{"host": "a", "count": -1}]}, "hosts[0].count"),
        ({"process": "p", "hosts": [{"host": "a", "count": 1, "x": 1}]}, "hosts[0].x"),
        ({"hosts": [{"host": "a", "count": 1}]}, "process"),
    ],
)
def test_an_ask_for_slots_that_is_none_names_its_field(world, body, field):
    answer = ask(world, "POST", "/v1/docs/slots", body)

    assert (answer.status, answer.fields) == (400, [field])

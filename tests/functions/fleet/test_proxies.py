"""Proxies that fail: found by a consumer, shown to operators and tenants, found by the monitor."""

import json
import logging

import pytest

from infra.local.parts import free_port
from tests.functions.http import ask, submit
from tests.kit.kernel import names
from tests.kit.worlds.functions import STAGE, biz, default_bizs

PASSWORD = "pass-w0rd"


def a_biz():
    """A biz that leaves by the pool; its sites are not asked for their robots.txt first."""
    return biz(
        fetch={"proxies": "gone"},
        retry={"base_seconds": 600},
        politeness={"robots": "ignore"},
    )


@pytest.fixture
def dead(world):
    """A pool of one dead proxy, by which the biz's downloads leave; the proxy's address."""
    place = f"127.0.0.1:{free_port()}"
    secret = f"{names.proxy_secret(STAGE, 'gone')}-{place.rpartition(':')[2]}"
    world.secrets.create_secret(Name=secret, SecretString=f"http://crawler:{PASSWORD}@{place}")
    pools = {"gone": {"secret": secret, "max_failures": 1, "allow_private": True}}
    bizs = {"acme": {"docs": a_biz()}}
    world.push(
        default_bizs() | bizs,
        stage={"proxies": pools, "operators": [world.tenants["acme"]]},
    )
    yield f"http://{place}"
    world.end_environments()


def test_a_dead_proxy_is_shown_by_its_address_alone_and_what_leaves_by_it_waits(
    world, dead, caplog
):
    caplog.set_level(logging.INFO)
    submit(world, "http://127.0.0.1:9/a")
    world.work()
    [waits] = submit(world, "http://127.0.0.1:9/b")
    world.work()

    answer = ask(world, "GET", "/v1/docs/proxies")
    assert answer.status == 200, answer.text
    mine = answer.json["pools"]
    all_of_them = ask(world, "GET", "/v1/fleet").json["proxies"]

    [pool] = mine
    [proxy] = pool["proxies"]
    assert (pool["name"], proxy["place"], proxy["away"]) == ("gone", dead, True)
    assert (proxy["fault"], proxy["failed"], proxy["cool_downs"]) == ("unreachable", 1, 1)
    assert proxy["until"] is not None
    assert [one["name"] for one in all_of_them] == ["gone"]
    redis = world.parts[-1].redis.client
    kept = [redis.hgetall(key) for key in redis.scan_iter("cf:{fleet}:prox*", _type="HASH")]
    for secret in (PASSWORD, "crawler"):
        assert secret not in f"{json.dumps([mine, all_of_them])} {kept} {caplog.text}"
    found = ask(world, "GET", f"/v1/docs/requests/{waits}").json
    assert (found["state"], found["error"]) == ("pending", None)
    assert "none of the 1 proxies of the pool 'gone' works" in found["timeline"][-1]["why"]


def test_a_tenant_sees_how_proxies_do_and_not_how_much_leaves_by_them(world, dead):
    submit(world, "http://127.0.0.1:9/a")
    world.work()
    world.push(
        default_bizs() | {"acme": {"docs": a_biz()}},
        stage={
            "proxies": {"gone": {"secret": "s"}},
            "operators": [world.tenants["rival"]],
        },
    )
    world.end_environments()

    [pool] = ask(world, "GET", "/v1/docs/proxies").json["pools"]

    assert [(one["failed"], one["success_share"]) for one in pool["proxies"]] == [(0, 0.0)]
    assert ask(world, "GET", "/v1/docs/proxies", key="rival").json == {"pools": []}
    assert ask(world, "GET", "/v1/nosuch/proxies").status == 404

"""A tenant's failures at a host keep no other tenant from it (SPEC.md C7)."""

import asyncio
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from tests.kit.config import ProxyPool
from tests.kit.kernel import ConnectFailedError, FetchTimeoutError, ServerFaultError, ThrottledError
from tests.kit.requests import LeasedRequest
from tests.kit.worker import Attempts
from tests.kit.worlds.memory import DOCS, OTHER
from tests.kit.worlds.worker import Parts, Time, polite

VICTIM = "https://victim.example"
REFUSED = ConnectFailedError("connection refused")


@pytest.fixture
def clock(world) -> Time:
    polite(world, per_second=10, backoff_seconds=2, max_backoff_seconds=3_600)
    return Time(world)


async def _ours(leased) -> bool:
    return True


def attack(world, clock: Time, url: str, error: Exception, times: int = 14) -> None:
    """Let one tenant ask for a page that fails so, again whenever it may."""
    mine = Parts(world, {url: error})
    attempts = Attempts(mine.session, mine.hop_guards, SimpleNamespace(still=_ours), mine.telemetry)
    held = mine.holds(url)
    for _ in range(times):
        clock.passes(3_600)
        again = LeasedRequest(held.queue_key, held.biz, held.claim, held.rule)
        asyncio.run(attempts.attempt(again))
        mine.politeness.report(mine.politeness.take_reports(last=True))
    assert len(mine.fetcher.asked) == times


def granted(world, origin: str, queue_key=OTHER) -> tuple[int, str]:
    slots = Parts(world, name="x").politeness.ask(world.tree, queue_key, world.biz, {origin: 1})
    return slots[origin].count, slots[origin].why


@pytest.mark.parametrize(
    "url",
    [f"{VICTIM}:9/", f"{VICTIM}/", "http://victim.example/"],
    ids=["another port", "the same port", "another scheme"],
)
@pytest.mark.parametrize("error", [REFUSED, FetchTimeoutError("too slow")], ids=["refused", "slow"])
def test_connections_that_fail_for_one_tenant_keep_no_other_from_the_host(world, clock, url, error):
    attack(world, clock, url, error)

    assert granted(world, VICTIM) == (1, "")
    assert world.hosts.states(["victim.example"])[0].back_off_until is None


def test_connections_that_fail_keep_their_own_tenant_from_that_origin_alone(world, clock):
    attack(world, clock, f"{VICTIM}:9/", REFUSED, times=3)

    assert granted(world, f"{VICTIM}:9", DOCS) == (0, "back-off")
    assert granted(world, VICTIM, DOCS) == (1, "")


@pytest.mark.parametrize(
    "error",
    [
        ThrottledError("answered 429", retry_after_seconds=3_000),
        ThrottledError("answered 503", status=503),
        ConnectFailedError("the proxy does not take our credentials"),
    ],
    ids=["429", "503", "fault"],
)
def test_what_the_proxies_of_one_tenant_answer_keeps_no_other_from_the_host(world, clock, error):
    stage = replace(world.tree.stage, proxies={"own": ProxyPool(secret="own")})
    biz = replace(world.biz, fetch=replace(world.biz.fetch, proxies="own"))
    plain = world.tree.bizs["acme"]
    world.tree = replace(world.tree, stage=stage, bizs={"default": {"docs": biz}, "acme": plain})

    attack(world, clock, f"{VICTIM}/", error, times=3)

    assert granted(world, VICTIM) == (1, "")
    assert granted(world, VICTIM, DOCS) == (0, "back-off")


def test_a_name_of_ones_own_that_leads_to_the_address_of_another_keeps_nobody_from_it(world, clock):
    attack(world, clock, "https://x.wild.example/", REFUSED)

    assert granted(world, VICTIM) == (1, "")
    assert granted(world, "https://wild.example") == (1, "")


@pytest.mark.parametrize("status", [429, 503])
def test_a_host_that_asks_for_less_itself_is_left_alone_by_all(world, clock, status):
    attack(world, clock, f"{VICTIM}/", ThrottledError(f"answered {status}", status=status), times=1)

    assert granted(world, VICTIM) == (0, "back-off")
    assert granted(world, f"{VICTIM}:8443") == (1, "")
    assert granted(world, "http://victim.example") == (1, "")


def test_slow_proxies_of_one_tenant_slow_no_other_down(world, clock):
    stage = replace(world.tree.stage, hosts=replace(world.tree.stage.hosts, adaptive=True))
    world.tree = replace(world.tree, stage=stage)
    mine = Parts(world).politeness
    for _ in range(20):
        mine.saw(
            VICTIM, "default", 60.0, ServerFaultError("answered 500", status=500), proxied=True
        )
        mine.report(mine.take_reports())

    def interval(queue_key) -> float:
        return mine.ask(world.tree, queue_key, world.biz, {VICTIM: 1})[VICTIM].interval_seconds

    assert interval(OTHER) == 0.1
    assert interval(DOCS) > 7

"""Tests of the config centre's polling interval, and of how soon a change is in force."""

import pytest

from tests.functions.http import ask
from tests.kit.worlds.functions import a_world, biz, default_bizs
from tests.steady import SteadyClock
from tests.waiting import eventually

PAGE = {"url": "https://example.org/"}
DETAIL = {"fields": {"heading": {"css": "h1"}}}


@pytest.fixture
def polling(own_redis, mongo_uri):
    """A world that looks at the revision twice a second."""
    with a_world(own_redis, mongo_uri, poll_seconds=0.5) as world:
        yield world


def test_a_new_biz_a_new_rule_and_a_removed_biz_are_in_force_after_one_poll(polling):
    def status(name: str, body: dict[str, str]) -> int:
        return ask(polling, "POST", f"/v1/{name}/requests", body).status

    assert [status("docs", {**PAGE, "rule": "detail"}), status("news", PAGE)] == [400, 404]
    bizs = default_bizs()
    bizs["acme"]["news"] = biz(collection="news")
    bizs["acme"]["docs"]["rules"]["detail"] = DETAIL
    del bizs["acme"]["shop"]

    polling.push(bizs)

    with SteadyClock() as clock:
        pushed_at = clock()
        eventually(lambda: status("news", PAGE) == 202)
        assert clock() - pushed_at < 5, "in force within seconds"
    assert status("docs", {**PAGE, "rule": "detail"}) == 202
    assert status("shop", {**PAGE, "rule": "page"}) == 404


def test_between_two_polls_no_call_reads_the_config_centre(own_redis, mongo_uri):
    with a_world(own_redis, mongo_uri, poll_seconds=3600) as world:
        ask(world, "POST", "/v1/docs/requests", PAGE)
        world.aws_calls.clear()

        for _ in range(20):
            assert ask(world, "POST", "/v1/docs/requests", PAGE).status == 202
            assert ask(world, "GET", "/v1/docs/stats").status == 200

        assert world.aws_calls == []


def test_what_is_pushed_after_a_worker_has_ended_is_in_force_at_the_next_call(world):
    """While it works a thread looks for it, and pages do not; afterwards nobody does."""
    world.call("consumer", {})
    before = world.call("consumer", {"health": True})["revision"]

    world.push(default_bizs() | {"acme": {"docs": biz(rules={"detail": DETAIL})}})

    assert world.call("consumer", {"health": True})["revision"] != before

"""Requests of a Scrapy process wait for host slots: an API that is slow, away or lying."""

import asyncio
import itertools
import time
from types import SimpleNamespace

import pytest
from scrapy import Request
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response

from tests.kit.kernel import StoreUnavailableError
from tests.kit.scrapy import GrantedSlots, HostSlots, SlotsAnswer
from tests.kit.scrapy import politeness as module


class Api:
    """Grants what it is told to; keeps what it was asked."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asks = []

    async def __call__(self, wishes):
        self.asks.append(wishes)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return SlotsAnswer(
            slots=tuple(
                GrantedSlots(
                    **{
                        "host": wish["host"],
                        "count": wish["count"],
                        "wait_seconds": 0.0,
                        "interval_seconds": 0.0,
                        "permits": 9,
                        "ready_seconds": 0.01,
                        **answer,
                    }
                )
                for wish in wishes
            )
        )


def taking(api, *hosts, seconds=60.0):
    """Take a slot at each host at once; return the moments, from the start on.

    By the clock that slots go by: that of the tests' loops leaves out what the machine takes.
    """

    async def all_of_them():
        slots = HostSlots(api)
        began = time.monotonic()

        async def take(host):
            await slots.take(host)
            return time.monotonic() - began

        try:
            async with asyncio.timeout(seconds):
                return await asyncio.gather(*map(take, hosts))
        finally:
            slots.close()

    return asyncio.run(all_of_them())


def test_requests_that_come_together_are_one_ask():
    api = Api({})

    taking(api, "a", "a", "b")

    assert sorted((wish["host"], wish["count"]) for wish in api.asks[0]) == [("a", 2), ("b", 1)]
    assert len(api.asks) == 1


def test_slots_are_used_at_their_moments_and_an_interval_apart():
    moments = sorted(taking(Api({"wait_seconds": 0.1, "interval_seconds": 0.1}), "a", "a", "a"))

    assert moments[0] >= 0.1
    assert all(later - earlier >= 0.09 for earlier, later in itertools.pairwise(moments))


def test_slots_that_a_process_comes_to_late_keep_their_distance():
    """After a second in which it stood still all of them would be used at once."""
    moments, stood_still = [], [0.0]

    def clock():
        return asyncio.get_running_loop().time() + stood_still[0]

    async def three():
        slots = HostSlots(Api({"interval_seconds": 0.1}), clock)

        async def take():
            await slots.take("a")
            moments.append(clock())
            stood_still[0] = 1.0

        await asyncio.gather(take(), take(), take())
        slots.close()

    asyncio.run(three())

    _, second, third = moments
    assert third - second >= 0.09


def test_no_more_are_in_flight_than_there_are_permits():
    async def two():
        slots = HostSlots(Api({"permits": 1}))
        await slots.take("a")
        second = asyncio.ensure_future(slots.take("a"))
        done, _ = await asyncio.wait([second], timeout=0.2)
        assert not done
        slots.leave("a")
        await asyncio.wait_for(second, 60)
        slots.close()

    asyncio.run(two())


def test_without_an_answer_nothing_is_downloaded_and_the_log_says_so_once(monkeypatch, caplog):
    monkeypatch.setattr(module, "_AWAY_SECONDS", 0.02)
    away = StoreUnavailableError("redis", "away")

    taking(Api(away, away, away, {}), "a")

    assert caplog.text.count("no page is downloaded until host slots are granted") == 1
    with pytest.raises(TimeoutError):
        taking(Api(away), "a", seconds=0.3)


def test_a_host_that_gets_no_slot_is_asked_for_again_when_it_may_be():
    api = Api({"count": 0, "ready_seconds": 0.2, "why": "back-off"}, {})

    (moment,) = taking(api, "a")

    assert moment >= 0.2
    assert len(api.asks) == 2


def test_slots_of_hosts_that_nobody_asked_for_are_ignored():
    api = Api({"host": "other", "ready_seconds": 0}, {})

    taking(api, "a")

    assert len(api.asks) == 2


def test_a_site_that_asks_to_be_left_alone_is():
    async def twice():
        slots = HostSlots(Api({}))
        await slots.take("a")
        slots.leave("a")
        slots.back_off("a", 0.3)
        began = time.monotonic()
        await slots.take("a")
        slots.close()
        return time.monotonic() - began

    assert asyncio.run(twice()) >= 0.28


def test_an_ask_has_no_number_that_the_api_refuses():
    api = Api({"permits": 2_000})

    async def many():
        slots = HostSlots(api)
        slots.delay("a", 1e9)
        await asyncio.gather(*(slots.take("a") for _ in range(1_200)))
        slots.close()

    asyncio.run(many())

    assert [wish["count"] for (wish,) in api.asks] == [1_000, 200]
    assert max(wish["running"] for (wish,) in api.asks) <= 1_000
    assert {wish["crawl_delay_seconds"] for (wish,) in api.asks} == {86_400}


def test_hosts_of_a_wide_crawl_are_forgotten_while_it_goes_on():
    async def wide():
        slots = HostSlots(Api({}))
        await slots.take("busy")
        for number in range(5):
            names = [f"{number}.{each}" for each in range(20)]
            await asyncio.gather(*map(slots.take, names))
            for name in names:
                slots.leave(name)
        await slots.take("last")
        slots.close()
        return len(slots)

    assert asyncio.run(wide()) <= 22


def middleware(slots):
    crawler = SimpleNamespace(signals=SimpleNamespace(connect=lambda *_, **__: None), stats=None)
    return module.PolitenessMiddleware(crawler, slots)


@pytest.mark.parametrize("how", ["response", "exception"])
def test_a_request_that_a_middleware_below_answers_gives_its_slot_back(how):
    request = Request("http://a.example/", meta={"crawlfleet_robots": True})

    async def twice():
        slots = HostSlots(Api({"permits": 1}))
        polite = middleware(slots)
        for _ in range(2):
            await asyncio.wait_for(polite.process_request(request), 2)
            if how == "response":
                polite.process_response(request, Response(request.url))
            else:
                polite.process_exception(request, IgnoreRequest())
        slots.close()

    asyncio.run(twice())


def test_a_robots_txt_is_asked_for_within_bounds_and_repeated_here_alone(monkeypatch):
    asked = []

    async def download(_, request):
        asked.append(request)
        raise TimeoutError

    monkeypatch.setattr(module, "_download", download)
    monkeypatch.setattr(module, "_ROBOTS_PAUSE_SECONDS", 0)
    polite = middleware(HostSlots(Api({})))

    with pytest.raises(IgnoreRequest):
        asyncio.run(polite.process_request(Request("http://a.example/")))

    assert [each.url for each in asked] == ["http://a.example/robots.txt"] * 3
    assert {each.meta["download_timeout"] for each in asked} == {30}
    assert all(each.meta["dont_retry"] for each in asked)


@pytest.mark.parametrize("host", ["a..example", "", "a%zz"])
def test_a_host_that_no_site_has_is_not_asked_for(host):
    api = Api({})
    request = Request(f"http://{host}/")

    with pytest.raises(IgnoreRequest):
        asyncio.run(middleware(HostSlots(api)).process_request(request))

    assert not api.asks


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("7", 7),
        ("", 2),
        ("\xb2", 2),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0),
        ("Wed, 21 Oct 2999 07:28:00 GMT", 3_600),
        ("9" * 18, 3_600),
    ],
)
def test_a_site_may_say_in_each_way_for_how_long(header, seconds):
    said = []
    slots = SimpleNamespace(back_off=lambda host, seconds: said.append((host, seconds)))
    headers = {"Retry-After": header.encode("latin-1")}
    response = Response("http://a.example/", status=429, headers=headers)

    middleware(slots).process_response(Request("http://a.example/"), response)

    assert said == [("a.example", seconds)]

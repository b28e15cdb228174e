"""A worker asks for slots before a request begins, and reports how hosts answered."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from tests.kit.config import HostLimits, Politeness, Tenant
from tests.kit.kernel import (
    AddressRefusedError,
    ConnectFailedError,
    FetchTimeoutError,
    PageGoneError,
    RobotsDeniedError,
    RobotsUnknownError,
    ServerFaultError,
    StoreUnavailableError,
    ThrottledError,
)
from tests.kit.politeness import (
    PERMIT_SECONDS,
    GrantedSlots,
    LocalScheduler,
    OutsideAsk,
    OwnAnswers,
    PolitenessClient,
    grant_outside,
    reason,
)
from tests.kit.requests import Answer
from tests.kit.worlds.doubles import Broken
from tests.kit.worlds.memory import DOCS, OTHER
from tests.kit.worlds.worker import Spy, Time, leave_alone, polite

HOST = "a.example"
ORIGIN = f"https://{HOST}"
KEY = (ORIGIN, "default")


class Sites:
    """A robots book that knows crawl delays only."""

    def __init__(self, **delays: float) -> None:
        self.delays = delays

    def crawl_delay(self, host, biz):
        return self.delays.get(host.partition(".")[0])


class Busy(LocalScheduler):
    """A scheduler of which as many are under way as is said."""

    def __init__(self, **running: int) -> None:
        super().__init__()
        self.under_way = {(f"{name}.example", "default"): n for name, n in running.items()}

    def running(self, key, but=None):
        return self.under_way.get(key, 0)

    def busy(self):
        return {key: n for key, n in self.under_way.items() if n}


def client(world, scheduler=None, sites=None, hosts=None) -> PolitenessClient:
    return PolitenessClient(
        hosts or world.hosts,
        world,
        sites or Sites(),
        scheduler or LocalScheduler(),
        "w",
        world.clock,
        world.steady,
    )


def ask(mine: PolitenessClient, world, queue_key=DOCS, **wanted: int) -> dict[str, GrantedSlots]:
    named = {f"https://{name}.example": count for name, count in wanted.items()}
    return mine.ask(world.tree, queue_key, world.biz, named)


def test_slots_come_an_interval_apart_and_the_rest_may_ask_again(world):
    polite(world, per_second=2, concurrency=50)
    Time(world)

    slots = ask(client(world), world, a=100)[ORIGIN]

    assert slots.count == 5  # two seconds ahead
    assert (slots.first_at, slots.interval_seconds, slots.why) == (1_000.0, 0.5, "rate")
    assert slots.again_at == world.now + timedelta(seconds=slots.again_seconds)
    assert slots.again_seconds > 0


def test_slots_are_asked_for_with_the_tenants_share(world):
    world.tree = replace(world.tree, tenants={"default": Tenant(share=7)})
    hosts = Spy(world.hosts)

    ask(client(world, hosts=hosts), world, a=1)
    ask(client(world, hosts=hosts), world, OTHER, a=1)

    assert [one.share for asks, _ in hosts.of("reserve") for one in asks] == [7, 1]


def test_a_process_outside_has_slots_by_its_tenants_share(world):
    world.tree = replace(world.tree, tenants={"default": Tenant(share=7)})
    hosts = Spy(world.hosts)

    grant_outside(hosts, world.tree, "default", "docs", "p", [OutsideAsk(host=HOST, count=1)])

    [(asks, _)] = hosts.of("reserve")
    assert [one.share for one in asks] == [7]


def test_who_wants_nothing_asks_nobody(world):
    assert ask(client(world, hosts=Broken()), world) == {}


def test_no_request_begins_while_slots_are_unknown(world):
    with pytest.raises(StoreUnavailableError):
        ask(client(world, hosts=Broken()), world, a=1)


def test_a_longer_crawl_delay_counts_and_so_does_what_is_under_way(world):
    polite(world, per_second=10, concurrency=7)
    hosts = Spy(world.hosts)
    mine = client(world, Busy(a=3), Sites(a=4.0), hosts)

    ask(mine, world, a=1, b=1)

    [(asks, name)] = hosts.of("reserve")
    assert name == "w"
    assert [(one.host, one.running, one.interval_seconds) for one in asks] == [
        (HOST, 3, 4.0),
        ("b.example", 0, 0.1),
    ]
    assert {one.concurrency for one in asks} == {7}


def test_a_biz_is_as_polite_as_it_says(world):
    polite(world, per_second=10, concurrency=7)
    biz = replace(world.biz, politeness=Politeness(per_second=0.5, concurrency=2))
    hosts = Spy(world.hosts)

    client(world, hosts=hosts).ask(world.tree, DOCS, biz, {ORIGIN: 1})

    [([asked], _)] = hosts.of("reserve")
    assert (asked.interval_seconds, asked.concurrency) == (2.0, 2)


def test_a_host_has_limits_of_its_own(world):
    polite(world, per_second=10)
    slow = HostLimits(per_second=0.5, concurrency=1)
    world.tree = replace(world.tree, stage=replace(world.tree.stage, host_limits={HOST: slow}))

    assert ask(client(world), world, a=1)[ORIGIN].interval_seconds == 2.0


def test_two_tenants_share_a_host_and_each_asks_for_itself(world):
    polite(world, per_second=2, concurrency=50)
    hosts = Spy(world.hosts)
    mine = client(world, hosts=hosts)

    first = ask(mine, world, DOCS, a=100)[ORIGIN]
    second = ask(mine, world, OTHER, a=100)[ORIGIN]
    mine.saw(ORIGIN, "acme", 0.5)
    reported = {(one.host, one.tenant): one.answered for one in mine.take_reports()}

    assert (first.count, second.count) == (5, 0)
    assert [args[0][0].tenant for args in hosts.of("reserve")] == ["default", "acme"]
    assert reported == {(HOST, "default"): 0, (HOST, "acme"): 1}


def test_a_host_grants_no_slot_until_its_back_off_is_over(world):
    polite(world, per_second=10)
    leave_alone(world, HOST, 60)

    slots = ask(client(world), world, a=2)[ORIGIN]

    assert (slots.count, slots.why, slots.again_seconds) == (0, "back-off", 60.0)


# ---- what is told of hosts ---------------------------------------------------------------------


def test_answers_are_counted_with_their_time_and_reported_once(world):
    mine = client(world)
    mine.saw(*KEY, 1.0)
    mine.saw(*KEY, 3.0)
    mine.saw(*KEY, 0.0, PageGoneError("answered 404", status=404))

    [report] = mine.take_reports()

    assert (report.host, report.tenant, report.running) == (HOST, "default", 0)
    assert (report.answered, report.overloads) == (3, 0)
    assert report.seconds == pytest.approx(4 / 3)
    assert report.limits == world.tree.stage.hosts
    assert mine.take_reports() == []


def test_an_answer_that_says_that_the_server_is_at_fault_is_counted_as_failed(world):
    mine = client(world)
    mine.saw(*KEY, 1.0)
    mine.saw(*KEY, 1.0, PageGoneError("answered 404", status=404))
    mine.saw(*KEY, 1.0, ServerFaultError("answered 500", status=500))

    [report] = mine.take_reports()
    mine.keep([report])
    [again] = mine.take_reports()

    assert (report.answered, report.failed, report.overloads) == (3, 1, 0)
    assert (again.answered, again.failed) == (3, 1)


def test_overload_of_the_host_is_counted_apart_from_what_no_connection_and_a_proxy_say(world):
    mine = client(world)
    mine.saw(*KEY, 0.0, ThrottledError("answered 429", retry_after_seconds=40))
    mine.saw(*KEY, 0.0, ThrottledError("answered 503", status=503))
    mine.saw(*KEY, 0.0, ConnectFailedError("refused"))
    mine.saw(*KEY, 0.0, FetchTimeoutError("too slow"))

    mine.saw(*KEY, 0.0, ThrottledError("answered 429", retry_after_seconds=90), proxied=True)
    mine.saw(*KEY, 2.0, proxied=True)

    [report] = mine.take_reports()

    assert report.origin == ORIGIN
    assert (report.answered, report.overloads, report.retry_after_seconds) == (0, 2, 40)
    assert report.own == OwnAnswers(answered=1, seconds=2.0, overloads=3, retry_after_seconds=90)


@pytest.mark.parametrize(
    "error",
    [
        RobotsDeniedError("not here"),
        AddressRefusedError("loopback"),
        StoreUnavailableError("redis", "no answer"),
        ThrottledError("leads to b.example, which has no free slot now", status=0),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_the_host_was_not_asked_for_says_nothing_of_it(world, error):
    mine = client(world)

    mine.saw(*KEY, 0.0, error)

    assert mine.take_reports() == []


def answer(url: str, status: int, **headers: str) -> Answer:
    return Answer.of(url, status, headers, 0.5)


@pytest.mark.parametrize(
    ("error", "blamed"),
    [
        (ThrottledError("429", answer=answer("https://b.example/", 429)), "b.example"),
        (
            ConnectFailedError(
                "refused", answer=answer("https://a.example/", 302, location="//b.example/x")
            ),
            "b.example",
        ),
        (
            ConnectFailedError("refused", answer=answer("https://a.example/", 302, location="/x")),
            HOST,
        ),
        (
            ConnectFailedError("no", answer=answer("https://a.example/", 302, location="//[b/")),
            HOST,
        ),
        (FetchTimeoutError("slow", answer=answer("https://b.example/", 200)), "b.example"),
        (FetchTimeoutError("slow"), HOST),
    ],
)
def test_the_host_that_a_redirect_led_to_is_to_blame_and_not_the_one_that_answered(
    world, error, blamed
):
    mine = client(world)

    mine.saw(*KEY, 0.0, error)

    [report] = mine.take_reports()
    overloads = report.overloads + report.own.overloads
    assert (report.host, report.tenant, overloads) == (blamed, "default", 1)


def test_a_host_at_which_something_is_under_way_is_kept_alive_and_then_freed(world):
    scheduler, clock = Busy(a=2), Time(world)
    mine = client(world, scheduler)
    ask(mine, world, a=1)
    assert mine.take_reports() == []

    clock.now += PERMIT_SECONDS / 3 + 0.1
    assert [(one.host, one.running) for one in mine.take_reports()] == [(HOST, 2)]
    assert mine.take_reports() == []

    scheduler.under_way.clear()
    assert [(one.host, one.running) for one in mine.take_reports()] == [(HOST, 0)]
    assert mine.take_reports() == []


def test_the_last_report_frees_the_permits_of_all_hosts(world):
    polite(world, per_second=10, concurrency=4)
    mine = client(world, Busy(a=2, b=1))
    ask(mine, world, a=2, b=1)
    world.now += timedelta(seconds=2)
    assert [one.running for one in world.hosts.states([HOST, "b.example"])] == [4, 2]

    mine.report(mine.take_reports(last=True))

    assert [one.running for one in world.hosts.states([HOST, "b.example"])] == [0, 0]
    assert mine.take_reports(last=True) == []


def test_nothing_is_sent_when_there_is_nothing_to_report(world):
    client(world, hosts=Broken()).report([])


def test_of_hosts_that_were_reported_of_nothing_is_kept(world):
    """However many hosts a crawl meets."""
    mine = client(world)
    for n in range(500):
        ask(mine, world, **{f"h{n}": 1})
        mine.saw(f"https://h{n}.example", "default", 0.1)

    assert len(mine.take_reports()) == 500
    assert mine.take_reports(last=True) == []


def test_a_timeline_reports_what_a_request_waits_for():
    whys = ("rate", "concurrency", "share", "back-off", "away", "robots", "what is to come")

    reported = [reason(why) for why in whys]

    assert len(set(reported)) == len(whys)
    assert all(one.startswith("deferred") for one in reported)


def test_a_page_that_was_not_asked_for_as_its_robots_txt_was_not_counts_as_no_overload(world):
    mine = client(world)
    error = ConnectFailedError("while asking for robots.txt: refused")
    error.__cause__ = RobotsUnknownError("could not be fetched")

    mine.saw(*KEY, 0.0, error)

    assert mine.take_reports() == []

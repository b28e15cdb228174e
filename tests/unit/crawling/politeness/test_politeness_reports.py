"""Host reports that could not be delivered are delivered with the next ones."""

from datetime import timedelta

import pytest

from tests.kit.kernel import StoreUnavailableError, ThrottledError
from tests.kit.politeness import MOST_UNREPORTED, LocalScheduler, PolitenessClient
from tests.kit.worlds.doubles import Broken, Failing
from tests.kit.worlds.worker import Time, idle, polite, submitted, work
from tests.unit.crawling.politeness.test_politeness_client import HOST, KEY, Sites, ask


@pytest.fixture
def clock(world) -> Time:
    return Time(world)


def client(world, hosts=None) -> PolitenessClient:
    return PolitenessClient(
        hosts or world.hosts, world, Sites(), LocalScheduler(), "w", world.clock, world.steady
    )


def announce(mine: PolitenessClient) -> None:
    """Report as a worker does: keep what could not be reported."""
    reports = mine.take_reports()
    try:
        unreported = mine.report(reports)
    except StoreUnavailableError:
        unreported = reports
    mine.keep(unreported)


def test_a_back_off_that_could_not_be_reported_is_reported_next_and_is_no_longer_for_it(
    world, clock
):
    polite(world, per_second=10)
    mine = client(world, Failing(world.hosts, report=1))
    mine.saw(*KEY, 0.0, ThrottledError("answered 503", status=503, retry_after_seconds=60))

    announce(mine)
    clock.passes(15)
    announce(mine)

    [state] = world.hosts.states([HOST])
    assert state.overload == 1
    assert state.back_off_until == world.now + timedelta(seconds=45)
    assert mine.take_reports() == []


class PartlyAway:
    """Hosts of which one cannot be told anything at first, as its node of a cluster is away."""

    def __init__(self, hosts) -> None:
        self._hosts = hosts
        self.away = HOST

    def report(self, reports, worker):
        self._hosts.report([one for one in reports if one.host != self.away], worker)
        return [one for one in reports if one.host == self.away]


def test_what_one_host_could_not_be_reported_is_reported_next_and_of_the_others_nothing_twice(
    world, clock
):
    polite(world, per_second=10)
    hosts = PartlyAway(world.hosts)
    mine = client(world, hosts)
    for host in (HOST, "other.example"):
        mine.saw(f"https://{host}", KEY[1], 0.0, ThrottledError("answered 503", status=503))
    announce(mine)
    assert [state.overload for state in world.hosts.states([HOST, "other.example"])] == [0, 1]

    hosts.away = ""
    announce(mine)

    assert [state.overload for state in world.hosts.states([HOST, "other.example"])] == [1, 1]
    assert mine.take_reports() == []


def test_answers_that_could_not_be_reported_are_reported_with_the_later_ones(world, clock):
    mine = client(world, Broken())
    mine.saw(*KEY, 1.0)
    mine.saw(*KEY, 2.0)
    announce(mine)
    mine.saw(*KEY, 6.0)

    [report] = mine.take_reports()

    assert (report.answered, report.overloads, report.retry_after_seconds) == (3, 0, 0.0)
    assert report.seconds == pytest.approx(3.0)


def test_permits_whose_end_could_not_be_reported_are_given_back_with_the_next_report(world, clock):
    polite(world, per_second=10, concurrency=4)
    mine = client(world, Failing(world.hosts, report=2))
    ask(mine, world, a=2)
    clock.passes(2)
    assert world.hosts.states([HOST])[0].running > 0

    announce(mine)
    announce(mine)
    assert world.hosts.states([HOST])[0].running > 0
    announce(mine)

    assert world.hosts.states([HOST])[0].running == 0


def test_of_what_cannot_be_reported_as_much_is_kept_as_there_is_room_for(world):
    mine = client(world, Broken())

    for n in range(MOST_UNREPORTED + 50):
        mine.saw(f"https://h{n}.example", "default", 0.1)
        if n % 500 == 0:
            announce(mine)
    announce(mine)
    announce(mine)

    assert len(mine.take_reports()) == MOST_UNREPORTED


def test_a_worker_reports_of_a_back_off_when_redis_is_back(world):
    polite(world, per_second=1_000)
    submitted(world, "https://a.example/1", "https://b.example/1")
    pages = {
        "https://a.example/1": ThrottledError("answered 429", retry_after_seconds=600),
        "https://b.example/1": b"x",
    }
    hosts = Failing(world.hosts, report=1)

    report = work(world, pages, hosts=hosts)

    assert (report.done, report.retried) == (1, 1)
    assert hosts.left == {"report": 0}
    [state] = world.hosts.states(["a.example"])
    assert state.back_off_until is not None
    assert (state.back_off_until - world.now).total_seconds() == pytest.approx(600, abs=5)
    assert idle(world)


def test_a_worker_whose_reports_all_fail_ends_all_the_same_and_its_permits_after_it(world):
    polite(world, per_second=1_000)
    submitted(world, "https://a.example/1")

    pages = {"https://a.example/1": b"x"}
    report = work(world, pages, hosts=Failing(world.hosts, report=999))

    assert report.done == 1
    assert any("report: no answer" in warning for warning in world.warnings)
    world.now += timedelta(seconds=31)
    assert idle(world)

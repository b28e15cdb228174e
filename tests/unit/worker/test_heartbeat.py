import threading
import time
from datetime import datetime

import pytest
from msgspec.structs import replace

from tests.kit.config import ProxyPool
from tests.kit.fetching import Fault, HeardProxies, ProxyExchange
from tests.kit.fleet import WorkerStatus
from tests.kit.kernel import VERSION, StoreUnavailableError
from tests.kit.politeness import LocalScheduler
from tests.kit.warned import Warned
from tests.kit.worker import Heartbeat, Session, SteadyTime
from tests.kit.worlds.worker import quick_tree
from tests.waiting import eventually


class Register:
    """A register that knows, has forgotten, or does not answer, as the test says."""

    def __init__(self) -> None:
        self.beats: list[WorkerStatus] = []
        self.proxies: list[ProxyExchange | None] = []
        self.known = True
        self.away = False
        self.refused = 0
        self.gate = threading.Event()
        self.gate.set()
        self.waits = False

    def beat(
        self,
        worker: str,
        now: datetime,
        worker_status: WorkerStatus,
        proxies: ProxyExchange | None = None,
    ) -> bool:
        self.proxies.append(proxies)
        if proxies is not None:
            proxies.reports()
            proxies.hear(HeardProxies())
        self.waits = not self.gate.is_set()
        self.gate.wait(60)
        if self.away:
            self.refused += 1
            raise StoreUnavailableError("redis", "no answer")
        first = not self.beats
        self.beats.append(worker_status)
        self.report.done = len(self.beats)
        return self.known and not first


@pytest.fixture
def register():
    return Register()


@pytest.fixture
def warnings():
    return Warned()


@pytest.fixture
def now():
    return [100.0]


@pytest.fixture
def heartbeat(world, register, now):
    world.tree = quick_tree(world)
    services = world.work({}, workers=register, steady=SteadyTime(lambda: now[0]))
    session = Session(services, "w")
    register.report = session.report
    made = Heartbeat(session, LocalScheduler())
    yield made
    register.gate.set()
    made.stop()


def test_it_registers_before_it_returns_and_goes_on_beating(heartbeat, register):
    heartbeat.start()

    assert len(register.beats) == 1
    eventually(lambda: len(register.beats) > 3, what="the heart beats on")
    assert register.beats[2].done == 2


def test_it_beats_while_the_thread_that_started_it_is_busy(heartbeat, register):
    heartbeat.start()
    busy_until = time.monotonic() + 60
    while len(register.beats) < 5 and time.monotonic() < busy_until:
        sum(range(1000))

    assert len(register.beats) >= 5


def test_after_stop_no_beat_follows(heartbeat, register):
    heartbeat.start()
    heartbeat.stop()
    count = len(register.beats)
    register.gate.clear()

    assert not any(thread.name == "heartbeat" for thread in threading.enumerate())
    assert len(register.beats) == count


def test_it_may_have_lost_what_it_holds_until_that_was_looked_through(heartbeat, register):
    heartbeat.start()
    assert not heartbeat.may_have_lost

    register.known = False
    eventually(lambda: heartbeat.may_have_lost, what="the worker learns that it is unknown")
    register.known = True
    register.gate.clear()
    eventually(lambda: register.waits, what="no beat is under way that could tell it again")
    heartbeat.looked(heartbeat.losses - 1)
    assert heartbeat.may_have_lost, "it was lost once more since that look began"
    heartbeat.looked(heartbeat.losses)

    assert not heartbeat.may_have_lost


def test_a_beat_after_a_long_silence_may_have_come_too_late(heartbeat, register, now):
    """The process was frozen, or Redis away: it is known, and its leases may have ended."""
    heartbeat.start()
    register.gate.clear()
    eventually(lambda: register.waits, what="no beat arrives")
    now[0] += heartbeat.doubt_seconds
    assert heartbeat.detached_seconds >= heartbeat.doubt_seconds
    assert not heartbeat.may_have_lost, "that is for those to say who look at the silence"
    register.gate.set()

    eventually(lambda: heartbeat.may_have_lost, what="the first beat says it")


def test_registering_again_after_a_stop_is_not_being_forgotten(heartbeat, register):
    heartbeat.start()
    heartbeat.stop()
    register.beats.clear()  # it left, so that its next beat is a first one

    heartbeat.start()

    assert register.beats
    assert not heartbeat.may_have_lost


def test_each_beat_says_which_version_beats(heartbeat, register):
    heartbeat.start()
    heartbeat.stop()

    assert {beat.version for beat in register.beats} == {VERSION}


def test_a_silent_register_is_noticed_and_warned_of_once(heartbeat, register, warnings, now):
    heartbeat.start()
    register.away = True
    eventually(lambda: register.refused > 3, what="beats are tried again and again")
    now[0] += 2.0

    assert heartbeat.detached_seconds == 2.0
    assert [name for name, _ in warnings.errors] == ["StoreUnavailableError"]

    register.away = False
    eventually(lambda: heartbeat.detached_seconds == 0.0, what="beats arrive again")


def test_a_stage_without_proxies_is_told_nothing_of_them_and_one_with_them_with_each_beat(
    world, heartbeat, register
):
    heartbeat.start()
    assert register.proxies[0] is None

    world.tree = with_proxies(world)

    eventually(lambda: register.proxies[-1] is not None, what="the beats tell of proxies")


def with_proxies(world):
    stage = replace(world.tree.stage, proxies={"eu": ProxyPool(secret="s")})
    return replace(world.tree, stage=stage)


def test_what_is_found_of_proxies_after_the_last_beat_is_told_before_a_worker_ends(
    world, register, now
):
    world.tree = with_proxies(world)
    slow = replace(world.tree.stage.detector, beat_seconds=10.0)
    world.tree = replace(world.tree, stage=replace(world.tree.stage, detector=slow))
    exchange = ProxyExchange()
    services = world.work({}, workers=register, proxies=exchange, steady=SteadyTime(lambda: now[0]))
    session = Session(services, "w")
    register.report = session.report
    heartbeat = Heartbeat(session, LocalScheduler())
    heartbeat.start()
    pool = ProxyPool(secret="s", max_failures=1)
    exchange.listed("eu", {"k": "http://10.0.0.1:3128"})
    exchange.failed("eu", pool, "k", "a.example", exchange.clock(), Fault.UNREACHABLE)
    assert exchange.has_changes

    heartbeat.stop()

    assert not exchange.has_changes
    assert len(register.beats) == 2

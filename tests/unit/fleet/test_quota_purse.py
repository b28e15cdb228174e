"""A worker's share, and the ledger's rules, whatever is asked in whatever order."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.quotas import MemoryQuotaCeilings, MemoryQuotaLedgers
from tests.kit.quotas import (
    LEASE_SECONDS,
    Ask,
    Booked,
    Purse,
    QuotaLedgers,
    QuotaPeriod,
    Wish,
    share_of,
    window_of,
)
from tests.kit.worlds.quotas import a_limit

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


class Ledger:
    """One account over memory; every worker's numbers count up."""

    def __init__(self, most: int, per: QuotaPeriod = QuotaPeriod.ALL) -> None:
        self.clock = Clock()
        self.redis = MemoryQuotaLedgers(clock=self.clock)
        self.ceilings = MemoryQuotaCeilings()
        self.service = QuotaLedgers(self.redis, self.ceilings)
        self.limit, self.window = a_limit(most, per), window_of(per, NOW)
        self.numbers: dict[str, int] = {}
        self.nonce = ""

    def ask(self, holder: str, *, spent=0, keep=0, wanted=0, least=1, number=None) -> Booked:
        """Exchange until the ledger is open and its ceiling high enough."""
        for _ in range(4):
            last = self.numbers[holder] = self.numbers.get(holder, 0) + 1
            ask = Ask(number=number or last, spent=spent, keep=keep, wanted=wanted, least=least)
            wish = Wish(self.limit, self.window, self.nonce, ask)
            [(self.nonce, booked)] = self.service.exchange(holder, [wish], self.clock.now)
            if booked is not None and booked.short_of <= booked.ceiling:
                return booked
        assert booked is not None
        return booked


@given(speed=st.floats(0, 10_000), most=st.integers(1, 10**9), is_rate=st.booleans())
def test_a_share_is_ten_seconds_work_at_most_and_of_a_small_budget_less(speed, most, is_rate):
    share = share_of(speed, most, is_rate=is_rate)

    assert 0 <= share <= speed * 10 + 1
    if not is_rate:
        assert share <= max(speed, most * 0.0005) + 1


def test_a_faster_worker_gets_the_larger_share():
    ledger = Ledger(100_000, QuotaPeriod.DAY)

    shares = [ledger.ask(name, wanted=wanted).granted for name, wanted in (("a", 50), ("b", 500))]

    assert shares == [50, 500]


def test_shares_get_smaller_as_the_quota_runs_low():
    ledger = Ledger(1_000)

    granted = [ledger.ask(f"w{n}", wanted=400).granted for n in range(6)]

    assert granted == sorted(granted, reverse=True)
    assert granted[0] == 400
    assert 0 < granted[-1] < 100
    assert sum(granted) <= 1_000


@given(
    asks=st.lists(
        st.tuples(
            st.sampled_from("abc"),
            st.integers(0, 40),
            st.integers(0, 60),
            st.integers(1, 20),
            st.sampled_from([0, 0, 10, 45]),
        ),
        max_size=30,
    ),
    most=st.integers(1, 300),
    per=st.sampled_from(list(QuotaPeriod)),
)
def test_what_is_spent_and_held_never_exceeds_a_budget(asks, most, per):
    ledger = Ledger(most, per)
    spent, granted = dict.fromkeys("abc", 0), dict.fromkeys("abc", 0)

    for holder, use, wanted, least, seconds in asks:
        ledger.clock.now += timedelta(seconds=seconds)
        spent[holder] = min(granted[holder], spent[holder] + use)
        booked = ledger.ask(holder, spent=spent[holder], wanted=wanted, least=least)
        granted[holder] = booked.granted
        if per is QuotaPeriod.ALL:
            assert booked.spent + booked.held <= most
            assert sum(granted.values()) - sum(spent.values()) <= booked.held
        assert booked.spent == sum(spent.values())
        assert booked.in_doubt <= booked.held


def test_a_repeated_and_a_late_message_have_no_second_effect():
    ledger = Ledger(100)
    ledger.ask("a", wanted=10)
    number = ledger.numbers["a"]

    again = ledger.ask("a", wanted=10, number=number)
    ledger.ask("a", spent=4, wanted=6)
    late = ledger.ask("a", spent=2, wanted=40, number=number)

    assert again.granted == 10
    assert (late.spent, late.held) == (4, 6)


def test_who_has_returned_its_share_and_goes_on_later_is_booked_once():
    ledger = Ledger(100)
    ledger.ask("a", wanted=10)
    ledger.ask("a", spent=4)

    ledger.clock.now += timedelta(minutes=5)

    assert ledger.ask("a", spent=4, wanted=10).spent == 4


def test_a_dead_workers_share_of_a_rate_comes_back_with_its_lease():
    ledger = Ledger(100, QuotaPeriod.DAY)
    ledger.ask("dead", wanted=40)

    ledger.clock.now += timedelta(seconds=LEASE_SECONDS + 1)

    assert ledger.ask("b", wanted=1).held == 1


def test_a_dead_workers_share_of_a_budget_counts_as_used_until_it_tells():
    ledger = Ledger(100)
    ledger.ask("dead", wanted=40)

    ledger.clock.now += timedelta(seconds=LEASE_SECONDS + 1)
    booked = ledger.ask("b", wanted=1)
    assert (booked.held, booked.in_doubt) == (41, 40)
    [standing] = ledger.service.standings([ledger.limit], NOW)
    assert (standing.in_doubt, standing.left) == (40, 59)

    told = ledger.ask("dead", spent=15, wanted=0)
    assert (told.spent, told.held, told.in_doubt) == (15, 1, 0)


def test_what_redis_has_lost_counts_as_used_up_to_its_ceiling():
    ledger = Ledger(1_000)
    ledger.ask("a", wanted=100)

    ledger.redis.lose()
    [standing] = ledger.service.standings([ledger.limit], NOW)
    booked = ledger.ask("b", wanted=2_000, least=1)

    assert standing.used == 105  # what was granted, and half a per cent ahead
    assert booked.granted <= 895


def test_a_ledger_that_was_set_back_grants_nothing_above_its_ceiling():
    """A failover to a replica that has not heard of the last grants."""
    ledger = Ledger(1_000)
    ledger.ask("a", wanted=100)
    key = ledger.limit.account, ledger.window
    stale = ledger.redis.ledgers[key].ceiling
    ledger.ask("a", wanted=400)
    before = ledger.redis.ledgers[key]
    before.ceiling, before.out, before.holders["a"].granted = stale, 100, 100

    for _ in range(5):
        booked = ledger.ask("b", wanted=900)
        ledger.clock.now += timedelta(seconds=2)

    assert booked.granted + 400 <= 1_000


def test_the_ledger_hears_at_once_of_a_ceiling_that_was_raised():
    purse = Purse(100, is_rate=True, now=0.0)
    purse.follow("n")
    purse.ask(0.0)
    purse.answered(Booked(granted=10, ceiling=10, short_of=20), 0.0)

    assert purse.is_due(0.0, quiet_seconds=2.0)
    purse.ask(0.0)
    purse.answered(Booked(granted=20, ceiling=20), 0.0)
    assert not purse.is_due(0.0, quiet_seconds=2.0)


def test_a_share_is_not_spent_after_its_lease():
    purse = Purse(100, is_rate=True, now=0.0)
    purse.follow("n")
    purse.ask(0.0)
    purse.answered(Booked(granted=10), 0.0)

    assert purse.reserve(4, LEASE_SECONDS - 0.1)
    assert not purse.reserve(1, LEASE_SECONDS)


def test_a_share_ends_with_its_period():
    purse = Purse(100, is_rate=True, now=0.0)
    purse.follow("n")
    purse.ask(0.0)
    purse.answered(Booked(granted=10, seconds_left=3.0), 0.0)

    assert purse.free(2.9) == 10
    assert purse.free(3.0) == 0


@pytest.mark.parametrize("reserved", [0, 5])
def test_who_has_used_nothing_for_a_while_returns_all_but_what_is_under_way(reserved):
    purse = Purse(100, is_rate=True, now=0.0)
    purse.follow("n")
    purse.ask(0.0)
    purse.answered(Booked(granted=10), 0.0)
    purse.reserve(reserved, 0.0)
    purse.settle(reserved, reserved)

    assert purse.is_due(5.0, quiet_seconds=2.0)
    ask = purse.ask(5.0, quiet_seconds=2.0)

    assert (ask.spent, ask.keep, ask.wanted) == (reserved, 0, 0)
    assert purse.free(5.0) == 0

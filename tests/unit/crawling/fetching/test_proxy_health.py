"""The standing of a proxy: who leaves it out, who tries it, what a worker tells and hears."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.kit.config import ProxyPool
from tests.kit.fetching import (
    ALONE_SECONDS,
    LATELY_SECONDS,
    MOST_FIGURES,
    NEW,
    TRY_SECONDS,
    Fault,
    HeardProxies,
    ProxyExchange,
    ProxyNews,
    Standing,
    Verb,
    after_failure,
    after_news,
    chosen,
)

POOL = ProxyPool(secret="proxies", max_failures=2, rest_seconds=60.0)
ONE, TWO = "http://10.0.0.1:3128", "http://10.0.0.2:3128"
KEYS = ["one", "two"]


class Workers:
    """Workers over one clock, and what each has told."""

    def __init__(self, *names: str) -> None:
        self.now = 1_000.0
        self.each = {name: ProxyExchange(lambda: self.now) for name in names}
        for exchange in self.each.values():
            exchange.listed("eu", dict(zip(KEYS, (ONE, TWO), strict=True)))
            exchange.hear(HeardProxies())

    def fail(self, name, times=2, key="one", host="a.example", fault=Fault.UNREACHABLE):
        for _ in range(times):
            self.each[name].failed("eu", POOL, key, host, self.now, fault)

    def succeed(self, name, key="one", host="a.example", began=None):
        self.each[name].succeeded("eu", key, host, self.now if began is None else began)

    def hear(self, name, **news):
        exchange = self.each[name]
        exchange.reports()
        exchange.hear(HeardProxies(seen=1, news=(ProxyNews(pool="eu", key="one", **news),)))

    def chosen(self, name):
        number = self.each[name].choose("eu", KEYS, 0)
        return None if number is None else KEYS[number]

    def told(self, name):
        return {(one.key, one.verb): one for one in self.each[name].reports().reports}


def test_what_began_before_the_end_of_a_cool_down_does_not_extend_it():
    standing = after_failure(after_failure(NEW, POOL, 0.0), POOL, 0.0)

    assert after_failure(standing, POOL, 61.0, began=59.0) == standing
    assert after_failure(standing, POOL, 61.0, began=60.5).cool_downs == 2


def test_a_proxy_that_one_worker_is_sure_of_is_left_out_by_another_that_hears_of_it():
    workers = Workers("a", "b")
    workers.fail("a")

    told = workers.told("a")["one", Verb.AWAY]
    assert (told.cool_down_seconds, told.cool_downs, told.failed) == (60.0, 1, 2)
    assert (told.place, told.fault) == (ONE, "unreachable")
    workers.hear("b", cool_down_seconds=60.0, cool_downs=1)

    assert [workers.chosen("a"), workers.chosen("b")] == ["two", "two"]


def test_what_was_not_heard_is_told_again_and_what_was_heard_is_not():
    workers = Workers("a")
    workers.fail("a")
    exchange = workers.each["a"]

    first, again = exchange.reports(), exchange.reports()
    exchange.hear(HeardProxies(seen=7))
    after = exchange.reports()

    assert first.reports == again.reports
    assert (after.seen, after.reports) == (7, ())


def test_after_the_cool_down_a_proxy_is_used_by_whoever_is_granted_the_try_once():
    workers = Workers("a", "b")
    for name in ("a", "b"):
        workers.hear(name, cool_down_seconds=20.0, cool_downs=1)
        assert workers.chosen(name) == "two"
    workers.now += 21

    assert [workers.chosen("a"), workers.chosen("b")] == ["two", "two"]
    assert ("one", Verb.TRY) in workers.told("a")
    workers.hear("a", cool_downs=1, try_seconds=TRY_SECONDS)
    workers.hear("b", cool_downs=1, ask_seconds=TRY_SECONDS)

    assert [workers.chosen("a") for _ in range(3)] == ["one", "two", "two"]
    assert workers.chosen("b") == "two"
    assert ("one", Verb.TRY) not in workers.told("b")
    workers.hear("b", cool_downs=1, ask_seconds=5.0)
    workers.now += 5.0
    assert ("one", Verb.TRY) in workers.told("b")


def test_a_job_that_keeps_its_proxy_does_not_leave_it_for_a_try_of_another():
    workers = Workers("a")
    workers.hear("a", cool_downs=1, try_seconds=TRY_SECONDS)
    exchange = workers.each["a"]

    assert exchange.choose("eu", KEYS, 1, tries_first=False) == 1
    assert exchange.choose("eu", KEYS, 0, tries_first=False) == 0


def test_a_try_that_fails_is_told_with_twice_the_cool_down_and_one_that_succeeds_as_well():
    workers = Workers("a", "b")
    for name in ("a", "b"):
        workers.hear(name, cool_downs=3, try_seconds=TRY_SECONDS)
        assert workers.chosen(name) == "one"

    workers.fail("a", times=1, fault=Fault.SILENT)
    workers.succeed("b")

    assert workers.told("a")["one", Verb.AWAY].cool_down_seconds == 480.0
    assert ("one", Verb.WELL) in workers.told("b")
    assert workers.chosen("b") == "one"


def test_an_answer_that_was_asked_for_before_the_others_found_it_dead_proves_nothing():
    workers = Workers("a")
    began = workers.now
    workers.now += 1
    workers.hear("a", cool_down_seconds=60.0, cool_downs=1)

    workers.succeed("a", began=began)

    assert workers.chosen("a") == "two"


def test_a_site_that_is_silent_through_every_proxy_costs_none_of_them_the_fleets_trust():
    workers = Workers("a")
    workers.fail("a", key="one", fault=Fault.SILENT)
    workers.fail("a", key="two", fault=Fault.CLOSED)

    assert {verb for _, verb in workers.told("a")} == {Verb.FIGURES}
    # Only this worker leaves them out, and where there is nothing else it uses them.
    assert workers.chosen("a") in KEYS


def test_a_proxy_is_silent_itself_where_the_site_answers_another_one():
    workers = Workers("a")
    workers.succeed("a", key="two")
    workers.now += LATELY_SECONDS

    workers.fail("a", times=1, host="b.example", fault=Fault.SILENT)
    workers.fail("a", times=1, fault=Fault.SILENT)

    assert ("one", Verb.AWAY) in workers.told("a")


def test_a_worker_that_hears_nothing_of_the_fleet_tries_by_itself():
    workers = Workers("a")
    workers.fail("a")
    workers.now += 61.0

    assert ALONE_SECONDS < 61.0
    assert workers.chosen("a") == "one"


def test_where_the_fleet_leaves_all_out_none_is_chosen_until_a_try():
    workers = Workers("a")
    workers.fail("a", key="one")
    workers.fail("a", key="two")

    assert workers.chosen("a") is None
    assert workers.each["a"].back_seconds("eu", KEYS) == 60.0
    pool = workers.each["a"].reports().pools[0]
    assert (pool.pool, pool.size, pool.away) == ("eu", 2, 2)


def test_a_proxy_with_another_password_and_one_that_is_gone_are_not_held_to_what_was():
    workers = Workers("a")
    workers.fail("a", key="one")
    workers.fail("a", key="two")

    workers.each["a"].listed("eu", {"one": ONE}, ["one"])

    assert workers.each["a"].choose("eu", ["one"], 0) == 0
    assert {("one", Verb.WELL), ("two", Verb.WELL)} <= workers.told("a").keys()


def test_figures_go_along_a_few_at_a_time_and_not_with_each_heartbeat():
    workers = Workers("a")
    keys = {f"k{n}": ONE for n in range(3 * MOST_FIGURES)}
    exchange = workers.each["a"]
    exchange.listed("eu", keys)
    for key in keys:
        exchange.succeeded("eu", key, "a.example", workers.now - 0.5)

    told = []
    for _ in range(60):
        reports = exchange.reports().reports
        told += reports
        assert len(reports) <= MOST_FIGURES
        exchange.hear(HeardProxies())
        workers.now += 1

    assert sorted(one.key for one in told) == sorted(keys)
    assert {(one.answered, one.failed, one.spent_seconds) for one in told} == {(1, 0, 0.5)}


standings = st.builds(
    Standing,
    cool_down_until=st.floats(-100, 100),
    is_known=st.booleans(),
    try_until=st.floats(-100, 100),
)


@given(st.lists(standings, min_size=1, max_size=8), st.integers(0, 99), st.floats(-100, 100))
def test_what_the_fleet_leaves_out_is_used_by_nobody_without_a_try(each, first, now):
    number = chosen(each, first, now, alone=False)

    if number is None:
        assert all(one.is_known for one in each)
    elif each[number].is_known:
        assert each[number].cool_down_until <= now < each[number].try_until
    else:
        free = [one for one in each if not one.is_known and one.cool_down_until <= now]
        assert each[number].cool_down_until <= now or not free


@given(
    st.lists(st.tuples(st.booleans(), st.floats(0, 200)), max_size=30),
    st.integers(1, 4),
    st.floats(1, 90),
)
def test_a_cool_down_never_shrinks_but_by_success_and_news_of_it(ends, max_failures, rest):
    pool = ProxyPool(secret="p", max_failures=max_failures, rest_seconds=rest)
    standing, now = NEW, 0.0
    for succeeds, passed in ends:
        now += passed
        after = NEW if succeeds else after_failure(standing, pool, now, is_sure=True)
        if not succeeds:
            assert after.cool_down_until >= standing.cool_down_until
            assert after.cool_downs >= standing.cool_downs
            assert after.is_known == (after.cool_downs > 0)
        standing = after
    news = ProxyNews(pool="p", key="k", cool_down_seconds=5.0, cool_downs=2)
    heard = after_news(standing, news, now)
    assert (heard.cool_down_until, heard.is_known) == (now + 5.0, True)
    assert after_news(heard, replace(news, cool_downs=0), now) == NEW

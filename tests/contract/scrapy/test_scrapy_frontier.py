"""A Scrapy crawl on Redis, transition by transition: queued, leased, finished, forgotten."""

import re

import pytest
from hypothesis import HealthCheck
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from tests.kit.examples import examples
from tests.kit.redis import RedisConnection
from tests.kit.scrapy import Forget, Marks, Order, Pushed, RedisCrawl, crawl_keys
from tests.kit.scrapy import crawl_keys_module as dictionary
from tests.waiting import eventually


@pytest.fixture
def part(any_redis, tenant):
    def make(process="a", **options):
        return RedisCrawl(any_redis, tenant, "shop", process, **options)

    return make


def pushed(*names, **options):
    return [Pushed(content=name.encode(), **options) for name in names]


def marked(*names):
    return [
        Pushed(content=name.encode(), marks=Marks.SEEN, mark=name.encode() * 4) for name in names
    ]


def names(taken):
    return [each.content.decode() for each in taken[0]]


def ids(taken):
    return [each.id for each in taken[0]]


def test_of_equal_priority_the_oldest_or_the_newest_is_first(part):
    part().push([*pushed("a", "b"), *pushed("high", priority=5), *pushed("low", priority=-5)])
    assert names(part().lease(10)) == ["high", "a", "b", "low"]

    newest = part(order=Order.NEWEST)
    newest.push([*pushed("a", "b"), *pushed("high", priority=5)])
    assert names(newest.lease(10)) == ["high", "b", "a"]


def test_a_mark_lets_one_request_through_and_is_shared(part):
    assert part("a").push(marked("x", "y", "x")) == [True, True, False]
    assert part("b").push(marked("x", "z")) == [False, True]
    assert part("b").push(pushed("x", "x")) == [True, True]
    assert part().learn([b"x" * 4, b"n" * 4]) == 1


def test_what_is_leased_is_nobody_elses_until_the_lease_ends(part):
    one, two = part("a", lease_ms=600_000), part("b")
    one.push(pushed("x", "y"))
    [held] = one.lease(1)[0]
    assert held.content == b"x"
    taken, _ = two.lease(10)
    [other] = taken
    assert other.content == b"y"

    part("a", lease_ms=1).renew([held.id])
    found = []
    eventually(lambda: found or found.append(two.lease(10)) or found.pop()[1], what="it ends")
    assert one.finish([held.id]) == 0
    assert two.finish([held.id, other.id]) == 2
    assert part().load().leased == 0


def dies_with(part, *, times, number=10, attempts=3):
    """Processes lease and are never heard of again."""
    for each in range(times):
        process, found = part(f"dead{each}", lease_ms=1, attempts=attempts), []
        eventually(
            lambda p=process, f=found: f or f.extend(p.lease(number)[0]) or f, what="a lease"
        )


def test_a_request_begun_too_often_is_handed_over_as_dead(part, any_redis):
    part().push(pushed("a"))
    dies_with(part, times=3)

    found = []
    heir = part("heir", attempts=3)
    eventually(lambda: found or found.extend(heir.lease(10)[0]) or found, what="the last has ended")

    assert [(each.content, each.deaths) for each in found] == [(b"a", 3)]
    assert heir.mark_dead(found[0].id, "deadly")
    assert not any_redis.client.exists(heir.keys.deaths, heir.keys.requests)


def test_what_is_begun_for_the_last_time_is_alone(part):
    part().push(pushed("a", "b"))
    dies_with(part, times=2)
    heir = part("heir", attempts=3)

    first = []
    eventually(lambda: first or first.extend(heir.lease(10)[0]) or first, what="their lease ends")
    assert len(first) == 1
    part().push(pushed("c"))
    assert heir.lease(10, held=1) == ([], 0)
    heir.finish([first[0].id])
    [second] = heir.lease(10)[0]
    assert {first[0].content, second.content} == {b"a", b"b"}
    assert {first[0].deaths, second.deaths} == {2}
    heir.give_back([second.id])
    assert heir.lease(10, held=1) == ([], 0)

    [again] = heir.lease(10)[0]
    assert again == second
    heir.finish([again.id])
    assert names(heir.lease(10)) == ["c"]


def test_a_process_that_was_slow_to_renew_and_takes_its_own_again_is_no_death(part):
    slow = part("slow", lease_ms=1, attempts=2)
    slow.push(pushed("a"))

    for _ in range(5):
        found = []
        eventually(lambda f=found: f or f.extend(slow.lease(1)[0]) or f, what="its own")
        assert found[0].deaths == 0


def test_a_lease_that_is_renewed_does_not_end(part):
    one = part("a", lease_ms=60_000)
    short = part("a", lease_ms=1)
    one.push(pushed("x"))
    [held] = ids(short.lease(1))

    assert one.renew([held, "000000000000099"]) == {"000000000000099"}
    assert part("b").lease(1) == ([], 0)
    assert one.finish([held]) == 1


def test_what_is_given_back_returns_to_its_place(part):
    part().push([*pushed("first", priority=9), *pushed("second", "third")])
    one = part("a")
    held = ids(one.lease(2))

    assert one.give_back([*held, "000000000000099"]) == 2
    assert one.give_back(held) == 0
    assert names(part("b").lease(3)) == ["first", "second", "third"]


@pytest.mark.parametrize("kind", ["list", "set", "zset"])
def test_start_urls_are_queued_by_one_script_whatever_holds_them(part, any_redis, kind):
    client, key = any_redis.client, f"{part().keys.queue}:source"
    urls = [f"http://a.example/{n}" for n in range(5)]
    {
        "list": lambda: client.rpush(key, *urls),
        "set": lambda: client.sadd(key, *urls),
        "zset": lambda: client.zadd(key, {url: -n for n, url in enumerate(urls)}),
    }[kind]()

    assert len(part().absorb(key, 2)) == 2
    first, _ = part("a").lease(10)
    assert len(part().absorb(key, 100)) == 3
    assert len(part().absorb(key, 100)) == 0

    rest, _ = part("a").lease(10)
    assert all(each.start for each in first + rest)
    assert sorted(each.content.decode() for each in first + rest) == urls
    if kind != "set":
        assert [each.content.decode() for each in first] == urls[:2]
    assert not client.exists(key)


def test_a_dead_request_is_kept_with_its_reason(part, any_redis):
    part().push(pushed("bad"))
    [held] = ids(part("a").lease(1))

    assert not part("b").mark_dead(held, "not mine")
    assert part("a").mark_dead(held, "has no\nURL")

    assert any_redis.client.lrange(part().keys.dead, 0, -1) == [b"has no URL\nrbad"]
    assert part().load() == part("z").load()
    assert part().load().leased == 0


def test_a_run_begins_anew_when_nothing_of_the_last_one_is_left(part):
    start = [Pushed(content=b"s", marks=Marks.STARTS, mark=b"s")]
    part("a").enter()
    assert part("a").push(start) == [True]
    part("b").enter()
    assert part("b").push(start) == [False]
    [held] = ids(part("a").lease(1))
    part("a").finish([held])
    part("a").leave(Forget.NEVER)
    part("b").leave(Forget.NEVER)

    part("c").enter()

    assert part("c").push(start) == [True]


@pytest.mark.parametrize(
    ("forget", "left", "forgotten"),
    [
        (Forget.NEVER, False, False),
        (Forget.FINISHED, False, True),
        (Forget.FINISHED, True, False),
        (Forget.ALWAYS, True, True),
    ],
)
def test_the_last_process_to_leave_forgets_as_configured(part, forget, left, forgotten):
    part("a").enter()
    part("b").enter()
    part("a").push(marked("x"))
    if not left:
        part("a").finish(ids(part("a").lease(1)))

    assert not part("a").leave(forget)
    assert part("b").leave(forget) == forgotten
    assert part("c").push(marked("x")) == [forgotten]


def test_a_crawl_that_ended_beside_a_dead_process_is_forgotten_by_the_next(part):
    part("dead", lease_ms=600_000).enter()
    part("a").enter()
    part("a").push(marked("x"))
    part("a").finish(ids(part("a").lease(1)))
    assert not part("a").leave(Forget.FINISHED)
    part("dead", lease_ms=1).renew([])
    eventually(lambda: part("a").load().others == 0, what="the dead one is taken to be gone")

    assert part("b").enter().flushed
    assert part("b").push(marked("x")) == [True]


def test_a_flush_forgets_everything_unless_others_take_part(part):
    part("a").enter()
    part("a").push(marked("x"))

    assert not part("b").enter(flush=True).flushed
    part("a").leave(Forget.NEVER)
    part("b").leave(Forget.NEVER)
    found = part("b").enter(flush=True)

    assert (found.flushed, found.queued, found.others) == (True, 0, 0)
    assert part("b").push(marked("x")) == [True]


def test_a_process_that_enters_learns_the_fingerprinter(part):
    assert part().known() == (0, "")
    part().set_fingerprinter("scrapy-2.6")
    part().learn([b"x"])

    assert part().known() == (1, "scrapy-2.6")
    assert part("a").enter().fingerprints == "scrapy-2.6"


def test_crawls_of_other_tenants_and_names_are_others(any_redis, tenant):
    RedisCrawl(any_redis, tenant, "shop", "a").push(marked("x"))

    for other in ((f"{tenant}x", "shop"), (tenant, "news")):
        crawl = RedisCrawl(any_redis, *other, "a")
        assert crawl.lease(10) == ([], 0)
        assert crawl.push(marked("x")) == [True]


def test_every_key_is_in_the_dictionary_of_its_type_and_never_expires(part, any_redis, tenant):
    part("dead", lease_ms=600_000).enter()
    part("a").enter()
    part("a").leave(Forget.FINISHED)
    part("a").enter()
    part("a").push([*marked("x", "y"), Pushed(content=b"s", marks=Marks.STARTS, mark=b"s")])
    part("a").mark_dead(ids(part("a").lease(1))[0], "why")
    part("gone", lease_ms=1).lease(1)
    eventually(lambda: part("a").lease(1)[1], what="what its process has left is taken over")
    part("a").push(marked("z"))
    part("a").set_fingerprinter("scrapy-redis")

    rows = dict(
        re.findall(
            r"^``cf:\{scrapy:tenant:crawl\}:(\w+)``\s+([A-Z]+)\s+no ",
            dictionary.__doc__,
            re.MULTILINE,
        )
    )
    client = any_redis.client
    found = {key.decode() for key in client.scan_iter(f"cf:{{scrapy:{tenant}:*")}
    keys = crawl_keys(tenant, "shop")
    # Of these the first is there on a cluster alone, and the last where a process has a journal.
    expiring = {keys.absorbed, keys.counts, keys.beats}
    assert found == set(keys) - expiring | {keys.counts}
    kinds = {
        name: client.type(key).decode().upper()
        for name, key in keys._asdict().items()
        if key not in expiring
    }
    assert kinds == rows
    assert {client.ttl(key) for key in found} == {-1}


class Machine(RuleBasedStateMachine):
    """Two processes, and a model of what each request is: queued, held by one, or finished."""

    connection: RedisConnection
    tenant: str
    run = 0

    def __init__(self):
        super().__init__()
        Machine.run += 1
        crawl = f"m{Machine.run}"
        self.parts = [RedisCrawl(self.connection, self.tenant, crawl, name) for name in "ab"]
        self.queued, self.known, self.number = [], set(), 0
        self.held = [{}, {}]

    who = st.integers(0, 1)

    @rule(who=who, mark=st.integers(0, 8), priority=st.integers(-1, 1))
    def push(self, who, mark, priority):
        self.number += 1
        content = b"%d" % self.number
        request = Pushed(content=content, marks=Marks.SEEN, mark=b"%d" % mark, priority=priority)

        assert self.parts[who].push([request]) == [mark not in self.known]

        if mark not in self.known:
            self.known.add(mark)
            self.queued.append((-priority, self.number))

    @rule(who=who, count=st.integers(1, 3))
    def lease(self, who, count):
        taken, inherited = self.parts[who].lease(count)

        assert inherited == 0
        expected = sorted(self.queued)[:count]
        assert [int(each.content) for each in taken] == [number for _, number in expected]
        for each, place in zip(taken, expected, strict=True):
            self.queued.remove(place)
            self.held[who][each.id] = place

    @rule(who=who, asks=who, back=st.booleans())
    def end_one(self, who, asks, back):
        if not self.held[who]:
            return
        held = min(self.held[who])
        end = self.parts[asks].give_back if back else self.parts[asks].finish

        assert end([held]) == (who == asks)

        if who == asks:
            place = self.held[who].pop(held)
            if back:
                self.queued.append(place)

    @rule(who=who)
    def renew(self, who):
        everything = [*self.held[0], *self.held[1]]
        assert self.parts[who].renew(everything) == set(self.held[1 - who])

    @invariant()
    def nothing_is_lost(self):
        load = self.parts[0].load()
        assert load.queued == len(self.queued)
        assert load.leased == len(self.held[0]) + len(self.held[1])
        stored = self.connection.client.hlen(self.parts[0].keys.requests)
        assert stored == load.queued + load.leased


@pytest.mark.hypothesis
def test_in_any_order_every_request_is_queued_held_or_finished(any_redis, tenant):
    Machine.connection, Machine.tenant = any_redis, tenant

    run_state_machine_as_test(
        Machine,
        settings=examples(0.4, steps=25, suppress_health_check=list(HealthCheck)),
    )

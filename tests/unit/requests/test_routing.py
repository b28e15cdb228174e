"""requests.routing: an even spread, measured, and routes that never change under an id."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import cycle, pairwise, product
from math import sqrt

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.kit.config import Biz, Field, Generation, Rule, Spread
from tests.kit.ids import allot, runs
from tests.kit.kernel import RequestId, issued_at, to_ms
from tests.kit.requests import (
    Shard,
    all_shards,
    bits,
    candidates,
    generation_at,
    live_shards,
    mix,
    route,
    shard_of,
)

START = datetime(2026, 3, 1, tzinfo=UTC)
RULES = {"detail": Rule(fields={"title": Field(css="h1")})}
MIXED = (Spread.MODULO, Spread.RENDEZVOUS)


def named(prefix: str, wanted: int | tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{prefix}{n}" for n in range(wanted)) if isinstance(wanted, int) else wanted


def a_generation(
    nodes: int | tuple[str, ...] = 1,
    databases: int | tuple[str, ...] = 1,
    shards: int = 1,
    spread: Spread = Spread.RENDEZVOUS,
    starts_at: datetime = START,
) -> Generation:
    return Generation(
        starts_at=starts_at,
        nodes=named("node-", nodes),
        databases=named("db", databases),
        shards=shards,
        spread=spread,
    )


def a_biz(*generations: Generation, **more: object) -> Biz:
    return Biz(generations=generations, rules=RULES, **more)


def issued(per_second: int, number: int, workers: int = 3) -> list[int]:
    """Ids as the issuer hands them out at that rate, by turns from a few workers."""
    marks = dict.fromkeys(range(workers), 0)
    found: list[int] = []
    for n in range(number):
        worker = n * 7 % 1000 % workers
        now_ms = to_ms(START) + n * 1000 // per_second
        allotted = allot(marks[worker], now_ms, 1)
        marks[worker] = allotted.end
        found.append(runs(worker, allotted)[0][0])
    assert len(set(found)) == number
    return found


def chi_square_limit(degrees: int) -> float:
    """Return what chi-square exceeds by chance once in 1,000 times (Wilson and Hilferty 1931)."""
    return degrees * (1 - 2 / (9 * degrees) + 3.0902 * sqrt(2 / (9 * degrees))) ** 3


# ---- spread ------------------------------------------------------------------------------------


#: Nodes, databases and shards, and how many ids are issued in a second: each of both at first.
LAYOUTS = [(1, 1, 4), (3, 1, 3), (2, 2, 2), (1, 1, 8), (3, 1, 5), (4, 2, 4)]
RATES = [1, 116, 10_000]
PAIRS = list(zip(LAYOUTS, cycle(RATES), strict=False))


@pytest.mark.untraced
@pytest.mark.parametrize("spread", MIXED)
@pytest.mark.parametrize(
    ("layout", "per_second"),
    [
        pytest.param(*pair, marks=[] if pair in PAIRS else pytest.mark.long)
        for pair in product(LAYOUTS, RATES)
    ],
)
def test_ids_spread_evenly_over_all_shards(
    layout: tuple[int, int, int], per_second: int, spread: Spread
) -> None:
    generation = a_generation(*layout, spread)
    shards = all_shards(a_biz(generation))
    # Enough for each shard that 5 % is more than three times what chance alone scatters.
    number = 5_000 * len(shards)
    even = number / len(shards)

    counts = Counter(shard_of(generation, i) for i in issued(per_second, number))

    assert set(counts) == set(shards)
    assert max(abs(count - even) for count in counts.values()) / even <= 0.05
    chi_square = sum((count - even) ** 2 / even for count in counts.values())
    assert chi_square <= chi_square_limit(len(shards) - 1)


@pytest.mark.parametrize("shards", [4, 8])
def test_the_plain_modulus_of_the_sources_is_skewed_at_low_load(shards: int) -> None:
    generation = a_generation(1, 1, shards, Spread.PLAIN_MODULO)

    counts = Counter(shard_of(generation, i) for i in issued(116, 20_000))

    assert max(counts.values()) / 20_000 > 0.9


@pytest.mark.parametrize("spread", MIXED)
def test_uuids_and_object_ids_spread_evenly_too(spread: Spread) -> None:
    generation = a_generation(2, 1, 4, spread)
    moments = [to_ms(START) + n * 10 for n in range(20_000)]
    uuids = [f"{ms:012x}7{mix(ms):019x}" for ms in moments]
    object_ids = [f"{ms // 1000:08x}{'ab' * 5}{n:06x}" for n, ms in enumerate(moments)]

    for ids_of_a_kind in (uuids, object_ids, range(1, 20_001)):
        counts = Counter(shard_of(generation, i) for i in ids_of_a_kind)
        chi_square = sum((count - 2_500) ** 2 / 2_500 for count in counts.values())
        assert chi_square <= chi_square_limit(7)


# ---- stability ---------------------------------------------------------------------------------

hexes = st.text("0123456789abcdef", min_size=32, max_size=32)
request_ids = st.one_of(
    st.integers(0, 2**63 - 1), hexes, hexes.map(lambda text: text[:24]), st.integers(0, 10**6)
)
names = st.lists(st.sampled_from("abcdefghijkl"), min_size=1, max_size=6, unique=True).map(tuple)


@st.composite
def generations(draw: st.DrawFn, starts_at: datetime = START) -> Generation:
    return a_generation(
        draw(names),
        draw(names),
        draw(st.integers(1, 256)),
        draw(st.sampled_from(Spread)),
        starts_at,
    )


@st.composite
def histories(draw: st.DrawFn) -> Biz:
    hours = draw(st.lists(st.integers(-50_000, 50_000), min_size=1, max_size=5, unique=True))
    starts = [START + timedelta(hours=hour) for hour in sorted(hours)]
    return a_biz(*(draw(generations(starts_at=at)) for at in starts))


@given(generations(), request_ids)
def test_a_shard_depends_on_the_generation_and_the_id_alone(
    generation: Generation, request_id: RequestId
) -> None:
    shard = shard_of(generation, request_id)
    same = Generation(
        starts_at=generation.starts_at + timedelta(days=9),
        nodes=generation.nodes,
        databases=generation.databases,
        shards=generation.shards,
        spread=generation.spread,
    )

    assert shard_of(same, request_id) == shard
    assert shard in all_shards(a_biz(generation))


@given(generations(), request_ids, st.randoms())
def test_rendezvous_does_not_mind_the_order_of_the_nodes(
    generation: Generation, request_id: RequestId, random
) -> None:
    nodes = list(generation.nodes)
    random.shuffle(nodes)
    ordered, shuffled = (
        a_generation(tuple(n), generation.databases, generation.shards)
        for n in (generation.nodes, nodes)
    )

    assert shard_of(ordered, request_id) == shard_of(shuffled, request_id)


@pytest.mark.parametrize("number", [1, 3, 8])
def test_a_new_node_takes_its_share_and_moves_nothing_else(number: int) -> None:
    before, after = a_generation(number, 2, 4), a_generation(number + 1, 2, 4)
    ids_here = issued(116, 20_000)

    moves = [(shard_of(before, i), shard_of(after, i)) for i in ids_here]

    moved = [new for old, new in moves if old != new]
    assert {new.node for new in moved} == {f"node-{number}"}
    assert len(moved) / len(ids_here) == pytest.approx(1 / (number + 1), rel=0.07)


@given(histories(), request_ids, st.integers(-60_000, 60_000))
def test_candidates_always_hold_the_shard_that_the_route_chose(
    biz: Biz, request_id: RequestId, hour: int
) -> None:
    chosen = route(biz, request_id, START + timedelta(hours=hour))

    found = candidates(biz, request_id)

    assert chosen in found
    assert len(set(found)) == len(found) <= len(biz.generations)
    assert chosen in all_shards(biz)
    if issued_at(request_id) is not None:
        assert found[0] == chosen


@given(histories(), request_ids, st.integers(-60_000, 60_000), st.integers(0, 1_000))
def test_later_generations_never_move_an_id_that_was_issued_before(
    biz: Biz, request_id: RequestId, hour: int, ahead: int
) -> None:
    queued_at = START + timedelta(hours=hour)
    moment = issued_at(request_id) or queued_at
    assume(moment.year < 9000)  # a made-up id; nothing can start after it
    last = biz.generations[-1].starts_at
    starts_at = max(moment, last) + timedelta(hours=ahead, milliseconds=1)
    grown = a_biz(*biz.generations, a_generation(9, 2, 9, starts_at=starts_at))

    assert route(grown, request_id, queued_at) == route(biz, request_id, queued_at)


@given(histories(), st.integers(-60_000, 60_000))
def test_the_generation_in_force_is_the_last_that_has_started(biz: Biz, hour: int) -> None:
    moment = START + timedelta(hours=hour)

    found = generation_at(biz.generations, moment)

    started = [g for g in biz.generations if g.starts_at <= moment]
    assert found == (started[-1] if started else biz.generations[0])


def test_shards_live_until_twice_the_time_to_live_after_their_generation_ended() -> None:
    old = a_generation(nodes=("old",))
    new = a_generation(nodes=("new",), starts_at=START + timedelta(days=1))
    biz = a_biz(old, new, ttl_seconds=3600)
    ended = new.starts_at + timedelta(hours=2)

    assert live_shards(biz, ended) == (Shard("old", "db0", 0), Shard("new", "db0", 0))
    assert live_shards(biz, ended + timedelta(seconds=1)) == (Shard("new", "db0", 0),)
    assert all_shards(biz) == (Shard("old", "db0", 0), Shard("new", "db0", 0))


def test_shards_live_for_as_long_as_what_has_ended_is_kept_there() -> None:
    old = a_generation(nodes=("old",))
    new = a_generation(nodes=("new",), starts_at=START + timedelta(days=1))
    biz = a_biz(old, new, ttl_seconds=60, expiry_grace_seconds=3600)
    gone = new.starts_at + timedelta(seconds=3660)

    assert Shard("old", "db0", 0) in live_shards(biz, gone)
    assert live_shards(biz, gone + timedelta(seconds=1)) == (Shard("new", "db0", 0),)


@given(st.integers(0, 2**64 - 1), st.integers(0, 63))
def test_mixing_is_one_to_one_and_moves_many_bits(value: int, bit: int) -> None:
    other = value ^ (1 << bit)

    assert mix(value) != mix(other)
    assert 0 <= mix(value) < 2**64
    assert (mix(value) ^ mix(other)).bit_count() >= 8


@given(request_ids)
def test_bits_are_sixty_four(request_id: RequestId) -> None:
    assert 0 <= bits(request_id) < 2**64


def test_ids_of_the_spread_grow_with_time() -> None:
    one_worker = issued(116, 1_000, workers=1)

    assert all(a < b for a, b in pairwise(one_worker))

"""Hosts belong to workers evenly, and few move when a worker comes or goes."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from tests.kit.examples import examples
from tests.kit.politeness import DeferredHost
from tests.kit.worker import MOST_PATIENCE_MS, PATIENCE_MS, chosen, owner, patience_ms, salt

HOSTS = [f"site-{number}.example" for number in range(600)]
names = st.lists(
    st.text(alphabet="abcdef0123456789-", min_size=1, max_size=36),
    min_size=2,
    max_size=12,
    unique=True,
)


def owners(workers: list[str]) -> dict[str, str | None]:
    salts = [(salt(name), name) for name in workers]
    return {host: owner(host, salts) for host in HOSTS}


@examples(0.15)
@given(names)
def test_hosts_are_spread_evenly(workers: list[str]):
    counts = Counter(owners(workers).values())

    even = len(HOSTS) / len(workers)
    assert set(counts) == set(workers)
    assert all(abs(count - even) < 6 * even**0.5 for count in counts.values())


@examples(0.15)
@given(names, st.data())
def test_who_goes_leaves_its_hosts_and_no_other_moves(workers: list[str], data: st.DataObject):
    gone = data.draw(st.sampled_from(workers))
    before = owners(workers)

    after = owners([name for name in workers if name != gone])

    moved = {host for host in HOSTS if before[host] != after[host]}
    assert moved == {host for host in HOSTS if before[host] == gone}
    assert len(moved) < len(HOSTS) / len(workers) + 6 * (len(HOSTS) / len(workers)) ** 0.5


@examples(0.15)
@given(names, st.data())
def test_the_order_in_which_workers_are_named_does_not_matter(
    workers: list[str], data: st.DataObject
):
    assert owners(data.draw(st.permutations(workers))) == owners(workers)


def test_nobody_owns_where_nobody_works():
    assert owner("a.example", []) is None


def test_one_looks_at_its_own_hosts_and_at_those_that_are_late():
    now = 1_000_000
    mine = DeferredHost(host="mine.example", count=1, ready_ts=now)
    fresh = DeferredHost(host="theirs.example", count=1, ready_ts=now - PATIENCE_MS + 1)
    late = DeferredHost(host="late.example", count=1, ready_ts=now - PATIENCE_MS)

    found = chosen([late, fresh, mine], lambda host: host == "mine.example", now - PATIENCE_MS)
    assert found == [late, mine]


@given(st.integers(0, 10_000), st.integers(0, 10_000))
def test_who_looks_seldom_takes_an_others_host_late_but_not_for_ever(first: int, second: int):
    looks = sorted([first, second])
    patience = patience_ms(10_000, looks)

    assert PATIENCE_MS <= patience <= MOST_PATIENCE_MS
    assert patience == max(PATIENCE_MS, min(MOST_PATIENCE_MS, 10_000 - looks[0]))
    assert patience_ms(10_000, looks[1:]) == PATIENCE_MS, "one look says nothing of how often"

from collections import Counter
from datetime import UTC, datetime, timedelta
from math import ceil

from hypothesis import given
from hypothesis import strategies as st

from tests.kit.kernel import QueueKey, rotated
from tests.kit.monitoring import due

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
#: What an audit counts for at the least.
LEAST = 1_000
BUDGET = 100_000

held = st.lists(
    st.tuples(
        st.integers(0, 3 * BUDGET),
        st.frozensets(st.sampled_from(["main", "east", "west"]), min_size=1),
    ),
    min_size=1,
    max_size=30,
)
minutes = st.integers(0, 10**6).map(lambda minute: NOON + timedelta(minutes=minute))


def queues(holding):
    named = [(QueueKey("acme", f"b{number:02}", "main"), one) for number, one in enumerate(holding)]
    return {queue_key: count for queue_key, (count, _) in named}, {
        queue_key: on for queue_key, (_, on) in named
    }


def keys(opened, nodes):
    """Return the number of keys to audit on each node."""
    found = Counter()
    for queue_key, count in opened.items():
        for node in nodes[queue_key]:
            found[node] += (LEAST + count) / len(nodes[queue_key])
    return found


@given(held, minutes)
def test_all_are_audited_where_the_budget_holds_all(holding, now):
    opened, nodes = queues(holding)
    budget = ceil(max(keys(opened, nodes).values())) + len(opened)

    assert sorted(due(opened, nodes, now, budget=budget)) == sorted(opened)


@given(held, minutes)
def test_a_look_asks_no_node_for_more_than_the_budget_and_a_queue_of_each_circle(holding, now):
    opened, nodes = queues(holding)
    audited = due(opened, nodes, now, budget=BUDGET)
    largest: dict[frozenset[str], int] = {}
    for queue_key, count in opened.items():
        largest[nodes[queue_key]] = max(largest.get(nodes[queue_key], 0), LEAST + count)

    spent = keys({queue_key: opened[queue_key] for queue_key in audited}, nodes)

    assert len(set(audited)) == len(audited)
    for node, count in spent.items():
        beyond = sum(most / len(on) for on, most in largest.items() if node in on)
        assert count <= BUDGET + beyond + 1


@given(held, minutes)
def test_each_queue_has_its_turn_within_a_few_rounds(holding, now):
    opened, nodes = queues(holding)
    rounds = ceil(3 * max(1.0, max(keys(opened, nodes).values()) / BUDGET)) + 1

    audited: set[QueueKey] = set()
    for minute in range(rounds):
        audited.update(due(opened, nodes, now + timedelta(minutes=minute), budget=BUDGET))

    assert audited == set(opened)


def test_a_node_that_is_full_costs_queues_of_others_nothing():
    many = [(BUDGET, frozenset({"main"}))] * 20
    opened, nodes = queues([*many, (5, frozenset({"east"}))])
    [alone] = [queue_key for queue_key in opened if nodes[queue_key] == {"east"}]

    looks = [due(opened, nodes, NOON + timedelta(minutes=n), budget=BUDGET) for n in range(20)]

    assert all(alone in audited for audited in looks)
    assert max(map(len, looks)) <= 3


def test_nothing_to_audit_is_nothing():
    assert due({}, {}, NOON) == []


@given(st.lists(st.integers(), unique=True, max_size=50), minutes)
def test_a_rotation_keeps_all_and_their_order(things, now):
    turned = rotated(things, now)

    assert sorted(turned) == sorted(things)
    begin = turned.index(things[0]) if things else 0
    assert turned[begin:] + turned[:begin] == things


@given(st.integers(1, 200), minutes)
def test_everything_comes_among_the_first_soon(count, now):
    """With time for a fifth of the things, each is seen within three times five minutes."""
    things = list(range(count))
    seen = {
        thing
        for minute in range(15)
        for thing in rotated(things, now + timedelta(minutes=minute))[: ceil(count / 5)]
    }

    assert seen == set(things)

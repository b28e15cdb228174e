"""Which ledgers the monitor audits in a look (SPEC.md H1).

An audit counts every open request by itself, which reads an index from end to end: a second or two
for a million keys. So a look has a budget of keys for each node. Where all that is open fits into
it every lane is audited with every look; where more is open lanes take turns by what they hold.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from datetime import datetime
from typing import Final, TypeAlias

from crawlfleet.model.lane import Lane
from crawlfleet.policy.rotation import place

#: Keys that a node is asked to count in a look, on average: 2 to 4 s of one of its processors.
KEYS_A_NODE: Final = 2_000_000
#: What an audit costs however little is open, as so many keys.
_LEAST_KEYS: Final = 1_000

#: The nodes that a lane's requests lie on.
Nodes: TypeAlias = frozenset[str]


def due(
    opened: Mapping[Lane, int],
    nodes: Mapping[Lane, Nodes],
    now: datetime,
    *,
    budget: int = KEYS_A_NODE,
) -> list[Lane]:
    """The lanes to audit in this look, the first ones first.

    Lanes lie end to end on a circle, each as long as what it holds. A look goes through a part of
    the circle, as long as the budget, and audits what begins there, so a lane's turn comes again
    after about as many looks as the circle has such parts. That may exceed the budget by one lane:
    one that is larger than any budget has its turn too. Each minute begins at another place.

    Args:
        opened: How many are open of each lane.
        nodes: Where they lie; half of them on each of two nodes.
        now: The moment of the look.
        budget: Keys of each node.

    >>> many = {Lane("acme", f"b{n}", "main"): 10**6 for n in range(10)}
    >>> on_main = dict.fromkeys(many, frozenset({"main"}))
    >>> [len(due(many, on_main, datetime.fromtimestamp(60 * n))) for n in range(5)]
    [2, 2, 2, 2, 2]
    >>> len(due(dict.fromkeys(many, 10), on_main, datetime.fromtimestamp(0)))
    10
    """
    keys = {lane: _LEAST_KEYS + max(0, count) for lane, count in opened.items()}
    asked: Counter[str] = Counter()
    circles: defaultdict[Nodes, list[Lane]] = defaultdict(list)
    for lane, count in keys.items():
        circles[nodes[lane]].append(lane)
        for node in nodes[lane]:
            asked[node] += -(-count // len(nodes[lane]))
    begin = place(now)
    return [
        lane
        for on, lanes in circles.items()
        for lane in _of_circle(
            {lane: keys[lane] for lane in lanes},
            begin,
            min((budget / asked[node] for node in on), default=1.0),
        )
    ]


def _of_circle(keys: Mapping[Lane, int], begin: float, part: float) -> list[Lane]:
    """The lanes that begin within this part of the circle."""
    whole = sum(keys.values())
    until = part * whole if part < 1 else float("inf")
    passed, found = 0, []
    for lane, count in keys.items():
        ahead = (passed - begin * whole) % whole
        if ahead < until:
            found.append((ahead, lane))
        passed += count
    return [lane for _, lane in sorted(found, key=lambda one: one[0])]

"""Items matched against the filters of many subscribers: in one pass, and filter by filter.

Made-up posts of forty words, every second of which mentions one of all subscribed names, and
subscribers of twenty names each, every name wanted by ten of them: so an item concerns as many
subscribers however many there are, and has as many of their terms. What is left to grow is the
cost of finding them.
"""

import random
import statistics
import time
from collections.abc import Sequence
from typing import Final

from benchmarks.bench import Bench, BenchError, Found
from crawlfleet.streams.filters import Facts, Filter, Group, Item, Kind, Leaf, Op, holds
from crawlfleet.streams.matching import Matcher

TERMS: Final = 20
SHARED: Final = 10
WORDS: Final = 39
#: Common words that filters require or exclude.
TOPICS: Final = 200
FEWEST: Final = 1_000
ROUNDS: Final = 3
#: The naive way takes tens of milliseconds an item.
NAIVE_ITEMS: Final = 20
STEPS: Final = 3

_SYLLABLES: Final = [a + b for a in "bcdfgklmnprstvz" for b in ("a", "e", "i", "o", "u", "an")]


def _words(draw: random.Random, count: int, syllables: int) -> list[str]:
    found: dict[str, None] = {}
    while len(found) < count:
        found["".join(draw.choices(_SYLLABLES, k=syllables))] = None
    return list(found)


def _filter(draw: random.Random, names: Sequence[str], topics: Sequence[str]) -> Filter:
    """Any of twenty names; every fifth filter has an exclusion, a requirement and a phrase too."""
    chosen = draw.sample(names, TERMS)
    any_of = Group(Op.OR, tuple(Leaf(Kind.TERM, name) for name in chosen))
    if draw.random() >= 0.2:
        return Filter(any_of)
    phrase = Leaf(Kind.TERM, f"{chosen[0]} {chosen[1]}")
    wanted = Group(Op.AND, (Leaf(Kind.TERM, draw.choice(topics)), any_of))
    unwanted = Leaf(Kind.TERM, draw.choice(topics), excluded=True)
    return Filter(Group(Op.AND, (Group(Op.OR, (phrase, wanted)), unwanted)))


class Load:
    """So many subscribers with their filters, and items for them."""

    def __init__(self, subscribers: int, items: int) -> None:
        draw = random.Random(subscribers)
        common = _words(draw, 2_000, 2)
        names = _words(draw, max(TERMS, subscribers * TERMS // SHARED), 5)
        self.filters = {f"s{n}": _filter(draw, names, common[:TOPICS]) for n in range(subscribers)}
        self.items = []
        for number in range(items):
            words = draw.choices(common, k=WORDS) + draw.choices(names, k=number % 2)
            draw.shuffle(words)
            self.items.append(Item(text=" ".join(words).capitalize() + "."))


def _naive(load: Load, items: Sequence[Item]) -> list[list[str]]:
    found = []
    for item in items:
        facts = Facts(item)
        found.append([name for name, one in load.filters.items() if holds(one.root, facts.has)])
    return found


def _per_cpu_second(load: Load, matcher: Matcher) -> list[float]:
    rates = []
    for _ in range(1 + ROUNDS):
        started = time.process_time()
        for item in load.items:
            matcher.match(item)
        rates.append(len(load.items) / (time.process_time() - started))
    return rates[1:]  # the first one built the automaton


def run(bench: Bench) -> Found:
    """Match in one pass at three numbers of subscribers, and naively at the middle one."""
    most = bench.scale.match_subscribers
    rates: dict[int, list[float]] = {}
    matched: dict[int, float] = {}
    naive = 0.0
    for subscribers in (FEWEST, most // 10, most):
        load = Load(subscribers, bench.scale.match_items)
        matcher = Matcher()
        matcher.put_all(load.filters)
        rates[subscribers] = _per_cpu_second(load, matcher)
        matched[subscribers] = statistics.mean(len(matcher.match(one)) for one in load.items)
        if subscribers == most // 10:
            few = load.items[:NAIVE_ITEMS]
            started = time.process_time()
            each = _naive(load, few)
            naive = len(few) / (time.process_time() - started)
            if [sorted(matcher.match(one)) for one in few] != list(map(sorted, each)):
                raise BenchError("one pass found other subscribers than the filters by themselves")
        bench.tick(f"matching for {subscribers:,} subscribers")
    middle, last = (statistics.median(rates[count]) for count in (most // 10, most))
    return Found(
        figures={
            "stream_match_items_per_cpu_s": middle,
            "stream_match_vs_naive": middle / naive,
            "stream_match_growth": statistics.median(rates[FEWEST]) / last,
        },
        rounds={"stream_match_items_per_cpu_s": rates[most // 10]},
        details={
            "items matched a CPU second, by subscribers": {str(n): r for n, r in rates.items()},
            "subscribers an item is for": {str(n): count for n, count in matched.items()},
            "naively": naive,
        },
    )

"""Matching: one pass over an item finds the filters of all subscribers that take it.

1. The terms of all filters are in one automaton (Aho and Corasick 1975), which finds those that an
   item has in one pass, however many there are. Hashtags, accounts and the language are looked up.
2. Each filter stands under its anchors: leaves of which one at least is in whatever it takes.
   Of several requirements the one that is rarest by its length is chosen.
3. A filter is evaluated where one of its anchors is in the item, over what was found.

So an item costs its length, what is found in it, and the filters whose anchors are: not the number
of subscribers. Equal filters are evaluated once. An automaton does not take more terms, so new ones
go into a small second one until that is a tenth of the first.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from ahocorasick_rs import AhoCorasick

from crawlfleet.streams.filters import Facts, Filter, Item, Kind, Leaf, Node, Op, anchors, leaves
from crawlfleet.streams.text import is_spaceless, is_whole

#: New terms are in an automaton of their own, until there are more than this part of all, or this
#: number of them.
NEW_PART: Final = 0.1
FEW_TERMS: Final = 1_000
#: A character of a term makes it so much rarer, one of a script without spaces as three others. A
#: hashtag or account is as rare as a term with so many characters more.
_RARER: Final = 0.5
_DENSE: Final = 3
_NAMED: Final = 4

#: Values in an item as single texts, each with the sign of its kind; a term has none.
Present: TypeAlias = AbstractSet[str]
_SIGNS: Final = {
    Kind.TERM: "",
    Kind.HASHTAG: "\0#",
    Kind.MENTION: "\0@",
    Kind.AUTHOR: "\0from:",
    Kind.LANGUAGE: "\0lang:",
}


class _Test(NamedTuple):
    """A group of a filter, of which all are to hold or any: values, and groups within.

    With many filters most of one is not in the processor's cache: so it is a few small values.
    """

    is_all: bool
    wanted: Present
    unwanted: Present
    inner: "tuple[_Test, ...]"


@dataclass(slots=True, eq=False)
class _Entry:
    """A filter with the values that it stands under, and the subscribers that have it."""

    filter: Filter
    anchors: frozenset[str]
    #: None where an anchor is all that it needs.
    test: _Test | None
    subscribers: list[str]


class _Automaton:
    """The terms of an automaton, in the order that it numbers them by."""

    def __init__(self, terms: Iterable[str] = ()) -> None:
        self.terms = tuple(terms)
        self._found = AhoCorasick(self.terms).find_matches_as_indexes if self.terms else None

    def terms_of(self, text: str) -> Iterator[str]:
        """Find terms of a folded text that are whole words, some of them several times."""
        if self._found is None:
            return
        length = len(text)
        for number, start, end in self._found(text, overlapping=True):
            # Most stand between spaces.
            is_free = (not start or text[start - 1] == " ") and (end == length or text[end] == " ")
            if is_free or is_whole(text, start, end):
                yield self.terms[number]


class Matcher:
    """The filters of all subscribers of a source, each subscriber by its id."""

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}
        self._of: dict[str, str] = {}
        self._under: dict[str, dict[_Entry, None]] = {}
        self._uses: Counter[str] = Counter()
        self._main, self._new = _Automaton(), _Automaton()
        # All terms of the automata, and those that are missing there.
        self._known: set[str] = set()
        self._missing: list[str] = []

    def __len__(self) -> int:
        return len(self._of)

    def put_all(self, filters: Mapping[str, Filter]) -> None:
        """Set the filters of subscribers, in place of those that they had."""
        for subscriber, wanted in filters.items():
            if self._of.get(subscriber) == wanted.digest:
                continue
            self.drop(subscriber)
            entry = self._entries.get(wanted.digest) or self._stand(wanted)
            entry.subscribers.append(subscriber)
            self._of[subscriber] = wanted.digest

    def drop(self, subscriber: str) -> None:
        """Forget a subscriber; one that is not there is none to forget."""
        digest = self._of.pop(subscriber, None)
        if digest is None:
            return
        entry = self._entries[digest]
        entry.subscribers.remove(subscriber)
        if entry.subscribers:
            return
        del self._entries[digest]
        for value in entry.anchors:
            under = self._under[value]
            del under[entry]
            if not under:
                del self._under[value]
        self._uses.subtract(_terms(entry.filter))

    def match(self, item: Item) -> list[str]:
        """Return the subscribers whose filters take an item, each once."""
        present, candidates = self._look_up(item)
        return [
            subscriber
            for entry in candidates
            if entry.test is None or _passes(entry.test, present)
            for subscriber in entry.subscribers
        ]

    def candidates(self, item: Item) -> int:
        """Count the filters that an item is compared with: what its match costs."""
        return len(self._look_up(item)[1])

    def _look_up(self, item: Item) -> tuple[Present, dict[_Entry, None]]:
        """Find the values that are in an item, and the filters that have an anchor there."""
        if self._missing:
            self._learn()
        facts = Facts(item)
        present = {*self._main.terms_of(facts.text), *self._new.terms_of(facts.text)}
        for kind, values in facts.sets.items():
            if values:
                sign = _SIGNS[kind]
                present.update(sign + value for value in values)
        candidates: dict[_Entry, None] = {}
        for value in present:
            if (entries := self._under.get(value)) is not None:
                candidates.update(entries)
        return present, candidates

    def _stand(self, wanted: Filter) -> _Entry:
        chosen = frozenset(map(_key, anchors(wanted.root, _frequency)))
        # As many anchors as leaves: plain alternatives, each of which is enough.
        is_plain = len(chosen) == sum(1 for _ in leaves(wanted.root))
        entry = _Entry(wanted, chosen, None if is_plain else _compiled(wanted.root), [])
        self._entries[wanted.digest] = entry
        for value in chosen:
            self._under.setdefault(value, {})[entry] = None
        terms = _terms(wanted)
        self._uses.update(terms)
        self._missing += terms - self._known
        self._known |= terms
        return entry

    def _learn(self) -> None:
        """Put terms that came since into the second automaton, or all of them into the first."""
        new = [*self._new.terms, *self._missing]
        if len(new) > max(FEW_TERMS, NEW_PART * len(self._main.terms)):
            # Terms that nobody has any more stay until now, and find nothing.
            self._uses += Counter()
            self._known = set(self._uses)
            self._main, new = _Automaton(sorted(self._known)), []
        self._new = _Automaton(new)
        self._missing = []


def _terms(wanted: Filter) -> set[str]:
    return {leaf.value for leaf in leaves(wanted.root) if leaf.kind is Kind.TERM}


def _key(leaf: Leaf) -> str:
    return _SIGNS[leaf.kind] + leaf.value


def _frequency(leaf: Leaf) -> float:
    """Estimate how often a value is found in items, by its length: rarer words are longer."""
    length = len(leaf.value)
    if not leaf.value.isascii():
        length += (_DENSE - 1) * sum(map(is_spaceless, leaf.value))
    return _RARER ** (length if leaf.kind is Kind.TERM else length + _NAMED)


def _compiled(node: Node) -> _Test:
    """Make the test that evaluates a filter, leaves of a group in one step."""
    op, members = (Op.AND, (node,)) if isinstance(node, Leaf) else (node.op, node.members)
    found = [one for one in members if isinstance(one, Leaf)]
    return _Test(
        op is Op.AND,
        frozenset(_key(one) for one in found if not one.excluded),
        frozenset(_key(one) for one in found if one.excluded),
        tuple(_compiled(one) for one in members if not isinstance(one, Leaf)),
    )


def _passes(test: _Test, present: Present) -> bool:
    """Tell whether an item that has these values passes a test."""
    is_all, wanted, unwanted, inner = test
    if is_all:
        if not (wanted <= present and unwanted.isdisjoint(present)):
            return False
    elif not (wanted.isdisjoint(present) and unwanted <= present):
        return True
    for one in inner:
        if _passes(one, present) is not is_all:
            return not is_all
    return is_all

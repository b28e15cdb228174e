"""Packing: the terms of a channel kind into rules, the rules into channels (SPEC.md D7).

A rule joins terms by `` OR ``, within so many characters, and so many terms where the channel kind
bounds them. Packing into the fewest rules is bin packing. Terms are short beside a rule, so first
fit alone needs fewer than ``total / (room - largest) + 1`` rules, and best fit by falling length
stays within 5 % of the least that there can be.

A change moves few terms: what stopped goes, what is new goes where it fits best, all else stays. A
rule cannot be changed at its source, but deleted and added, and so each one that is touched costs
two changes. Only when there are too many rules the emptiest is spread over the others.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

#: What stands between two terms of a rule.
BETWEEN: Final = " OR "
#: Rules beyond the least that there can be before terms are moved: this part of it, or one.
SLACK: Final = 0.05


class RuleLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of a channel kind. ``terms`` is 0 where their number is not bounded."""

    characters: int = 1_024
    terms: int = 0
    rules: int = 1_000


class Packing(msgspec.Struct, frozen=True):
    """Rules by number, each its terms; numbers of rules that are gone are not used again soon."""

    rules: dict[int, tuple[str, ...]]

    def text(self, number: int) -> str:
        """Return a rule as the channel has it."""
        return BETWEEN.join(self.rules[number])


NOTHING: Final = Packing({})


class Change(msgspec.Struct, frozen=True):
    """A soft reload: the rules to remove and to add. Others are not touched."""

    packing: Packing
    removed: tuple[int, ...]
    added: tuple[int, ...]
    #: Terms that are in another rule than they were.
    moved: int


def least(terms: Iterable[str], limits: RuleLimits) -> int:
    """Return a number of rules that no packing is below.

    >>> least(["a" * 100] * 11, RuleLimits())
    2
    """
    each = list(terms)
    room = limits.characters + len(BETWEEN)
    by_length = math.ceil(sum(map(_cost, each)) / room)
    by_count = math.ceil(len(each) / limits.terms) if limits.terms else 0
    # No two of more than half a rule are in one.
    large = sum(1 for term in each if 2 * _cost(term) > room)
    return max(by_length, by_count, large)


def repack(before: Packing, terms: Iterable[str], limits: RuleLimits) -> Change:
    """Pack terms, moving few of those that are packed already.

    Raises:
        ValueError: a term is longer than a rule.
    """
    wanted = dict.fromkeys(terms)
    for term in wanted:
        if len(term) > limits.characters:
            raise ValueError(f"a term of {len(term)} characters is longer than a rule")
    bins = _Bins(limits, after=max(before.rules, default=0))
    home: dict[str, int] = {}
    for number, packed in sorted(before.rules.items()):
        for term in packed:
            if term in wanted and term not in home and bins.fits(term, number):
                bins.put(term, number)
                home[term] = number
    bins.fill(term for term in wanted if term not in home)
    most = _most(wanted, limits)
    while len(bins.terms) > most and bins.spread_emptiest():
        pass
    if len(bins.terms) > most:
        anew = _Bins(limits, after=bins.last)
        anew.fill(wanted)
        if len(anew.terms) < len(bins.terms):
            bins = anew
    packing = Packing({number: tuple(sorted(each)) for number, each in sorted(bins.terms.items())})
    return _change(before, packing, home, bins.last)


def channels(rules: Iterable[int], before: Mapping[int, int], most_rules: int) -> dict[int, int]:
    """Return the channel of each rule, as few channels as possible; rules stay where they are.

    Rules leave the channel that has fewest when there is one too many.
    """
    each = sorted(rules)
    found = {rule: before[rule] for rule in each if rule in before}
    count = Counter(found.values())
    wanted = math.ceil(len(each) / most_rules)
    kept = sorted(count, key=lambda channel: (-count[channel], channel))[:wanted]
    free = (number for number in range(len(each) + wanted) if number not in kept)
    kept += [next(free) for _ in range(wanted - len(kept))]
    room = dict.fromkeys(kept, most_rules)
    for rule in each:
        if room.get(found.get(rule, -1), 0):
            room[found[rule]] -= 1
        else:
            found.pop(rule, None)
    for rule in each:
        if rule not in found:
            channel = next(one for one in kept if room[one])
            room[channel] -= 1
            found[rule] = channel
    return found


def _cost(term: str) -> int:
    return len(term) + len(BETWEEN)


def _most(terms: Iterable[str], limits: RuleLimits) -> int:
    fewest = least(terms, limits)
    return max(fewest + 1, math.floor(fewest * (1 + SLACK))) if fewest else 0


def _change(before: Packing, packing: Packing, home: Mapping[str, int], last: int) -> Change:
    """Number rules anew whose terms have changed: a channel deletes and adds them."""
    old = {number: frozenset(terms) for number, terms in before.rules.items()}
    rules: dict[int, tuple[str, ...]] = {}
    added, moved = [], 0
    for number, terms in packing.rules.items():
        moved += sum(1 for term in terms if home.get(term, number) != number)
        if old.get(number) == frozenset(terms):
            rules[number] = before.rules[number]
            continue
        last += 1
        rules[last] = terms
        added.append(last)
    removed = tuple(number for number in before.rules if number not in rules)
    return Change(Packing(rules), removed, tuple(added), moved)


class _Bins:
    """Rules that are being filled, by number."""

    def __init__(self, limits: RuleLimits, after: int = 0) -> None:
        self._most_terms = limits.terms or math.inf
        self._whole = limits.characters + len(BETWEEN)
        self.terms: dict[int, list[str]] = {}
        self._room: dict[int, int] = {}
        # Rules that may take a term, by the characters that they have left.
        self._open: list[set[int]] = [set() for _ in range(self._whole + 1)]
        self.last = after

    def fits(self, term: str, number: int) -> bool:
        """Tell whether a rule, which may be a new one, has room for a term."""
        room = self._room.get(number, self._whole)
        return room >= _cost(term) and len(self.terms.get(number, ())) < self._most_terms

    def put(self, term: str, number: int) -> None:
        """Put a term into a rule, which may be a new one."""
        self.terms.setdefault(number, []).append(term)
        self.last = max(self.last, number)
        self._make_room(number, -_cost(term))

    def _take(self, term: str, number: int) -> None:
        self.terms[number].remove(term)
        self._make_room(number, _cost(term))

    def _make_room(self, number: int, more: int) -> None:
        room = self._room.get(number, self._whole)
        self._open[room].discard(number)
        self._room[number] = room + more
        if len(self.terms[number]) < self._most_terms:
            self._open[room + more].add(number)

    def fill(self, terms: Iterable[str]) -> None:
        """Put terms where they leave the least room, long ones first; into new rules if need be."""
        for term in _long_first(terms):
            number = self._best(term)
            self.put(term, self.last + 1 if number is None else number)

    def spread_emptiest(self) -> bool:
        """Move the terms of the emptiest rule into others; have no effect if one does not fit."""
        emptiest = max(self.terms, key=lambda each: (self._room[each], each))
        moves: list[tuple[str, int]] = []
        for term in _long_first(self.terms[emptiest]):
            number = self._best(term, but=emptiest)
            if number is None:
                for moved, to in moves:
                    self._take(moved, to)
                return False
            self.put(term, number)
            moves.append((term, number))
        self._open[self._room.pop(emptiest)].discard(emptiest)
        del self.terms[emptiest]
        return True

    def _best(self, term: str, but: int | None = None) -> int | None:
        for room in range(_cost(term), self._whole + 1):
            if rules := self._open[room]:
                number = min((each for each in rules if each != but), default=None)
                if number is not None:
                    return number
        return None


def _long_first(terms: Iterable[str]) -> Sequence[str]:
    return sorted(terms, key=lambda term: (-len(term), term))

"""Filters: what a subscriber wants of a stream, as a value that is compared, merged and evaluated.

A filter is a tree of leaves (a term, a hashtag, an account, a language; each may be excluded) under
AND and OR. There is one canonical form: exclusions stand at leaves, groups of one kind are one
group, members are in order and once. Two filters that differ in order, repeats, parentheses or by
De Morgan's laws have the same canonical text and digest, which sources are named and placed by.
``parsing`` reads the language; ``text`` says what is compared with what.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from enum import StrEnum
from functools import reduce
from hashlib import blake2b
from typing import Final, TypeAlias

import msgspec

from crawlfleet.streams.text import fold, hashtags, mentions, occurrences

#: Words of the language that are terms only in quotes.
OPERATORS: Final = frozenset({"and", "or", "not"})
#: Characters that end a word of the language or have a meaning in it.
SPECIAL: Final = frozenset(' "()\\')


class Kind(StrEnum):
    """The kind of a leaf."""

    #: Whole words, one or several in a row.
    TERM = "term"
    HASHTAG = "hashtag"
    #: The item names this account.
    MENTION = "mention"
    #: The item is of this account.
    AUTHOR = "author"
    LANGUAGE = "language"


class Op(StrEnum):
    """The operator that joins the members of a group."""

    AND = "and"
    OR = "or"


class Leaf(msgspec.Struct, frozen=True, order=True):
    """A leaf of a filter; ``value`` is folded."""

    kind: Kind
    value: str
    excluded: bool = False


class Group(msgspec.Struct, frozen=True):
    """Two or more members that are joined by the same operator."""

    op: Op
    members: "tuple[Node, ...]"


Node: TypeAlias = Leaf | Group

_SIGNS: Final = {
    Kind.HASHTAG: "#",
    Kind.MENTION: "@",
    Kind.AUTHOR: "from:",
    Kind.LANGUAGE: "lang:",
}
_PREFIX: Final = re.compile(r"[-#@]|[^\W\d]\w*:")


class Filter:
    """A filter in its canonical form; equal ones have the same text and digest."""

    __slots__ = ("digest", "root", "text")

    def __init__(self, root: Node) -> None:
        self.root = canonical(root)
        self.text = written(self.root)
        #: 32 hexadecimal digits.
        self.digest = blake2b(self.text.encode(), digest_size=16).hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Filter) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"Filter({self.text!r})"

    def takes(self, item: "Item") -> bool:
        """Tell whether the filter takes an item."""
        facts = Facts(item)
        return holds(self.root, facts.has)


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """An item of a stream as filters see it.

    ``hashtags`` and ``mentions`` are those that the stream names beside the text, without ``#`` and
    ``@``; those in the text count too.
    """

    text: str
    author: str = ""
    language: str = ""
    hashtags: tuple[str, ...] = ()
    mentions: tuple[str, ...] = ()


class Facts:
    """An item, folded once for all filters."""

    __slots__ = ("sets", "text")

    def __init__(self, item: Item) -> None:
        self.text = fold(item.text)
        self.sets: dict[Kind, Collection[str]] = {
            Kind.HASHTAG: hashtags(self.text).union(map(fold, item.hashtags)),
            Kind.MENTION: mentions(self.text).union(map(fold, item.mentions)),
            Kind.AUTHOR: (fold(item.author),) if item.author else (),
            Kind.LANGUAGE: (fold(item.language),) if item.language else (),
        }

    def has(self, kind: Kind, value: str) -> bool:
        """Tell whether a leaf's value is in the item."""
        if kind is Kind.TERM:
            return next(occurrences(self.text, value), None) is not None
        return value in self.sets[kind]


def holds(node: Node, has: Callable[[Kind, str], bool]) -> bool:
    """Evaluate a filter over ``has``, which tells of a leaf's value whether it is there."""
    if isinstance(node, Leaf):
        return has(node.kind, node.value) is not node.excluded
    if node.op is Op.AND:
        return all(holds(member, has) for member in node.members)
    return any(holds(member, has) for member in node.members)


def leaves(node: Node) -> Iterator[Leaf]:
    """List the leaves of a filter in order."""
    if isinstance(node, Leaf):
        yield node
    else:
        for member in node.members:
            yield from leaves(member)


def excluded(node: Node) -> Node:
    """Return what takes exactly the items that ``node`` does not, by De Morgan's laws."""
    if isinstance(node, Leaf):
        return Leaf(node.kind, node.value, not node.excluded)
    op = Op.OR if node.op is Op.AND else Op.AND
    return Group(op, tuple(excluded(member) for member in node.members))


def canonical(node: Node) -> Node:
    """Return the canonical form of a filter.

    >>> a, b = Leaf(Kind.TERM, "a"), Leaf(Kind.TERM, "b")
    >>> canonical(Group(Op.AND, (b, Group(Op.AND, (a, b))))) == Group(Op.AND, (a, b))
    True
    """
    if isinstance(node, Leaf):
        return node
    members: dict[str, Node] = {}
    for member in map(canonical, node.members):
        flat = member.members if isinstance(member, Group) and member.op is node.op else (member,)
        members.update((written(one), one) for one in flat)
    in_order = tuple(members[text] for text in sorted(members))
    return in_order[0] if len(in_order) == 1 else Group(node.op, in_order)


def written(node: Node) -> str:
    """Write a filter in its language; AND binds more than OR, so it needs no parentheses."""
    if isinstance(node, Leaf):
        return f"{'-' if node.excluded else ''}{_value(node)}"
    if node.op is Op.OR:
        return " OR ".join(map(written, node.members))
    return " ".join(
        f"({written(one)})" if isinstance(one, Group) else written(one) for one in node.members
    )


def _value(leaf: Leaf) -> str:
    if leaf.kind is not Kind.TERM:
        return f"{_SIGNS[leaf.kind]}{leaf.value}"
    value = leaf.value
    if SPECIAL & set(value) or value in OPERATORS or is_marked(value):
        quoted = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{quoted}"'
    return value


def is_marked(word: str) -> bool:
    """Tell whether a word begins as an exclusion, a hashtag, an account or ``name:`` does.

    >>> is_marked("#cop31"), is_marked("re:invent"), is_marked("c++")
    (True, True, False)
    """
    return _PREFIX.match(word) is not None


def covers(wide: Filter, narrow: Filter) -> bool:
    """Tell whether ``wide`` takes every item that ``narrow`` takes; False where that is not seen.

    True is certain. Whether one filter is covered by another is co-NP-complete, so the trees are
    compared member by member: it is found where each alternative of the narrow one is within one
    alternative of the wide one. Cost: at most the product of their numbers of leaves.
    """
    return wide.text == narrow.text or _covers(wide.root, narrow.root, {})


def _covers(wide: Node, narrow: Node, known: dict[tuple[int, int], bool]) -> bool:
    pair = id(wide), id(narrow)
    if pair not in known:
        known[pair] = _compare(wide, narrow, known)
    return known[pair]


def _compare(wide: Node, narrow: Node, known: dict[tuple[int, int], bool]) -> bool:
    if isinstance(narrow, Group) and narrow.op is Op.OR:
        return all(_covers(wide, one, known) for one in narrow.members)
    if isinstance(wide, Group) and wide.op is Op.AND:
        return all(_covers(one, narrow, known) for one in wide.members)
    if isinstance(wide, Leaf) and isinstance(narrow, Leaf):
        return _leaf_covers(wide, narrow)
    # The wide one is a leaf or alternatives, the narrow one a leaf or requirements.
    if isinstance(wide, Group) and any(_covers(one, narrow, known) for one in wide.members):
        return True
    return isinstance(narrow, Group) and any(_covers(wide, one, known) for one in narrow.members)


def _leaf_covers(wide: Leaf, narrow: Leaf) -> bool:
    if wide.kind is not narrow.kind or wide.excluded is not narrow.excluded:
        return False
    if wide.excluded:
        wide, narrow = narrow, wide
    if wide.kind is Kind.TERM:
        return next(occurrences(narrow.value, wide.value), None) is not None
    return wide.value == narrow.value


def is_anchored(node: Node) -> bool:
    """Tell whether no item is taken without a term, hashtag or account of the filter.

    What is not anchored takes nearly everything, and cannot be looked up by what an item has.
    """
    if isinstance(node, Leaf):
        return not node.excluded and node.kind is not Kind.LANGUAGE
    each = map(is_anchored, node.members)
    return any(each) if node.op is Op.AND else all(each)


def anchors(node: Node, weight: Callable[[Leaf], float]) -> frozenset[Leaf]:
    """Choose leaves of which one at least is in every item that the filter takes, the lightest.

    Of requirements the one whose anchors weigh least stands for all; of alternatives all are
    needed. The filter must be anchored.
    """
    if isinstance(node, Leaf):
        return frozenset((node,))
    if node.op is Op.OR:
        return _union(anchors(member, weight) for member in node.members)
    found = [anchors(member, weight) for member in node.members if is_anchored(member)]
    return min(found, key=lambda each: sum(map(weight, each)))


def _union(sets: Iterable[frozenset[Leaf]]) -> frozenset[Leaf]:
    return reduce(frozenset.union, sets, frozenset())


def contradiction(node: Node) -> Leaf | None:
    """Find a leaf by which requirements can never be met together; None where none is seen.

    >>> a = Leaf(Kind.TERM, "a")
    >>> contradiction(Group(Op.AND, (a, excluded(a))))
    Leaf(kind=<Kind.TERM: 'term'>, value='a', excluded=True)
    """
    if isinstance(node, Leaf):
        return None
    if node.op is Op.AND:
        single = [member for member in node.members if isinstance(member, Leaf)]
        wanted = [one for one in single if not one.excluded]
        for one in single:
            if one.excluded and any(_leaf_covers(Leaf(one.kind, one.value), two) for two in wanted):
                return one
        only = [one for one in wanted if one.kind in {Kind.LANGUAGE, Kind.AUTHOR}]
        for one in only:
            if any(two.kind is one.kind and two.value < one.value for two in only):
                return one
    return next((found for one in node.members if (found := contradiction(one))), None)

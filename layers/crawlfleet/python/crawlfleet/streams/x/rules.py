"""Rules of X's filtered stream: what all filters of a channel need, in as few as possible.

Filters are taken apart into their alternatives. Alternatives that another one covers need no words
of their own, and those that are left are packed into rules, so that the stream sends what the
filters take and nothing else. What stands at X is the only state: a rule of ours has a tag that
says so, and what it is made of is read from its text. Rules of others are left alone, and use up
the plan's number all the same.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from crawlfleet.kernel.errors import InvalidRequestError
from crawlfleet.streams.filters import Filter, Group, Kind, Leaf, Node, Op, contradiction
from crawlfleet.streams.packing import BETWEEN, Packing, RuleLimits, repack
from crawlfleet.streams.sources import Subscription, needed

#: Alternatives that a filter may be taken apart into.
MOST_CLAUSES: Final = 200
#: Begins the tags of our rules; their number follows.
TAG: Final = "crawlfleet "
_TAGGED: Final = re.compile(r"crawlfleet ([1-9][0-9]{0,8})\Z")
#: Words that stand without quotes; anything else X might read as an operator, or take apart.
_PLAIN: Final = re.compile(r"[^\W_]+\Z")
_OPERATORS: Final = frozenset({"and", "or"})
_SIGNS: Final = {
    Kind.HASHTAG: "#",
    Kind.MENTION: "@",
    Kind.AUTHOR: "from:",
    Kind.LANGUAGE: "lang:",
}


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """A rule as X has it."""

    id: str
    value: str
    tag: str = ""


class RuleChange(msgspec.Struct, frozen=True, kw_only=True):
    """A soft reload at X: the rules to add, as value and tag, and the ids of those to delete.

    ``deletes_first`` is true where there is no room for both at once. ``missing`` counts rules that
    the plan has no room for: what they would bring does not come.
    """

    add: tuple[tuple[str, str], ...] = ()
    delete: tuple[str, ...] = ()
    deletes_first: bool = False
    missing: int = 0

    def __bool__(self) -> bool:
        """Tell whether there is anything to change."""
        return bool(self.add or self.delete)


def change(standing: Sequence[Rule], clauses: Iterable[str], limits: RuleLimits) -> RuleChange:
    """Return what makes the rules that stand at X bring all that is wanted, and no more.

    Few rules are touched: a clause stays in its rule while that is there. A rule of ours that is
    there twice, or whose text is not ours, is deleted.

    >>> limits = RuleLimits(characters=20)
    >>> change([], ["storm", "flood"], limits).add[0][0]
    'flood OR storm'
    >>> now = [Rule(id="7", value="flood OR storm", tag="crawlfleet 1"), Rule(id="8", value="cats")]
    >>> change(now, ["storm"], limits)
    RuleChange(add=(('storm', 'crawlfleet 2'),), delete=('7',), deletes_first=False, missing=0)
    """
    ours: dict[int, Rule] = {}
    unfit: list[Rule] = []
    for rule in standing:
        tagged = _TAGGED.match(rule.tag)
        if tagged is None:
            continue
        if ours.setdefault(int(tagged[1]), rule) is not rule:
            unfit.append(rule)
    before = Packing({number: tuple(parts(rule.value)) for number, rule in ours.items()})
    after = repack(before, clauses, limits)
    room = limits.rules - (len(standing) - len(ours) - len(unfit))
    kept = len(after.packing.rules) - len(after.added)
    added = after.added[: max(0, room - kept)]
    return RuleChange(
        add=tuple((after.packing.text(number), f"{TAG}{number}") for number in added),
        delete=tuple(one.id for one in (*unfit, *(ours[number] for number in after.removed))),
        deletes_first=len(standing) + len(added) > limits.rules,
        missing=len(after.added) - len(added),
    )


class Wanted(NamedTuple):
    """The clauses that bring what filters take, and the filters that no rules can bring."""

    clauses: list[str]
    unfit: list[str]


def wanted(filters: Mapping[str, Filter], limits: RuleLimits) -> Wanted:
    """Return the clauses that bring what these filters take, by whomever they are.

    >>> from crawlfleet.streams.parsing import parse
    >>> two = {"a": parse("storm OR (flood lang:de)"), "b": parse('"big storm" OR flood')}
    >>> wanted(two, RuleLimits())
    Wanted(clauses=['flood', 'storm'], unfit=[])
    """
    alternatives: list[Subscription] = []
    unfit: list[str] = []
    for one, each in filters.items():
        try:
            found = clauses(each, limits)
        except InvalidRequestError:
            unfit.append(one)
            continue
        alternatives += (
            Subscription(id=f"{one}\n{number}", channel="", filter=Filter(node))
            for number, node in enumerate(found)
        )
    merged = needed(alternatives).filters.values()
    return Wanted(sorted(written(one.root) for one in merged), unfit)


def clauses(one: Filter, limits: RuleLimits) -> list[Node]:
    """Take a filter apart into alternatives, each of which fits into a rule.

    Raises:
        InvalidRequestError: one requirement alone is longer than a rule, or there are too many.
    """
    left, found = [one.root], []
    while left:
        node = left.pop()
        if isinstance(node, Group) and node.op is Op.OR:
            left += node.members
        elif contradiction(node) is not None:
            continue  # it brings nothing
        elif len(written(node)) <= limits.characters:
            found.append(node)
        else:
            left += _apart(node, limits)
        if len(left) + len(found) > MOST_CLAUSES:
            many = (
                f"has more than {MOST_CLAUSES} alternatives for rules of "
                f"{limits.characters} characters; make two subscriptions of it"
            )
            raise InvalidRequestError.of("filter", many)
    return found


def _apart(node: Node, limits: RuleLimits) -> list[Node]:
    """Write requirements of which one is alternatives as alternatives of requirements."""
    members = node.members if isinstance(node, Group) else ()
    groups = [one for one in members if isinstance(one, Group)]
    if not groups:
        long = (
            f"{written(node)[:60]}... is longer than a rule of {limits.characters} "
            "characters; leave out requirements"
        )
        raise InvalidRequestError.of("filter", long)
    longest = max(groups, key=lambda one: len(written(one)))
    others = tuple(one for one in members if one is not longest)
    return [Filter(Group(Op.AND, (*others, one))).root for one in longest.members]


def written(node: Node) -> str:
    """Write a part of a filter in X's language.

    >>> from crawlfleet.streams.parsing import parse
    >>> written(parse('climate ("green deal" OR #cop31) -"c++" from:reuters lang:en').root)
    '("green deal" OR #cop31) -"c++" climate from:reuters lang:en'
    """
    if isinstance(node, Leaf):
        return f"{'-' if node.excluded else ''}{_value(node)}"
    if node.op is Op.OR:
        return BETWEEN.join(map(written, node.members))
    return " ".join(
        f"({written(one)})" if isinstance(one, Group) else written(one) for one in node.members
    )


def _value(leaf: Leaf) -> str:
    if leaf.kind is not Kind.TERM:
        return f"{_SIGNS[leaf.kind]}{leaf.value}"
    if _PLAIN.match(leaf.value) and leaf.value not in _OPERATORS:
        return leaf.value
    quoted = leaf.value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{quoted}"'


def parts(value: str) -> list[str]:
    r"""Return the clauses of a rule's text.

    >>> parts('flood OR "one OR two" (a OR b) OR "\\" OR "')
    ['flood', '"one OR two" (a OR b)', '"\\" OR "']
    """
    found, depth, start, place, is_quoted = [], 0, 0, 0, False
    while place < len(value):
        sign = value[place]
        if is_quoted:
            place += sign == "\\"
            is_quoted = sign != '"'
        elif sign == '"':
            is_quoted = True
        elif not depth and value.startswith(BETWEEN, place):
            found.append(value[start:place])
            place += len(BETWEEN)
            start = place
            continue
        else:
            depth += (sign == "(") - (sign == ")")
        place += 1
    return [*found, value[start:]]

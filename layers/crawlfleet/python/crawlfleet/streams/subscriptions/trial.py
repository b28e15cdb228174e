"""Try a filter on saved items: which it takes, by which terms, and what the others lack."""

from collections.abc import Callable, Sequence
from typing import Annotated, Final, NamedTuple

import msgspec
from msgspec import Meta

from crawlfleet.kernel.errors import InvalidRequestError
from crawlfleet.streams.filters import Facts, Filter, Item, Kind, Leaf, Node, Op, written

#: Items of one trial, and the characters that their texts have together.
MOST_ITEMS: Final = 1_000
MOST_CHARACTERS: Final = 300_000
Name = Annotated[str, Meta(max_length=200)]
Names = Annotated[tuple[Name, ...], Meta(max_length=100)]


class SavedItem(msgspec.Struct, frozen=True, kw_only=True):
    """An item as it was saved, as far as filters see it; whatever else it has is left unread.

    ``hashtags`` and ``mentions`` are those that the stream names beside the text; those in the text
    count too. ``id`` comes back with the answer.
    """

    text: Annotated[str, Meta(max_length=100_000)]
    id: Name = ""
    author: Name = ""
    language: Annotated[str, Meta(max_length=40)] = ""
    hashtags: Names = ()
    mentions: Names = ()


class TriedItem(msgspec.Struct, frozen=True, kw_only=True):
    """The fate of an item; the terms are written as a filter has them.

    ``found`` are the terms that it is taken by. Of one that is not taken they are those of the
    alternative that came closest, ``missing`` is what that lacks, and ``excluded_by`` what it must
    not have.
    """

    id: str
    taken: bool
    found: tuple[str, ...]
    missing: tuple[str, ...]
    excluded_by: tuple[str, ...]


def tried(wanted: Filter, items: Sequence[SavedItem], field: str = "items") -> list[TriedItem]:
    """Try a filter on items, each by itself.

    Raises:
        InvalidRequestError: their texts are longer than what a trial takes.
    """
    length = sum(len(item.text) for item in items)
    if length > MOST_CHARACTERS:
        wrong = f"have texts of {length:,} characters; the most are {MOST_CHARACTERS:,}"
        raise InvalidRequestError.of(field, wrong)
    return [_tried(wanted, item) for item in items]


def _tried(wanted: Filter, item: SavedItem) -> TriedItem:
    facts = Facts(
        Item(
            text=item.text,
            author=item.author,
            language=item.language,
            hashtags=item.hashtags,
            mentions=item.mentions,
        )
    )
    closest = _closest(wanted.root, facts.has)
    return TriedItem(
        id=item.id,
        taken=not closest.lacks,
        found=tuple(map(written, closest.found)),
        missing=tuple(written(one) for one in closest.lacks if not one.excluded),
        excluded_by=tuple(written(one) for one in closest.lacks if one.excluded),
    )


class _Closest(NamedTuple):
    """The leaves of the alternatives that came closest: those that are met, and those that not."""

    found: tuple[Leaf, ...] = ()
    lacks: tuple[Leaf, ...] = ()


def _closest(node: Node, has: Callable[[Kind, str], bool]) -> _Closest:
    if isinstance(node, Leaf):
        if has(node.kind, node.value) is node.excluded:
            return _Closest(lacks=(node,))
        # That something excluded is not there is no reason to take an item.
        return _Closest() if node.excluded else _Closest(found=(node,))
    each = [_closest(member, has) for member in node.members]
    if node.op is Op.OR:
        return min(each, key=lambda one: (len(one.lacks), -len(one.found)))
    return _Closest(
        tuple(leaf for one in each for leaf in one.found),
        tuple(leaf for one in each for leaf in one.lacks),
    )

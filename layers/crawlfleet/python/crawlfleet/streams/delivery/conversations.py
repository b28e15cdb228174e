"""Conversations: trees of items that reply to each other, made when they are read; pure.

Items are linked by their ids, whichever came first: a parent that is not there has a placeholder
under its id, which it fills when it comes. A link that would close a circle is refused, and the
item stands under the root instead (after JWZ's algorithm). Depth and size are bounded.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from crawlfleet.streams.items import StreamItem

#: Levels of a tree; what is deeper stands beside what it replies to.
MOST_LEVELS: Final = 50
#: Items of a tree.
MOST_TURNS: Final = 500


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """An item of a conversation and what replies to it; ``item`` is None of a placeholder.

    ``is_cut_off`` says that it stands elsewhere than its channel says: its link would close a
    circle, or it is too deep.
    """

    id: str
    item: StreamItem | None = None
    replies: tuple["Turn", ...] = ()
    is_cut_off: bool = False


def tree_of(root: str, items: Iterable[StreamItem]) -> Turn:
    """Link items under the root, by when they were published; repeats are dropped.

    What replies to an item that is not among them stands below a placeholder; what replies to
    nothing, but is of the conversation, stands below the root.
    """
    known: dict[str, StreamItem] = {}
    for item in sorted(items, key=lambda one: (one.published_at or one.received_at, one.id)):
        if item.id in known or len(known) < MOST_TURNS:
            known.setdefault(item.id, item)
    above: dict[str, str] = {}
    for item in known.values():
        if item.id != root:
            above[item.id] = item.replies_to if item.replies_to not in {"", item.id} else root
    for missing in set(above.values()) - known.keys() - {root}:
        above[missing] = root
    cut_off = _broken(above, root)
    below: dict[str, list[str]] = {}
    for id_ in [*(one for one in above if one not in known), *known]:
        if id_ in above:
            below.setdefault(above[id_], []).append(id_)
    return _turn(root, known, below, cut_off)


def _broken(above: dict[str, str], root: str) -> set[str]:
    """Break circles, and what is too deep, by standing items under another one; return these."""
    depths = {root: 0}
    cut_off: set[str] = set()
    for id_ in list(above):
        path: list[str] = []
        on_path: set[str] = set()
        at = id_
        while at not in depths:
            if at in on_path:  # the last step closes a circle
                above[path[-1]] = root
                cut_off.add(path[-1])
                at = root
                break
            path.append(at)
            on_path.add(at)
            at = above[at]
        for one in reversed(path):
            if depths[above[one]] >= MOST_LEVELS:
                above[one] = above[above[one]]
                cut_off.add(one)
            depths[one] = depths[above[one]] + 1
    return cut_off


def _turn(
    id_: str, known: dict[str, StreamItem], below: dict[str, list[str]], cut_off: set[str]
) -> Turn:
    return Turn(
        id=id_,
        item=known.get(id_),
        replies=tuple(_turn(one, known, below, cut_off) for one in below.get(id_, ())),
        is_cut_off=id_ in cut_off,
    )

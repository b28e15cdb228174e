"""Fit a table to a width: long texts are shortened, what matters least is left out whole."""

from collections.abc import Collection, Iterator, Sequence
from typing import Final, NamedTuple

#: Signs between two columns.
GAP: Final = 3
#: Signs that a shortened column keeps, and one whose texts go on in the next line.
LEAST: Final = 8
_LEAST_FOLDED: Final = 16
#: Columns of longer texts alone are made narrower: a time or a state in two lines is hard to read.
_SHORT: Final = 24
#: Columns of what is copied into the next command: shown as they are.
WHOLE: Final = frozenset({"id", "request", "job", "name", "worker"})


class Fit(NamedTuple):
    """Places of the columns that are shown, with their widths, and the names of the others."""

    widths: dict[int, int]
    left_out: list[str]

    @property
    def width(self) -> int:
        """Return the width of all of them."""
        return sum(self.widths.values()) + GAP * (len(self.widths) - 1)


def fit(
    columns: Sequence[str],
    cells: Sequence[Sequence[str]],
    width: int,
    *,
    cut: Collection[str] = (),
    least: Sequence[str] = (),
) -> Fit:
    """Choose the columns that have room in a width, and how wide each is.

    Columns to ``cut`` may be narrower than others, and stay longer. Those that matter ``least`` go
    first, in this order, then others from the right; the first one stays, and what is copied stays.

    >>> fit(["id", "at", "url"], [["12345", "10:30", "https://a.example/1"]], 21, cut=["url"])
    Fit(widths={0: 5, 2: 13}, left_out=['at'])
    """
    titles = [column.removesuffix(">") for column in columns]
    longest = [
        max(len(title), *(len(row[at]) for row in cells), 0) for at, title in enumerate(titles)
    ]
    narrowest = [
        _narrowest(title, size, column in cut)
        for title, column, size in zip(titles, columns, longest, strict=True)
    ]
    shown = list(range(len(columns)))
    for at in _going(columns, titles, cut, least):
        if _total(narrowest, shown) <= width:
            break
        shown.remove(at)
    return Fit(
        _spread(longest, narrowest, shown, width),
        [title for at, title in enumerate(titles) if at not in shown],
    )


def shortened(text: str, size: int) -> str:
    """Cut a text, with a sign for what is cut.

    >>> shortened("a long title", 7)
    'a long…'
    """
    return text if len(text) <= size else text[: size - 1] + "\N{HORIZONTAL ELLIPSIS}"


def _narrowest(title: str, longest: int, is_cut: bool) -> int:
    if title in WHOLE or (longest <= _SHORT and not is_cut):
        return longest
    return min(longest, max(len(title), LEAST if is_cut else _LEAST_FOLDED))


def _going(
    columns: Sequence[str], titles: Sequence[str], cut: Collection[str], least: Sequence[str]
) -> Iterator[int]:
    """Yield the columns that may be left out, the first to go first; of two none."""
    if len(titles) < 3:
        return
    yield from (titles.index(name) for name in least if name in titles)
    others = [
        at
        for at in range(len(titles) - 1, 0, -1)
        if titles[at] not in WHOLE and titles[at] not in least
    ]
    yield from sorted(others, key=lambda at: columns[at] in cut)


def _total(sizes: Sequence[int], shown: Sequence[int]) -> int:
    return sum(sizes[at] for at in shown) + GAP * (len(shown) - 1)


def _spread(
    longest: Sequence[int], narrowest: Sequence[int], shown: Sequence[int], width: int
) -> dict[int, int]:
    """Give what room there is to the columns; what one does not need is for the others."""
    widths = {at: narrowest[at] for at in shown}
    room = width - _total(narrowest, shown)
    wanting = sorted(shown, key=lambda at: longest[at] - narrowest[at])
    for number, at in enumerate(wanting):
        more = min(longest[at] - narrowest[at], max(0, room) // (len(wanting) - number))
        widths[at] += more
        room -= more
    return widths

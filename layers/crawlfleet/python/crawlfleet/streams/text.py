"""Folded text and the boundaries of words in it: what a filter's terms are compared with.

Folding (`fold`): Unicode's NFKC, so that full-width, ligature and compatibility forms are one; full
case folding (``STRASSE`` is ``straße``); curly quotes and long dashes are the plain ones; invisible
characters (soft hyphens, joiners, marks of direction, variation selectors) go; any run of white
space is one space. Accents count: ``resume`` is not ``résumé``.

Boundaries (`is_whole`): a term is found where it is no part of a longer word.
- Letters, digits, marks and ``_`` are parts of words. A term may be at the side of anything else.
- Scripts that put no space between words have no boundaries that can be told without a dictionary:
  beside Han, Kana, Thai, Lao, Khmer and Burmese letters a term counts as whole, so ``酷`` is found
  in ``残酷``.
- Korean puts particles behind words: a term that ends in Hangul may go on behind, not before.
- A letter is never taken apart from the marks that are on it.
"""

import re
import unicodedata
from collections.abc import Iterator
from itertools import takewhile
from typing import Final

_MENTION: Final = re.compile(r"(?<![\w@.-])@(\w+(?:[.-]\w+)*)")

_INVISIBLE: Final = [
    *(0x00AD, 0x034F, 0x061C, 0x180E, 0xFEFF),
    *range(0x200C, 0x2010),
    *range(0x202A, 0x202F),
    *range(0x2060, 0x2070),
    *range(0xFE00, 0xFE10),
    *range(0xE0100, 0xE01F0),
]
_PLAIN: Final[dict[int, str | None]] = {
    **dict.fromkeys(_INVISIBLE),
    0x200B: " ",  # a space of no width, between words
    **dict.fromkeys((0x2018, 0x2019, 0x201B, 0x02BC), "'"),
    **dict.fromkeys((0x201C, 0x201D, 0x201F), '"'),
    **dict.fromkeys(range(0x2010, 0x2016), "-"),
}
#: Letters beside which a word may begin or end: no space stands between words of these scripts.
_SPACELESS: Final = re.compile(
    "[\u0e00-\u0e7f\u0e80-\u0eff\u1000-\u109f\u1780-\u17ff\u19e0-\u19ff\u2e80-\u2fdf\u3005-\u3007"
    "\u3021-\u3029\u3031-\u3035\u3038-\u303c\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\ua9e0-\ua9ff\uaa60-\uaa7f\uf900-\ufaff\U0001b000-\U0001b16f\U00020000-\U0003ffff]"
)
_HANGUL: Final = re.compile("[\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\uac00-\ud7ff]")


def fold(text: str) -> str:
    r"""Fold a text: what people take for the same is the same; folding twice changes nothing.

    >>> fold("  The GREEN\nDeal\u2019s  Straße ")
    "the green deal's strasse"
    """
    if text.isascii():
        folded = text.lower()
    else:
        folded = text.translate(_PLAIN)
        # Case folding may undo the composition, and that may bring letters that have a case.
        while (again := unicodedata.normalize("NFKC", folded.casefold()).translate(_PLAIN)) != (
            folded
        ):
            folded = again
    return " ".join(folded.split())


def is_part_of_a_word(character: str) -> bool:
    """Tell whether a character is a letter, a digit, a mark on one, or ``_``.

    >>> [one for one in "aé5_酷-# " if is_part_of_a_word(one)]
    ['a', 'é', '5', '_', '酷']
    """
    return character.isalnum() or character == "_" or _is_mark(character)


def _is_mark(character: str) -> bool:
    return not character.isascii() and unicodedata.category(character)[0] == "M"


def is_spaceless(character: str) -> bool:
    """Tell whether a character is of a script that puts no space between words."""
    return _SPACELESS.match(character) is not None


def is_whole(text: str, start: int, end: int) -> bool:
    """Tell whether the characters from ``start`` to ``end`` of a folded text are whole words.

    >>> is_whole("a green deal", 2, 7), is_whole("evergreen", 4, 9), is_whole("残酷", 1, 2)
    (True, False, True)
    """
    if end < len(text):
        after, last = text[end], text[end - 1]
        if _is_mark(after):
            return False
        if is_part_of_a_word(after) and is_part_of_a_word(last):
            is_free = _SPACELESS.match(after) or _SPACELESS.match(last) or _HANGUL.match(last)
            if not is_free:
                return False
    if start > 0:
        before, first = text[start - 1], text[start]
        if is_part_of_a_word(before) and is_part_of_a_word(first):
            return bool(_SPACELESS.match(before) or _SPACELESS.match(first))
    return True


def occurrences(text: str, term: str) -> Iterator[int]:
    """Find where a folded term begins as whole words in a folded text.

    >>> list(occurrences("deal or no deal, dealer", "deal"))
    [0, 11]
    """
    start = text.find(term)
    while start >= 0:
        if is_whole(text, start, start + len(term)):
            yield start
        start = text.find(term, start + 1)


def hashtags(text: str) -> set[str]:
    """Find the hashtags of a folded text, without their sign.

    >>> sorted(hashtags("#cop31 and #東京都, not a#b"))
    ['cop31', '東京都']
    """
    found: set[str] = set()
    is_behind_a_word = False
    for place, part in enumerate(text.split("#") if "#" in text else ()):
        tag = "".join(takewhile(is_part_of_a_word, part))
        if place and tag and not is_behind_a_word:
            found.add(tag)
        is_behind_a_word = is_part_of_a_word(part[-1:] or "#")
    return found


def mentions(text: str) -> set[str]:
    """Find the accounts that a folded text names by ``@``, without that; no part of an e-mail.

    >>> sorted(mentions("@ann and @bob.example, me@mail.example"))
    ['ann', 'bob.example']
    """
    return set(_MENTION.findall(text)) if "@" in text else set()

r"""The language of filters: reads one line, and says in which column what is wrong.

::

    climate ("green deal" OR #cop31) -sport from:reuters lang:en

- ``climate``: the word. ``"green deal"``: these words in a row; quotes also make a term of what has
  another meaning, and ``\"`` and ``\\`` are a quote and a backslash in them.
- ``#cop31``: the hashtag. ``@reuters``: the item names the account. ``from:reuters``: it is of it.
  ``lang:en``: the language that the stream says it has.
- What stands side by side must all be there (``AND`` may be written). ``OR`` joins alternatives,
  and binds less. ``-`` or ``NOT`` excludes a leaf or what is in parentheses.

A filter must be anchored: each alternative has a term, hashtag or account that must be there.
"""

import re
from typing import Final

from crawlfleet.kernel.errors import InvalidRequestError
from crawlfleet.streams import filters
from crawlfleet.streams.filters import Filter, Group, Kind, Leaf, Node, Op
from crawlfleet.streams.text import fold, hashtags, mentions

#: Bounds of a filter: characters, leaves, parentheses and exclusions within each other, and
#: characters of a term.
MOST_CHARACTERS: Final = 4_096
MOST_TERMS: Final = 200
MOST_DEPTH: Final = 8
MOST_TERM_CHARACTERS: Final = 100

_QUOTES: Final = '"\u201c\u201d\u201e'
_WORD: Final = re.compile(rf"[^\s(){_QUOTES}]+")
_LANGUAGE: Final = re.compile(r"[a-z]{2,3}(-[a-z0-9]{2,8})*")
_PLAIN_PUNCTUATION: Final = re.compile(r"[\s!-/:-@\[-`{-~]*")
_OPERATORS: Final = {"AND": "AND", "OR": "OR", "NOT": "-"}
_LONGEST_QUOTED: Final = 40


def parse(text: str, field: str = "filter") -> Filter:
    """Read a filter.

    >>> parse('climate ("Green  Deal" OR #COP31) -sport AND climate').text
    '("green deal" OR #cop31) -sport climate'

    Raises:
        InvalidRequestError: it is none; the message begins with the column.
    """
    return _Parser(text, field).read()


class _Parser:
    def __init__(self, text: str, field: str) -> None:
        self._text = text
        self._field = field
        self._place = 0
        self._terms = 0

    def read(self) -> Filter:
        if len(self._text) > MOST_CHARACTERS:
            wrong = f"has {len(self._text):,} characters; the most are {MOST_CHARACTERS:,}"
            raise InvalidRequestError.of(self._field, wrong)
        for place, character in enumerate(self._text):
            if "\ud800" <= character <= "\udfff" or character == "\0":
                raise self._wrong(place, "half of a character, or none, stands here")
        root = self._alternatives(0)
        if self._next() == ")":
            raise self._wrong(self._place, "this parenthesis was never opened")
        found = Filter(root)
        if (leaf := filters.contradiction(found.root)) is not None:
            wrong = f"takes nothing: {filters.written(leaf)} excludes what is required beside it"
            raise InvalidRequestError.of(self._field, wrong)
        if not filters.is_anchored(found.root):
            wrong = "each alternative needs a term, hashtag or account that is not excluded"
            raise InvalidRequestError.of(self._field, wrong)
        return found

    def _wrong(self, place: int, message: str) -> InvalidRequestError:
        return InvalidRequestError.of(self._field, f"column {place + 1}: {message}")

    def _next(self) -> str:
        """Return what comes next: a sign, an operator, a word, or nothing; stay before it."""
        while self._place < len(self._text) and self._text[self._place].isspace():
            self._place += 1
        character = self._text[self._place : self._place + 1]
        if not character or character in "()" or character in _QUOTES:
            return character
        if character == "-":
            return "-"
        found = _WORD.match(self._text, self._place)
        word = found[0] if found is not None else ""
        return _OPERATORS.get(word, word)

    def _alternatives(self, depth: int) -> Node:
        members = [self._requirements(depth)]
        while self._next() == "OR":
            self._place += 2
            members.append(self._requirements(depth))
        return members[0] if len(members) == 1 else Group(Op.OR, tuple(members))

    def _requirements(self, depth: int) -> Node:
        members = [self._one(depth)]
        while (sign := self._next()) not in {"", ")", "OR"}:
            if sign == "AND":
                self._place += 3
            members.append(self._one(depth))
        return members[0] if len(members) == 1 else Group(Op.AND, tuple(members))

    def _one(self, depth: int) -> Node:
        sign, start = self._next(), self._place
        if depth > MOST_DEPTH:
            wrong = f"nested more than {MOST_DEPTH} deep"
            raise self._wrong(start, wrong)
        if sign in {"", ")", "AND", "OR"}:
            found = {"": "the filter ends", ")": "a parenthesis ends"}.get(sign, sign)
            raise self._wrong(start, f"a term is expected, and {found} here")
        if sign == "-":
            self._place += 1 if self._text[start] == "-" else 3
            if self._text[start] == "-" and self._text[self._place : self._place + 1].isspace():
                raise self._wrong(start, '"-" stands directly before what it excludes')
            return filters.excluded(self._one(depth + 1))
        if sign == "(":
            self._place += 1
            inside = self._alternatives(depth + 1)
            if self._next() != ")":
                raise self._wrong(start, "this parenthesis is never closed")
            self._place += 1
            return inside
        self._terms += 1
        if self._terms > MOST_TERMS:
            raise self._wrong(start, f"more than {MOST_TERMS} terms")
        if sign in _QUOTES:
            return self._term(start, self._quoted())
        self._place += len(sign)
        return self._leaf(start, sign)

    def _quoted(self) -> str:
        start, found = self._place, ""
        self._place += 1
        while self._place < len(self._text):
            character = self._text[self._place]
            self._place += 1
            if character in _QUOTES:
                return found
            if character == "\\":
                character = self._text[self._place : self._place + 1]
                if character not in {"\\", '"'}:
                    raise self._wrong(self._place - 1, r'in quotes "\" stands before " or \ alone')
                self._place += 1
            found += character
        raise self._wrong(start, "this quote is never closed")

    def _leaf(self, start: int, word: str) -> Leaf:
        folded = fold(word)
        shown = word[:_LONGEST_QUOTED]
        if folded in filters.OPERATORS:
            wrong = f'write {folded.upper()} in capitals, or "{folded}" in quotes for the word'
            raise self._wrong(start, wrong)
        if not filters.is_marked(folded):
            return self._term(start, word)
        value = folded[1:]
        if folded[0] == "#":
            if hashtags(folded) != {value}:
                raise self._wrong(start, f"{shown} is no hashtag: # and letters, digits or _")
            return self._bounded(start, Leaf(Kind.HASHTAG, value))
        if folded[0] == "@":
            return self._account(start, Kind.MENTION, value, shown)
        name, _, value = folded.partition(":")
        if name == "from":
            return self._account(start, Kind.AUTHOR, value.removeprefix("@"), shown)
        if name == "lang":
            if _LANGUAGE.fullmatch(value) is None:
                raise self._wrong(start, f"{shown} is no language: lang:en, lang:pt-br")
            return self._bounded(start, Leaf(Kind.LANGUAGE, value))
        wrong = f"{name[:_LONGEST_QUOTED]}: is none of from: and lang:; put the term in quotes"
        raise self._wrong(start, wrong)

    def _account(self, start: int, kind: Kind, value: str, shown: str) -> Leaf:
        if mentions(f"@{value}") != {value}:
            raise self._wrong(start, f"{shown} is no account: letters, digits, _; . or - within")
        return self._bounded(start, Leaf(kind, value))

    def _term(self, start: int, given: str) -> Leaf:
        value = fold(given)
        if _PLAIN_PUNCTUATION.fullmatch(value):
            raise self._wrong(start, "a term needs a letter, a digit or a symbol")
        return self._bounded(start, Leaf(Kind.TERM, value))

    def _bounded(self, start: int, leaf: Leaf) -> Leaf:
        if len(leaf.value) > MOST_TERM_CHARACTERS:
            wrong = f"a term of {len(leaf.value):,} characters; the most are {MOST_TERM_CHARACTERS}"
            raise self._wrong(start, wrong)
        return leaf

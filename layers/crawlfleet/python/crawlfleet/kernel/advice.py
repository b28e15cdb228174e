"""Advice to people: texts with commands between backticks, whose capital words stand for names."""

import re
import shlex
from collections.abc import Mapping
from typing import Final

#: A command, or a capital word somewhere else.
_COMMAND: Final = re.compile(r"`[^`]*`")
_WORD: Final = re.compile(r"(?<![\w-])[A-Z]{2,}(?![\w-])")


def filled(advice: str, known: Mapping[str, str]) -> str:
    """Put names for the capital words that are known; commands have them as a shell reads them.

    A capital word whose name is not known stays, as does one whose name would be read as an option.

    >>> filled("`job show BIZ NAME` shows BIZ.", {"BIZ": "news", "NAME": "my own"})
    "`job show news 'my own'` shows news."
    """
    parts, end = [], 0
    for command in _COMMAND.finditer(advice):
        parts.append(_put(advice[end : command.start()], known))
        parts.append(filled_command(command[0], known))
        end = command.end()
    return "".join((*parts, _put(advice[end:], known)))


def filled_command(command: str, known: Mapping[str, str]) -> str:
    """Put names for the capital words of a command, as a shell reads them.

    >>> filled_command("crawlfleet submit BIZ URL", {"BIZ": "news", "URL": "http://a.test/?a=1&b=2"})
    "crawlfleet submit news 'http://a.test/?a=1&b=2'"
    """
    return _put(command, {word: _argument(name) for word, name in known.items()})


def _put(text: str, known: Mapping[str, str]) -> str:
    return _WORD.sub(lambda word: known.get(word[0]) or word[0], text)


def _argument(name: str) -> str:
    """Return a name as one argument of a command; nothing where it would be an option."""
    return "" if name.startswith("-") or not name else shlex.quote(name)

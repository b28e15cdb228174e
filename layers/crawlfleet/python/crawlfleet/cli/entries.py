"""Entries to submit, from arguments and from a file of lines."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Any, Final

#: How the SDK names an entry by its index.
_OTHER: Final = re.compile(r"(?<=^is that of )requests\[(\d{1,9})\]")


class Refusal:
    """A line that was not sent: which one it is and what is wrong with it."""

    __slots__ = ("line", "message")

    def __init__(self, line: int, message: str) -> None:
        self.line = line
        self.message = message


class Entries(Iterable[str | dict[str, Any]]):
    """URLs first, then the file's lines: a URL, or a JSON object with the fields of an entry.

    Blank lines and lines that begin with ``#`` are passed over. Lines that are neither are kept in
    ``refusals`` and do not stop the others. ``place`` tells where an entry stood.
    """

    def __init__(self, urls: Sequence[str], source: IO[bytes] | None) -> None:
        self.refusals: list[Refusal] = []
        self._urls = urls
        self._source = source
        self._lines: list[int] = []

    def __iter__(self) -> Iterator[str | dict[str, Any]]:
        yield from self._urls
        for number, raw in enumerate(self._source or (), start=1):
            try:
                text = raw.decode("utf-8-sig" if number == 1 else "utf-8").strip()
                if not text or text.startswith("#"):
                    continue
                entry = json.loads(text) if text.startswith("{") else text
            except UnicodeDecodeError:
                self.refusals.append(Refusal(number, "is not UTF-8 text"))
            except ValueError as error:
                self.refusals.append(Refusal(number, f"is no JSON object: {error}"))
            else:
                self._lines.append(number)
                yield entry

    def place(self, index: int) -> str:
        """Where the entry of that index stood: ``line 3``, or ``URL 1`` of the arguments."""
        line = self.line(index)
        return f"line {line}" if line else f"URL {index + 1}"

    def line(self, index: int) -> int:
        """The line at which the entry of that index stood; 0 for the arguments before them all."""
        return self._lines[index - len(self._urls)] if index >= len(self._urls) else 0

    def placed(self, text: str) -> str:
        """The text, naming another entry by where it stood and not as ``requests[2]``."""

        def place(other: re.Match[str]) -> str:
            index = int(other[1])
            known = index < len(self._urls) + len(self._lines)
            return self.place(index) if known else other[0]

        return _OTHER.sub(place, text)

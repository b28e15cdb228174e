"""Entries to submit, from arguments and from a file of lines."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Any


class Refusal:
    """A line that was not sent: where it is and what is wrong with it."""

    __slots__ = ("message", "place")

    def __init__(self, place: str, message: str) -> None:
        self.place = place
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
                self.refusals.append(Refusal(f"line {number}", "is not UTF-8 text"))
            except ValueError as error:
                self.refusals.append(Refusal(f"line {number}", f"is no JSON object: {error}"))
            else:
                self._lines.append(number)
                yield entry

    def place(self, index: int) -> str:
        """Where the entry of that index stood: ``line 3``, or ``URL 1`` of the arguments."""
        if index < len(self._urls):
            return f"URL {index + 1}"
        return f"line {self._lines[index - len(self._urls)]}"

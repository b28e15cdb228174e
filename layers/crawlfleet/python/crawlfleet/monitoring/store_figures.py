"""Putting figures of a part together where some may be refused, missing or nonsense (SPEC.md A11).

One figure that cannot be had must not cost the others: each is asked for on its own, and what is
missing is named with its reason.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from crawlfleet.kernel.errors import CrawlfleetError


class HasNoneError(CrawlfleetError):
    """The server has nothing of the kind that it was asked for."""


class Figures:
    """Figures by name, and why others are missing.

    ``unread`` are the missing ones that the server may well have: it did not let us see them, did
    not answer, or answered nonsense.
    """

    def __init__(self) -> None:
        self.found: dict[str, float] = {}
        self.missing: dict[str, str] = {}
        self.unread: set[str] = set()

    def put(self, name: str, value: object) -> None:
        """Take a value if it is a number that can be one: finite and not below 0."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.missing[name] = "the server does not say" if value is None else "is no number"
            self.unread |= set() if value is None else {name}
        elif not math.isfinite(value) or value < 0:
            self.missing[name] = f"{value!r} cannot be"
            self.unread.add(name)
        else:
            self.found[name] = float(value)

    def share(self, name: str, part: object, whole: object) -> None:
        """Take a share; of a whole that is 0 or unknown there is none."""
        numbers = (part, whole)
        if any(isinstance(one, bool) or not isinstance(one, int | float) for one in numbers):
            self.missing[name] = "the server does not say"
        elif not whole:
            self.missing[name] = "the server has no limit"
        else:
            self.put(name, part / whole)  # type: ignore[operator]  # both are numbers

    def ask(self, names: Iterable[str], question: Callable[[], None]) -> None:
        """Ask for some figures; where that fails those it has not put are missing.

        An answer of another shape than the server's own is a failure like any other.
        """
        failed = True
        try:
            question()
        except HasNoneError as error:
            reason, failed = str(error), False
        except CrawlfleetError as error:
            reason = str(error)
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError):
            reason = "the answer is not what such a server answers"
        else:
            reason, failed = "the server does not say", False
        for name in names:
            if name not in self.found and name not in self.missing:
                self.missing[name] = reason
                self.unread |= {name} if failed else set()


def number(answer: object, *path: str) -> Any:
    """What is below ``path`` in an answer; None where there is nothing.

    >>> number({"mem": {"resident": 5}}, "mem", "resident"), number({}, "mem", "resident")
    (5, None)
    """
    for step in path:
        if not isinstance(answer, Mapping):
            return None
        answer = answer.get(step)
    return answer

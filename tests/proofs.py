"""Everything in full: ``python -m tests.proofs [--seconds 900] [--seed 7] [--parts chaos kinds]``.

`make test` has some of everything; the rest is here, in parts. A test says by its mark in which one
it is: ``@pytest.mark.long(part="chaos")``, or ``@pytest.mark.long`` for ``cases``. All tests of a
part are run; the first part that fails does not end the others.

With a bound a run has a hand of parts: those that take as long together. Hands come by turn
(tests/turns.py), so that a few runs one after another have all of them, and so does what comes
first in a hand, lest the last is always the one for which no time is left. The seed of such a run
is its turn, so that whoever tries one state of the code tries the same, until a seed is named.
"""

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import SystemRandom
from typing import Final

import pytest
from hypothesis import is_hypothesis_test

from tests import turns
from tests.progress import minutes

_TESTS: Final = Path(__file__).resolve().parent
_CASES: Final = "cases"
_MARK: Final = re.compile(r'\bmark\.long\b(?:\(part="([^"]+)"\))?')
_GENERATED: Final = re.compile(r"^\s*@given\b|\bmark\.hypothesis\b", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of the proofs, and how long it takes on two cores, about."""

    name: str
    minutes: float
    about: str
    #: Which share of the properties it tries, of how many; None runs the tests of its mark.
    share: tuple[int, int] | None = None
    #: Processes that share its tests; a part of one test has none but its own.
    processes: int = 0

    def files(self) -> list[str]:
        """The files that hold its tests, found by what is written in them."""
        if self.share is not None:
            first, step = self.share
            return [str(path) for path in _files(_GENERATED)][first::step]
        return [str(path) for path in _files(_MARK) if self.name in _parts_named(path)]

    def chosen(self) -> str:
        """The expression by which pytest chooses its tests in these files."""
        if self.share is not None:
            return "hypothesis and not long"
        if self.name != _CASES:
            return f"long(part='{self.name}')"
        others = [
            f"long(part='{part.name}')"
            for part in PARTS
            if part.share is None and part.name != _CASES
        ]
        return f"long and not ({' or '.join(others)})"

    def command(self, seed: int) -> list[str]:
        """The command that runs it."""
        options = ["-q", "-m", self.chosen()]
        options += ["--hypothesis-profile=night", f"--hypothesis-seed={seed}"]
        if self.processes:
            options += ["-n", str(self.processes), "--dist", "worksteal"]
        return [sys.executable, "-m", "pytest", *options, *self.files()]


_SHARES: Final = 8

PARTS: Final = (
    Part(name="chaos", minutes=3, about="20,000 requests under 60 harms"),
    Part(name="kinds", minutes=5, about="each kind of harm by itself", processes=2),
    Part(name="benchmarks", minutes=8, about="every benchmark and a volume, on little"),
    Part(name="api", minutes=5, about="100 examples an operation of the API", processes=2),
    Part(
        name=_CASES,
        minutes=5,
        about="cases that `make test` has fewer of",
        processes=2,
    ),
    *(
        Part(
            name=f"properties-{n + 1}",
            minutes=4,
            about=f"thousands of examples a property, {n + 1} of {_SHARES}",
            share=(n, _SHARES),
            processes=2,
        )
        for n in range(_SHARES)
    ),
)


@cache
def _text(path: Path) -> str:
    return path.read_text()


def _parts_named(path: Path) -> set[str]:
    """The parts that the marks of a file name."""
    return {name or _CASES for name in _MARK.findall(_text(path))}


def _files(pattern: re.Pattern[str]) -> list[Path]:
    return [path for path in sorted(_TESTS.rglob("test_*.py")) if pattern.search(_text(path))]


def _is_property(item: pytest.Item) -> bool:
    """Tell whether Hypothesis runs it; its own mark comes later than this is asked."""
    named = item.get_closest_marker("hypothesis") is not None
    return named or is_hypothesis_test(getattr(item, "obj", None))


def check(item: pytest.Item) -> None:
    """Refuse a test that no part would find though it is marked for one, or is a property.

    Raises:
        UsageError: there is no such part, or the mark is not written in the test's own file.
    """
    is_long = item.get_closest_marker("long") is not None
    if _is_property(item) and not is_long and not _GENERATED.search(_text(item.path)):
        raise pytest.UsageError(
            f"{item.nodeid}: no part has this property: its file has no @given; "
            "write @pytest.mark.hypothesis there"
        )
    for mark in item.iter_markers("long"):
        name = mark.kwargs.get("part", _CASES)
        if mark.args or name not in {part.name for part in PARTS if part.share is None}:
            raise pytest.UsageError(f"{item.nodeid}: the proofs have no part {name!r} {mark.args}")
        if name not in _parts_named(item.path):
            raise pytest.UsageError(f"{item.nodeid}: its mark for {name!r} is not in its own file")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def hands(parts: Sequence[Part], seconds: float) -> list[list[Part]]:
    """The parts in their order, dealt so that each hand fits the time, or is one part."""
    dealt: list[list[Part]] = []
    for part in parts:
        if dealt and sum(one.minutes for one in [*dealt[-1], part]) * 60 <= seconds:
            dealt[-1].append(part)
        else:
            dealt.append([part])
    return dealt


def in_turn(parts: Sequence[Part], seconds: float, turn: int) -> list[Part]:
    """The parts in the order in which a run of this turn begins them; its hand comes first."""
    dealt = hands(parts, seconds)
    rounds, mine = divmod(turn, len(dealt))
    first = rounds % len(dealt[mine])
    hand = [*dealt[mine][first:], *dealt[mine][:first]]
    others = [part for other in [*dealt[mine + 1 :], *dealt[:mine]] for part in other]
    return [*hand, *others]


def _start(part: Part, seed: int) -> int:
    """Run a part in a process of its own; return its exit code."""
    environment = {**os.environ, "SEED": str(seed)}
    return subprocess.run(
        part.command(seed), env=environment, cwd=_TESTS.parent, check=False
    ).returncode


def run(
    parts: Sequence[Part],
    *,
    seed: int,
    seconds: float | None = None,
    start: Callable[[Part, int], int] = _start,
    clock: Callable[[], float] = time.monotonic,
    say: Callable[[str], None] = _say,
) -> int:
    """Run the parts one after another, and begin none when the time is up; 1 if one has failed."""
    began = clock()
    failed: list[str] = []
    say(f"proofs: seed {seed}, {sum(part.minutes for part in parts):.0f} minutes in all, about")
    for n, part in enumerate(parts):
        if n and seconds is not None and clock() - began >= seconds:
            left = " ".join(one.name for one in parts[n:])
            say(f"proofs: {minutes(clock() - began)} are over; not begun: {left}")
            break
        place = f"[{n + 1} of {len(parts)}] {part.name}"
        say(f"{place}: {part.about}; some {part.minutes:g} minutes, seed {seed}")
        at = clock()
        code = start(part, seed)
        if code:
            failed.append(f'{part.name} (make proofs PARTS="{part.name}" SEED={seed})')
        say(f"{place}: {'FAILED' if code else 'held'} after {minutes(clock() - at)}")
    for one in failed:
        say(f"proofs: failed: {one}")
    if not failed:
        say(f"proofs: all that was begun held, in {minutes(clock() - began)}")
    return 1 if failed else 0


def main() -> int:
    arguments = _arguments()
    parts = [part for part in PARTS if part.name in (arguments.parts or {p.name for p in PARTS})]
    seed = SystemRandom().randrange(10**6)
    if arguments.seconds is not None:
        seed = turns.turn()
        _say(f"proofs: turn {seed}")
        parts = in_turn(parts, arguments.seconds, seed)
    if arguments.seed is not None:
        seed = arguments.seed
    return run(parts, seed=seed, seconds=arguments.seconds)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.proofs", description=__doc__)
    names = [part.name for part in PARTS]
    parser.add_argument("--seconds", type=float, help="begin parts for so long, in turn")
    parser.add_argument(
        "--seed",
        type=int,
        help="decides on all that is random; default: any; with --seconds: turn",
    )
    parser.add_argument("--parts", nargs="+", choices=names, metavar="PART", help=", ".join(names))
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

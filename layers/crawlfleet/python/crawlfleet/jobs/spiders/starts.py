"""Whether a start's URLs may be submitted at all (SPEC.md A1, C2).

Which URLs a job's tasks have (SPEC.md C2, C3): task ``i`` follows from ``i`` alone.
"""

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

from msgspec.structs import replace

from crawlfleet.config.documents.biz import Biz
from crawlfleet.jobs.spiders.models import LARGEST_JOB, Range, Start
from crawlfleet.kernel.errors import Problem
from crawlfleet.requests.models import Body
from crawlfleet.requests.submission.admission import Admission, Submission

_PLACE: Final = re.compile(r"\{([^{}]*)\}")
#: Scheme, host and port: what is put into a pattern never decides whom a job asks.
_SITE: Final = re.compile(r"^https?://[^/?#{}\\@\s]+(?=[/?#]|\Z)", re.IGNORECASE)


def places(start: Start) -> tuple[str, ...]:
    """Names of the places of its pattern, each once, in the pattern's order.

    >>> places(Start(pattern="https://shop.example/{kind}/{page}?k={kind}"))
    ('kind', 'page')
    """
    return tuple(dict.fromkeys(_PLACE.findall(start.pattern or "")))


def open_places(start: Start) -> tuple[str, ...]:
    """Places that whoever starts a job has to fill."""
    return tuple(name for name in places(start) if name not in start.values)


def size(start: Start) -> int:
    """How many tasks it makes, its open places being filled.

    >>> values = {"x": ("b", "c"), "n": Range(last=3)}
    >>> size(Start(pattern="https://a.example/{x}/{n}", values=values))
    6
    """
    if start.pattern is None:
        return len(start.urls)
    count = 1
    for values in start.values.values():
        count *= _count(values)
    return count


def url_at(start: Start, index: int) -> str:
    """The URL of task ``index``, which is from 0 up and below ``size``.

    >>> values = {"x": ("b", "c d"), "n": Range(last=2)}
    >>> start = Start(pattern="https://a.example/{x}/{n}", values=values)
    >>> [url_at(start, i) for i in range(size(start))][1:3]
    ['https://a.example/b/2', 'https://a.example/c%20d/1']
    """
    if start.pattern is None:
        return start.urls[index]
    found: dict[str, str] = {}
    for name, values in reversed(start.values.items()):
        index, at = divmod(index, _count(values))
        found[name] = quote(_value(values, at), safe="")
    return _PLACE.sub(lambda place: found.get(place[1], place[0]), start.pattern)


def bind(start: Start, given: Mapping[str, str]) -> tuple[Start, list[Problem]]:
    """The start with its open places filled, and what is wrong with what was given for them."""
    wanted = open_places(start)
    problems = [
        Problem(f"values.{name}", "there is no such place to fill")
        for name in given
        if name not in wanted
    ]
    problems += [
        Problem(f"values.{name}", "is to be given") for name in wanted if name not in given
    ]
    problems += [
        Problem(f"values.{name}", "leads to another path")
        for name, value in given.items()
        if value in {".", ".."}
    ]
    if problems or start.pattern is None:
        return start, problems
    filled = {name: quote(value, safe="") for name, value in given.items()}
    pattern = _PLACE.sub(lambda place: filled.get(place[1], place[0]), start.pattern)
    return replace(start, pattern=pattern), []


def problems_with(start: Start, path: str = "start.") -> list[Problem]:
    """What is wrong with a start, whose fields are below ``path``; empty when nothing is.

    Whether a URL may be submitted at all is for admission to say.
    """
    if start.pattern is None:
        return _problems_with_urls(start, path)
    found: list[Problem] = []
    if start.urls:
        found.append(Problem(f"{path}urls", "are given, and a pattern too: one of both"))
    named = places(start)
    if not _SITE.match(start.pattern):
        found.append(
            Problem(f"{path}pattern", "begins with http:// or https:// and a host without places")
        )
    if "{" in _PLACE.sub("", start.pattern) or "}" in _PLACE.sub("", start.pattern):
        found.append(Problem(f"{path}pattern", "has a brace without its other one"))
    found += [
        Problem(f"{path}pattern", f"{{{name[:32]}}} is no place: a-z, 0-9 and _, a letter first")
        for name in named
        if not re.fullmatch(r"[a-z][a-z0-9_]{0,31}", name)
    ]
    for name, values in start.values.items():
        if name not in named:
            found.append(Problem(f"{path}values.{name}", "the pattern has no such place"))
        if _count(values) == 0:
            found.append(Problem(f"{path}values.{name}", "has nothing in it"))
        if not isinstance(values, Range):
            found += [
                Problem(f"{path}values.{name}[{at}]", "leads to another path")
                for at, value in enumerate(values)
                if value in {".", ".."}
            ]
            if len(set(values)) < len(values):
                found.append(Problem(f"{path}values.{name}", "has something twice"))
    if size(start) > LARGEST_JOB:
        found.append(Problem(f"{path}values", f"make more than {LARGEST_JOB:,} tasks"))
    return found


def _problems_with_urls(start: Start, path: str) -> list[Problem]:
    found = []
    if not start.urls:
        found.append(Problem(f"{path}urls", "there is neither a URL nor a pattern"))
    if start.values:
        found.append(Problem(f"{path}values", "go into a pattern, and there is none"))
    seen: set[str] = set()
    for at, url in enumerate(start.urls):
        if url in seen:
            found.append(Problem(f"{path}urls[{at}]", "is there twice"))
        seen.add(url)
    return found


def _count(values: Range | tuple[str, ...]) -> int:
    return values.count if isinstance(values, Range) else len(values)


def _value(values: Range | tuple[str, ...], at: int) -> str:
    return str(values.first + at * values.step) if isinstance(values, Range) else values[at]


#: What stands in a place that is still open while the rest is looked at.
_STAND_IN = "0"


def refused(biz: Biz, rule: str, start: Start) -> list[Problem]:
    """What admission finds wrong: with every URL, or with both ends of a pattern.

    A pattern with open places is looked at with something harmless in them.
    """
    start, _ = bind(start, dict.fromkeys(open_places(start), _STAND_IN))
    admission = Admission(biz)
    count = size(start)
    indices = range(count) if start.pattern is None else sorted({0, count - 1})
    found: list[Problem] = []
    for index in indices:
        path = f"start.urls[{index}]." if start.pattern is None else "start.pattern."
        admitted = admission.admit(Submission(url=url_at(start, index), rule=rule), path)
        if isinstance(admitted, Body):
            continue
        found += [
            Problem("rule", problem.message)
            if problem.field.endswith(".rule")
            else Problem(problem.field.removesuffix(".url"), problem.message)
            for problem in admitted
        ]
    return list(dict.fromkeys(found))

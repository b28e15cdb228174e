"""Doubles of single parts: one that fails as often as is said, one that never answers, readers."""

from collections.abc import Callable, Iterator
from datetime import datetime

from tests.kit.config import Rule, Spider
from tests.kit.kernel import (
    COUNTER_LIMIT,
    ExtractError,
    IdKind,
    Mask,
    Metric,
    QueueKey,
    RequestId,
    StoreUnavailableError,
)
from tests.kit.requests import Body, Coverage, Harvest, Link, Page, Skipped


class Ids:
    """Ids that count up, as far from a counter's as Snowflakes are."""

    def __init__(self) -> None:
        self.last = COUNTER_LIMIT * 300

    def take(self, queue_key: QueueKey, kind: IdKind, count: int) -> list[RequestId]:
        first, self.last = self.last + 1, self.last + count
        return list(range(first, self.last + 1))


class Broken:
    """Any port, whose part does not answer."""

    def __getattr__(self, name: str) -> Callable[..., object]:
        def call(*args: object, **kwargs: object) -> object:
            raise StoreUnavailableError("test", f"{name}: no answer")

        return call


class Failing:
    """A port of which the named methods fail as often as is said, then work."""

    def __init__(self, port: object, **times: int) -> None:
        self._port = port
        self.left = times

    def __getattr__(self, name: str) -> object:
        if self.left.get(name, 0) > 0:
            self.left[name] -= 1
            return getattr(Broken(), name)
        return getattr(self._port, name)


class Titles:
    """Reads pages that are their title; a page that says `bad` cannot be read.

    Behind a title there may be links: `a title -> http://a.example/ http://b.example/`.
    """

    def harvest(self, rule: Rule, page: Page, depth: int = 0, meta: object = None) -> Harvest:
        title, _, links = page.body.decode().partition(" -> ")
        if title == "bad":
            raise ExtractError("title", "is missing")
        return Harvest(
            records=({"title": title},),
            links=tuple(Link(url=url, rule="page", depth=depth + 1) for url in links.split()),
            coverage=Coverage(pages=1, records=1, fields={"title": 1}),
        )


class Lines:
    """Reads by spiders: a record for each line; one that is an URL is a link."""

    def read(
        self, spider: Spider, page: Page, body: Body, mask: Mask, owner: tuple[str, str]
    ) -> Iterator[object]:
        for number, line in enumerate(page.body.decode().splitlines()):
            if line.startswith("http"):
                yield Link(url=line, rule=body.rule, depth=body.depth + 1)
            elif line == "bad":
                yield Skipped(f"line {number}", "is bad")
            else:
                yield {"line": line}


class Metrics:
    def __init__(self) -> None:
        self.put_metrics: list[tuple[Metric, dict[str, str], datetime]] = []

    def put(self, metrics: list[Metric], dimensions: dict[str, str], at: datetime) -> None:
        self.put_metrics += [(metric, dict(dimensions), at) for metric in metrics]

    def value(self, name: str, **dimensions: str) -> list[float]:
        return [
            metric.value
            for metric, given, _ in self.put_metrics
            if metric.name == name and dimensions.items() <= given.items()
        ]

"""Rules of an operator's own: what starts a kept spider by a clock or an event of EventBridge.

A stage names them in ``stages.py``::

    spider_rules=(
        SpiderRule(
            name="new-list",
            tenant="acme",
            biz="shop",
            spider="zone",
            pattern={"source": ["aws.s3"], "detail-type": ["Object Created"]},
            values={"zone": "$.detail.object.key"},
        ),
    )

Schedules of the API have time zones, overlap and missed-run policies, and need no deployment: a
rule is for what only EventBridge knows.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from crawlfleet.kernel import names

#: EventBridge takes so many rules a bus by default; a stage's clocks are among them.
MOST_RULES: Final = 100
#: The output of the compute stack: the queue with the events that start spiders.
QUEUE_OUTPUT: Final = "StartsQueue"
#: SQS keeps no message for longer.
KEPT_DAYS: Final = 14
#: So long an event is in the queue before a tick may take it: it starts at once as a rule.
DELAY_SECONDS: Final = 30
_SLUG: Final = re.compile(r"[a-z][a-z0-9-]{0,31}\Z")
_SPIDER: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}\Z")
_PLACE: Final = re.compile(r"[a-z][a-z0-9_]{0,31}\Z")
_PATH: Final = re.compile(r"\$(?:\.[A-Za-z0-9_-]+|\[[0-9]+\])+\Z")
_STEP: Final = re.compile(r"\.([A-Za-z0-9_-]+)|\[([0-9]+)\]")
_SCHEDULE: Final = re.compile(r"(?:cron|rate)\([^()]{1,200}\)\Z")
#: What EventBridge matches of an event.
PATTERN_FIELDS: Final = frozenset(
    {"account", "detail", "detail-type", "id", "region", "resources", "source", "time", "version"}
)
_MOST_VALUES: Final = 8
_LONGEST_VALUE: Final = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class SpiderRule:
    """A rule whose target is the scheduler.

    Attributes:
        name: Of the rule, after the stage's.
        tenant: Whose biz.
        biz: The biz that keeps the spider.
        spider: The kept spider.
        schedule: ``cron(0 3 * * ? *)`` or ``rate(1 hour)`` as EventBridge has them, in UTC; its
            time makes it one job. Either this or a pattern.
        pattern: EventBridge's event pattern on the account's default bus; the event's id makes it
            one job.
        values: What fills the spider's open places: a text, or a JSON path of the event, such as
            ``$.detail.object.key``.
        version: The spider's; None is the newest at the time of the event.
        priority: The job's, 0 to 10; None is the spider's own.
        enabled: Whether it does anything.
    """

    name: str
    tenant: str
    biz: str
    spider: str
    schedule: str | None = None
    pattern: Mapping[str, object] | None = None
    values: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    version: int | None = None
    priority: int | None = None
    enabled: bool = True

    def errors(self) -> Iterator[str]:
        """Yield what AWS would refuse in mid-deployment, or the scheduler afterwards."""
        for what in ("name", "tenant", "biz"):
            if not _SLUG.match(getattr(self, what)):
                yield f"{what} {getattr(self, what)!r} is not up to 32 of a-z, 0-9 and -"
        if not _SPIDER.match(self.spider):
            yield f"spider {self.spider!r} is not up to 32 of a-z, 0-9, _ and -"
        if (self.schedule is None) == (self.pattern is None):
            yield "has either a schedule or a pattern"
        if self.schedule is not None and not _SCHEDULE.match(self.schedule):
            yield f"schedule {self.schedule!r} is neither cron(...) nor rate(...)"
        if self.pattern is not None:
            yield from self._errors_of_pattern(self.pattern)
        yield from self._errors_of_values()
        if self.version is not None and self.version < 1:
            yield f"version is {self.version}; they count from 1"
        if self.priority is not None and not 0 <= self.priority <= 10:
            yield f"priority is {self.priority}; it is 0 to 10"

    @staticmethod
    def _errors_of_pattern(pattern: Mapping[str, object]) -> Iterator[str]:
        if not pattern.keys() & {"source", "detail-type"}:
            # Without either it matches what AWS itself tells of every call, and of this stage's.
            yield "pattern says neither source nor detail-type: it would match nearly everything"
        for name in sorted(pattern.keys() - PATTERN_FIELDS):
            yield f"pattern.{name} is none of {', '.join(sorted(PATTERN_FIELDS))}"

    def _errors_of_values(self) -> Iterator[str]:
        if len(self.values) > _MOST_VALUES:
            yield f"values are {len(self.values)}, of {_MOST_VALUES} at most"
        for place, value in self.values.items():
            if not _PLACE.match(place):
                yield f"values.{place} is no place: up to 32 of a-z, 0-9 and _, a letter first"
            if is_path(value):
                if not _PATH.match(value):
                    yield f"values.{place} is {value!r}: no path such as $.detail.object.key"
                elif self.pattern is None:
                    yield f"values.{place} is a path, and a schedule's event has nothing to read"
            elif not 1 <= len(value) <= _LONGEST_VALUE or value in {".", ".."}:
                yield f"values.{place} is not 1 to {_LONGEST_VALUE} characters, or leads elsewhere"


def is_path(value: str) -> bool:
    """Return whether a value is read of the event.

    >>> is_path("$.detail.key"), is_path("north")
    (True, False)
    """
    return value.startswith("$")


def rule_name(stage: str, rule: SpiderRule) -> str:
    """The deployed name of a rule of that stage.

    >>> rule = SpiderRule(name="nightly", tenant="a", biz="b", spider="s", schedule="rate(1 day)")
    >>> rule_name("aws-small", rule)
    'crawlfleet-aws-small-start-nightly'
    """
    return f"{names.PRODUCT}-{stage}-start-{rule.name}"


def start_input(rule: SpiderRule, read: Callable[[str], object]) -> dict[str, object]:
    """Return the scheduler's input: apps/events.py reads it.

    Args:
        rule: The rule.
        read: What stands for a JSON path of the event: a field of a deployed rule's input, or the
            value itself.
    """
    said: dict[str, object] = {
        "crawlfleet": "start",
        "tenant": rule.tenant,
        "biz": rule.biz,
        "spider": rule.spider,
        "time": read("$.time"),
    }
    if rule.pattern is not None:
        # A schedule's event has an id too; should EventBridge fire it twice, there are two of them.
        said["id"] = read("$.id")
    if rule.values:
        said["values"] = {
            place: read(value) if is_path(value) else value for place, value in rule.values.items()
        }
    if rule.version is not None:
        said["version"] = rule.version
    if rule.priority is not None:
        said["priority"] = rule.priority
    return said


def value_at(event: Mapping[str, Any], path: str) -> Any:
    """Return an event's value at a JSON path, such as rules may name.

    >>> value_at({"detail": {"keys": ["a", "b"]}}, "$.detail.keys[1]")
    'b'

    Raises:
        LookupError: it has nothing there.
    """
    found: Any = event
    for name, index in _STEP.findall(path.removeprefix("$")):
        if name:
            there = isinstance(found, Mapping) and name in found
        else:
            there = isinstance(found, list) and int(index) < len(found)
        if not there:
            raise LookupError(path)
        found = found[name or int(index)]
    return found


def errors_of(rules: tuple[SpiderRule, ...]) -> Iterator[str]:
    """Yield what is wrong with a stage's rules, each with its place."""
    if len(rules) > MOST_RULES:
        yield f"spider_rules are {len(rules)}, of {MOST_RULES} at most"
    names = [rule.name for rule in rules]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"spider_rules has {name!r} more than once"
    for number, rule in enumerate(rules):
        for error in rule.errors():
            yield f"spider_rules[{number}]: {error}"

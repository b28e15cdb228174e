"""EventBridge on one machine: a stage's rule that starts a spider, tried with an event.

Rules are a deployed stage's. This does with one of them what EventBridge does: looks whether its
pattern matches, makes the scheduler's input of the event, and hands it over: to the scheduler, and
to the queue of which a tick starts what could not be started at once.
"""

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from crawlfleet.kernel import names
from crawlfleet.kernel.aws import clients as aws
from infra.local.aws_server import ACCOUNT, CREDENTIALS, REGION
from infra.local.clocks import scheduled_event
from infra.local.parts import PartError
from infra.local.state import STAGE, Addresses
from infra.spider_rules import (
    DELAY_SECONDS,
    KEPT_DAYS,
    PATTERN_FIELDS,
    SpiderRule,
    rule_name,
    start_input,
    value_at,
)
from infra.stages import STAGES, StageError, find_stage

#: EventBridge takes no larger event.
LARGEST_BYTES: Final = 256 * 1024
#: A tick may be under way, and an environment may have to start first.
_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Handed:
    """An event that a rule has handed over, and its result.

    Attributes:
        input: What the scheduler was given.
        answer: What it answered: the job, or why there is none.
        started: Whether there is a job.
    """

    input: dict[str, object]
    answer: Any
    started: bool


def find_rule(stage: str, name: str) -> SpiderRule:
    """The rule of that name of a stage.

    Raises:
        PartError: there is no such stage, or it has no such rule.
    """
    try:
        rules = find_stage(stage).spider_rules
    except StageError as error:
        raise PartError(str(error)) from error
    for rule in rules:
        if rule.name == name:
            return rule
    known = ", ".join(rule.name for rule in rules) or "none"
    others = "".join(
        f"; {other.name} has {', '.join(rule.name for rule in other.spider_rules)}"
        for other in STAGES.values()
        if other.spider_rules and other.name != stage
    )
    said = f"has no rule {name!r} among" if name else "is given, and no RULE of"
    raise PartError(f"the stage {stage} {said} its spider_rules: {known}{others}")


def read_event(path: Path) -> dict[str, Any]:
    """An event as a file has it.

    Raises:
        PartError: the file cannot be read, or has no event.
    """
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_BYTES + 1)
    except OSError as error:
        raise PartError(f"{path} cannot be read: {error.strerror}") from error
    if len(content) > LARGEST_BYTES:
        raise PartError(f"{path} is larger than the {LARGEST_BYTES:,} bytes that EventBridge takes")
    try:
        event = json.loads(content)
    except ValueError as error:
        raise PartError(f"{path} is no JSON: {error}") from error
    if not isinstance(event, dict) or not {"source", "detail-type"} <= event.keys():
        raise PartError(f"{path} is no event: one has `source`, `detail-type` and mostly `detail`")
    if unknown := event.keys() - PATTERN_FIELDS:
        raise PartError(f"{path} is no event: none has {', '.join(sorted(unknown))}")
    return event


def event_for(
    rule: SpiderRule, stage: str, given: Mapping[str, Any] | None, at: datetime
) -> dict[str, Any]:
    """The event that the rule gets: the clock's, or the given one with what EventBridge adds.

    Raises:
        PartError: none is given to a rule with a pattern, or one to a clock; or the rule's pattern
            does not match it.
    """
    clock = scheduled_event(rule_name(stage, rule), at)
    if rule.pattern is None:
        if given is not None:
            raise PartError(f"the rule {rule.name} has a clock, {rule.schedule}: it gets no event")
        return clock
    if given is None:
        raise PartError(f"the rule {rule.name} wants an event: name a file that has one")
    added = {"id": str(uuid.uuid4()), "resources": [], "account": ACCOUNT, "region": REGION}
    event = {**clock, **added, **given}
    if not matches(rule.pattern, event):
        raise PartError(
            f"the rule {rule.name} does not match this event: its pattern is"
            f" {json.dumps(dict(rule.pattern))}"
        )
    return event


def matches(pattern: Mapping[str, object], event: Mapping[str, Any]) -> bool:
    """Return whether EventBridge would hand over the event, as moto knows its patterns.

    Raises:
        PartError: it is no pattern.
    """
    # Here, as it takes a second.
    from moto.events.exceptions import InvalidEventPatternException
    from moto.events.models import EventPattern

    try:
        found = EventPattern.load(json.dumps(dict(pattern)))
    except InvalidEventPatternException as error:
        raise PartError(f"EventBridge takes no such pattern: {error}") from error
    return bool(found.matches_event(dict(event)))  # type: ignore[arg-type]  # a TypedDict of moto's


def input_of(rule: SpiderRule, event: Mapping[str, Any]) -> dict[str, object]:
    """Return what the rule makes of the event, as the scheduler gets it.

    Raises:
        PartError: the rule reads something that the event does not have.
    """

    def read(path: str) -> object:
        try:
            return value_at(event, path)
        except LookupError as error:
            raise PartError(f"the rule {rule.name} reads {path}, and the event has none") from error

    return start_input(rule, read)


def hand_over(addresses: Addresses, said: dict[str, object]) -> Handed:
    """Give the queue and the scheduler of a running local cloud what a rule has made.

    Raises:
        PartError: one of them does not answer.
    """
    from botocore.exceptions import BotoCoreError, ClientError

    queue = _client("sqs", addresses.aws_endpoint_url)
    client = _client("lambda", addresses.lambda_endpoint_url)
    function = names.function_name(STAGE, names.SCHEDULER)
    try:
        url = queue.get_queue_url(QueueName=names.starts_queue(STAGE))["QueueUrl"]
        queue.send_message(QueueUrl=url, MessageBody=json.dumps(said))
    except (BotoCoreError, ClientError, OSError) as error:
        raise PartError(f"the queue does not answer: {error}; see `make status`") from error
    try:
        answer = client.invoke(FunctionName=function, Payload=json.dumps(said).encode())
        content = json.loads(answer["Payload"].read())
    except (BotoCoreError, ClientError, OSError) as error:
        raise PartError(f"the scheduler does not answer: {error}; see `make status`") from error
    started = not answer.get("FunctionError") and "job" in content
    return Handed(input=said, answer=content, started=started)


def make_starts_queue(endpoint_url: str) -> str:
    """Make the queue of events that start spiders, as a stage with rules has it; return its URL."""
    attributes = {
        "MessageRetentionPeriod": str(KEPT_DAYS * 24 * 3600),
        "DelaySeconds": str(DELAY_SECONDS),
    }
    name = names.starts_queue(STAGE)
    made = _client("sqs", endpoint_url).create_queue(QueueName=name, Attributes=attributes)
    return str(made["QueueUrl"])


def _client(service: str, endpoint_url: str) -> Any:
    return aws.client(
        service,
        endpoint_url=endpoint_url,
        timeout_seconds=_SECONDS,
        attempts=1,
        region_name=REGION,
        aws_access_key_id=CREDENTIALS["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
    )

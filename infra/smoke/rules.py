"""Rules of EventBridge, as they are deployed: the fleet's clocks, and those that start spiders."""

from crawlfleet.kernel import names
from infra.aws_access import asked
from infra.fleet import FLEET
from infra.smoke.deployment import Deployment
from infra.spider_rules import QUEUE_OUTPUT, rule_name
from infra.steps import StepError


def clocks(deployment: Deployment) -> str:
    """Every rule is enabled and wakes its function."""
    for clock in FLEET.clocks:
        rule = f"{names.PRODUCT}-{deployment.stage}-{clock.name}"
        again = names.again_queue(deployment.stage, clock.name) if clock.again_seconds else ""
        _check(deployment, rule, clock.function, enabled=True, queue=again)
    return f"{len(FLEET.clocks)} run"


def spider_rules(deployment: Deployment) -> str:
    """Every rule of the stage's own is there, as enabled as it says, and wakes the scheduler."""
    rules = deployment.settings.spider_rules
    if not rules:
        return "none"
    for one in rules:
        name = rule_name(deployment.stage, one)
        kept = names.starts_queue(deployment.stage)
        _check(deployment, name, names.SCHEDULER, enabled=one.enabled, queue=kept)
    on = sum(one.enabled for one in rules)
    said = f"{on} start spiders, {len(rules) - on} are disabled as they should"
    return f"{said}, {waiting(deployment)} events wait"


def waiting(deployment: Deployment) -> int:
    """Count the events in the queue of what is to be started; those of the last minute among them.

    The alarm `starts-waiting` judges them.
    """
    url = deployment.output("compute", QUEUE_OUTPUT)
    kinds = ("", "NotVisible", "Delayed")
    counts = [f"ApproximateNumberOfMessages{kind}" for kind in kinds]
    answer = asked(
        f"looking into {url}",
        deployment.access.client("sqs").get_queue_attributes,
        QueueUrl=url,
        AttributeNames=counts,
    )
    return sum(int(answer["Attributes"][count]) for count in counts)


def _check(
    deployment: Deployment, rule: str, function: str, *, enabled: bool, queue: str = ""
) -> None:
    """A rule is there, wakes this function, and does so as it should, or not at all.

    With ``queue`` it sends its events there, too.
    """
    events = deployment.access.client("events")
    found = asked(f"looking for {rule}", events.describe_rule, Name=rule)
    listed = asked(f"reading the targets of {rule}", events.list_targets_by_rule, Rule=rule)
    name = names.function_name(deployment.stage, function)
    if not any(target["Arn"].endswith(f":{name}") for target in listed["Targets"]):
        raise StepError(
            f"the rule {rule} does not wake {name}",
            f"Deploy this version: `make deploy STAGE={deployment.stage}`.",
        )
    if queue and not any(target["Arn"].endswith(f":{queue}") for target in listed["Targets"]):
        raise StepError(
            f"the rule {rule} does not keep its events in {queue}",
            f"Deploy this version: `make deploy STAGE={deployment.stage}`.",
        )
    if (found["State"] == "ENABLED") is not enabled:
        wanted = "enable" if enabled else "disable"
        raise StepError(
            f"the rule {rule} is {found['State']}, which infra/stages.py does not say",
            f"`aws events {wanted}-rule --name {rule}`, or have the stage say so and deploy it.",
        )

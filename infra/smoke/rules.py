"""Rules of EventBridge, as they are deployed: the fleet's clocks, and those that start spiders."""

from crawlfleet.kernel import names
from infra.aws_access import asked
from infra.fleet import FLEET
from infra.smoke.deployment import Deployment, log_group
from infra.spider_rules import UNDELIVERED_OUTPUT, rule_name
from infra.steps import StepError


def clocks(deployment: Deployment) -> str:
    """Every rule is enabled and wakes its function."""
    for clock in FLEET.clocks:
        rule = f"{names.PRODUCT}-{deployment.stage}-{clock.name}"
        _check(deployment, rule, clock.function, enabled=True)
    return f"{len(FLEET.clocks)} run"


def spider_rules(deployment: Deployment) -> str:
    """Every rule of the stage's own is there, as enabled as it says, and wakes the scheduler."""
    rules = deployment.settings.spider_rules
    if not rules:
        return "none"
    for one in rules:
        name = rule_name(deployment.stage, one)
        _check(deployment, name, names.SCHEDULER, enabled=one.enabled)
    undelivered(deployment)
    on = sum(one.enabled for one in rules)
    return f"{on} start spiders, {len(rules) - on} are disabled as they should, all is delivered"


def undelivered(deployment: Deployment) -> None:
    """EventBridge could give every event to the scheduler.

    Raises:
        StepError: it could not.
    """
    url = deployment.output("events", UNDELIVERED_OUTPUT)
    answer = asked(
        f"looking into {url}",
        deployment.access.client("sqs").get_queue_attributes,
        QueueUrl=url,
        AttributeNames=["ApproximateNumberOfMessages"],
    )
    if count := int(answer["Attributes"]["ApproximateNumberOfMessages"]):
        raise StepError(
            f"{count} events that were to start spiders could not be given to the scheduler",
            "Each message is the event; its attributes ERROR_MESSAGE and RULE_ARN say why, and of"
            " which rule. Start what that rule names by hand, `crawlfleet job start BIZ --spider"
            " SPIDER --value PLACE=...` with what the event says, then `aws sqs purge-queue"
            f" --queue-url {url}`.",
            log_group(deployment.stage, names.SCHEDULER),
        )


def _check(deployment: Deployment, rule: str, function: str, *, enabled: bool) -> None:
    """A rule is there, wakes this function, and does so as it should, or not at all."""
    events = deployment.access.client("events")
    found = asked(f"looking for {rule}", events.describe_rule, Name=rule)
    listed = asked(f"reading the targets of {rule}", events.list_targets_by_rule, Rule=rule)
    name = names.function_name(deployment.stage, function)
    if not any(target["Arn"].endswith(f":{name}") for target in listed["Targets"]):
        raise StepError(
            f"the rule {rule} does not wake {name}",
            f"Deploy this version: `make deploy STAGE={deployment.stage}`.",
        )
    if (found["State"] == "ENABLED") is not enabled:
        wanted = "enable" if enabled else "disable"
        raise StepError(
            f"the rule {rule} is {found['State']}, which infra/stages.py does not say",
            f"`aws events {wanted}-rule --name {rule}`, or have the stage say so and deploy it.",
        )

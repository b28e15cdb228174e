"""The checks of any deployment, from outside and changing nothing.

Each check is given the deployment, says in a phrase what it saw, or raises what is wrong and what
to do. None costs more than a few calls.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

import requests

from crawlfleet.cli.doctor.command import examine
from crawlfleet.cli.doctor.diagnosis import NAMES, Level, worst
from crawlfleet.kernel import metric_names, names
from crawlfleet.monitoring.incidents.models import Listener
from infra import alarm_names
from infra.aws_access import asked
from infra.fleet import FunctionSpec
from infra.smoke import rules
from infra.smoke.deployment import STANDING, Deployment, log_group, stack_name
from infra.steps import StepError, Warned

_TIMEOUT: Final = 29.0
#: The monitor looks each minute; CloudWatch shows what it saw within another two.
_LOOKED_WITHIN: Final = timedelta(minutes=5)


class Check(NamedTuple):
    """A check and what it is called."""

    name: str
    look: Callable[[Deployment], str]


def stacks(deployment: Deployment) -> str:
    """CloudFormation has finished with each stack."""
    for stack, state in deployment.states.items():
        if state not in STANDING:
            raise StepError(
                f"the stack {stack_name(deployment.stage, stack)} is {state}",
                "The events of the stack in the console of CloudFormation say why; then"
                f" `make deploy STAGE={deployment.stage}`.",
            )
    return f"{len(deployment.states)} stand"


def functions(deployment: Deployment) -> str:
    """Check that each function is active and is what fleet.py describes."""
    specs = deployment.settings.fleet.functions
    for spec in specs:
        name = names.function_name(deployment.stage, spec.name)
        found = asked(
            f"looking for the function {name}",
            deployment.access.client("lambda", spec.region).get_function_configuration,
            FunctionName=name,
        )
        for wrong in _differences(spec, found):
            raise StepError(
                f"{name}: {wrong}",
                f"Deploy this version: `make deploy STAGE={deployment.stage}`.",
                log_group(deployment.stage, spec.name),
                spec.region,
            )
    return f"{len(specs)} active"


def _differences(spec: FunctionSpec, found: dict[str, Any]) -> Iterator[str]:
    if found.get("State") != "Active":
        yield f"its state is {found.get('State')}: {found.get('StateReason', 'no reason given')}"
    if found.get("LastUpdateStatus", "Successful") != "Successful":
        yield f"its update is {found['LastUpdateStatus']}"
    if (found["MemorySize"], found["Timeout"]) != (spec.memory_mb, spec.timeout_seconds):
        yield f"it has {found['MemorySize']} MB and {found['Timeout']} s, which is not ours"
    missing = set(spec.environment) - set(found.get("Environment", {}).get("Variables", {}))
    if missing:
        yield f"its environment lacks {', '.join(sorted(missing))}"


def concurrency(deployment: Deployment) -> str:
    """Consumers may run, those of each pool too, and not more than the stage allows."""
    stage, reported = deployment.settings, []
    kinds = [("", names.CONSUMER, stage.consumer_concurrency, "")]
    kinds += [
        (f" of {pool.name}", pool.function, pool.concurrency, pool.region) for pool in stage.pools
    ]
    for whose, function, ceiling, region in kinds:
        name = names.function_name(deployment.stage, function)
        reserved = reserved_concurrency(deployment, function, region)
        if not reserved:
            raise StepError(
                f"{name} has a reserved concurrency of {reserved}: no worker can start",
                "The scheduler sets it by each tick; its log says why it does not.",
                log_group(deployment.stage, names.SCHEDULER),
            )
        if reserved > ceiling:
            raise StepError(
                f"{name} has a reserved concurrency of {reserved}, of {ceiling} at most",
                f"The scheduler gives no more than that: deploy this version, `make deploy"
                f" STAGE={deployment.stage}`, or see who else has set it.",
                log_group(deployment.stage, names.SCHEDULER),
            )
        reported.append(f"{reserved} consumers{whose}")
    return f"{', '.join(reported)} at once"


def reserved_concurrency(
    deployment: Deployment, function: str = names.CONSUMER, region: str = ""
) -> int | None:
    """The consumer's, or that of another function; None where it has none."""
    name = names.function_name(deployment.stage, function)
    answer = asked(
        f"reading the concurrency of {name}",
        deployment.access.client("lambda", region).get_function_concurrency,
        FunctionName=name,
    )
    found = answer.get("ReservedConcurrentExecutions")
    return None if found is None else int(found)


def configuration(deployment: Deployment) -> str:
    """Check that what was pushed last is in force."""
    revision = pushed_revision(deployment)
    health = asked_health(deployment)
    running = health.get("deep") or {}
    if running.get("config_refused"):
        raise StepError(
            "the newest configuration is refused",
            "`crawlfleet config validate FOLDER` names every mistake; push the corrected folder.",
            log_group(deployment.stage, names.ROUTER),
        )
    if running.get("revision") != revision:
        raise StepError(
            f"in force is {running.get('revision') or 'nothing'}, pushed is {revision}",
            "It takes some seconds: try again; then the router's log.",
            log_group(deployment.stage, names.ROUTER),
        )
    return f"revision {revision}"


def pushed_revision(deployment: Deployment) -> str:
    """The revision in Parameter Store."""
    from botocore.exceptions import ClientError

    name = f"{names.config_root(deployment.stage)}/{names.CONFIG_REVISION}"
    try:
        answer = deployment.access.client("ssm").get_parameter(Name=name)
    except ClientError as error:
        raise StepError(
            f"{name} cannot be read: {error.response.get('Error', {}).get('Code')}",
            f"`crawlfleet config push FOLDER --stage {deployment.stage}` puts a first one in.",
        ) from error
    return str(answer["Parameter"]["Value"])


def asked_health(deployment: Deployment) -> dict[str, Any]:
    """The health and what is running, as the default tenant's key sees it.

    Raises:
        StepError: there is no such answer.
    """
    group = log_group(deployment.stage, names.ROUTER)
    do = f"Look at {group}; `crawlfleet doctor` says more."
    try:
        answer = requests.get(
            f"{deployment.api_url}/v1/health",
            headers={"x-api-key": deployment.api_key},
            timeout=_TIMEOUT,
        )
        found = answer.json()
    except (requests.RequestException, ValueError) as error:
        raise StepError(f"/v1/health does not answer: {type(error).__name__}", do, group) from error
    if answer.status_code != 200 or found.get("status") != "ok":
        raise StepError(
            f"/v1/health answers {answer.status_code}, {found.get('status')}: {found.get('parts')}",
            do,
            group,
        )
    return dict(found)


def door(deployment: Deployment) -> str:
    """Check that API Gateway refuses calls without a key, and the router sees those with one."""
    for headers, what in (({}, "no key"), ({"x-api-key": "of-nobody-at-all-000"}, "a wrong key")):
        try:
            answer = requests.get(
                f"{deployment.api_url}/v1/incidents", headers=headers, timeout=_TIMEOUT
            )
        except requests.RequestException as error:
            raise StepError(
                f"the API does not answer: {type(error).__name__}",
                "See whether its address can be reached from here.",
            ) from error
        if answer.status_code != 403:
            raise StepError(
                f"the API answers {answer.status_code} to who has {what}, not 403",
                f"It is open to everybody: deploy it again, `make deploy"
                f" STAGE={deployment.stage}`, and look at its usage plan.",
            )
    with deployment.client() as client:
        count = len(list(client.incidents()))
    return f"403 without a key, {count} open incidents with one"


def alarms(deployment: Deployment) -> str:
    """Every alarm is there, tells somebody, and none rings."""
    found = alarm_states(deployment)
    for name, alarm in found.items():
        if alarm["StateValue"] == "ALARM":
            raise StepError(
                f"the alarm {name} rings: {alarm.get('StateReason', '')}",
                alarm.get("AlarmDescription", ""),
            )
    return f"{len(found)}, none rings"


def alarm_states(deployment: Deployment) -> dict[str, dict[str, Any]]:
    """Every alarm as it is, by the last words of its name.

    Raises:
        StepError: one is not there, or tells nobody.
    """
    prefix = alarm_names.prefix(deployment.stage)
    found = asked(
        "reading the alarms",
        deployment.access.all,
        "cloudwatch",
        "describe_alarms",
        "MetricAlarms",
        AlarmNamePrefix=prefix,
    )
    by_name = {alarm["AlarmName"].removeprefix(prefix): alarm for alarm in found}
    wanted = alarm_names.of_stage(deployment.settings)
    again = f"Deploy this version: `make deploy STAGE={deployment.stage}`."
    if missing := wanted - set(by_name):
        raise StepError(f"there are no alarms {', '.join(sorted(missing))}", again)
    if mute := [name for name, alarm in by_name.items() if not alarm["AlarmActions"]]:
        raise StepError(f"the alarms {', '.join(sorted(mute))} tell nobody", again)
    return by_name


def topics(deployment: Deployment) -> str:
    """The topics are there, and people listen: phones and machines are not told everything.

    A stage that keeps its state is one whose failure matters; any other is only warned of.
    """
    reported, waiting, people = [], [], 0
    for listeners in Listener:
        arn = deployment.output("state", f"{listeners.title()}Topic")
        found = asked(
            f"reading who listens to {arn}",
            deployment.access.all,
            "sns",
            "list_subscriptions_by_topic",
            "Subscriptions",
            TopicArn=arn,
        )
        count = sum(one["SubscriptionArn"].startswith("arn:") for one in found)
        reported.append(f"{count} {listeners}")
        waiting += [
            str(one["Endpoint"]) for one in found if one["SubscriptionArn"] == "PendingConfirmation"
        ]
        people += count if listeners is Listener.PEOPLE else 0
    said = f"{', '.join(reported)} listen"
    if waiting:
        said = f"{said}; not confirmed yet: {', '.join(waiting)}"
    if people:
        return Warned(said) if waiting else said
    nobody = f"nobody is told what is wrong by e-mail: {said}"
    if not deployment.settings.keep_state:
        return Warned(nobody)
    raise StepError(
        nobody,
        "Name somebody in `notify` of the stage in infra/stages.py and deploy, or `aws sns"
        f" subscribe --protocol email --notification-endpoint YOU --topic-arn"
        f" {deployment.output('state', 'PeopleTopic')}`; then confirm what AWS sends, within two"
        " days.",
    )


def dead_letters(deployment: Deployment) -> str:
    """Check that the dead-letter queues of events are empty."""
    sqs = deployment.access.client("sqs")
    queues = deployment.dead_letters()
    for name, url in queues.items():
        answer = asked(
            f"looking into {url}",
            sqs.get_queue_attributes,
            QueueUrl=url,
            AttributeNames=["ApproximateNumberOfMessages"],
        )
        count = int(answer["Attributes"]["ApproximateNumberOfMessages"])
        if count:
            raise StepError(
                f"{count} events of the {name.lower()} were given up on",
                f"Their attribute ErrorMessage says why. The next tick does their work: when the"
                f" cause is mended, `aws sqs purge-queue --queue-url {url}`.",
                log_group(deployment.stage, name.lower()),
            )
    return f"{len(queues)} queues are empty"


def metrics(deployment: Deployment) -> str:
    """The monitor has looked lately, and CloudWatch knows."""
    now = datetime.now(UTC)
    answer = asked(
        "reading the monitor's metrics",
        deployment.access.client("cloudwatch").get_metric_statistics,
        Namespace=names.METRIC_NAMESPACE,
        MetricName=metric_names.LOOKS,
        Dimensions=[{"Name": "stage", "Value": deployment.stage}],
        StartTime=now - _LOOKED_WITHIN,
        EndTime=now + timedelta(minutes=1),
        Period=60,
        Statistics=["Sum"],
    )
    looks = sum(point["Sum"] for point in answer["Datapoints"])
    if not looks:
        raise StepError(
            f"the monitor has not looked in {_LOOKED_WITHIN.seconds // 60} minutes",
            "See whether the rule monitor-tick is enabled, and what the monitor logs.",
            log_group(deployment.stage, names.MONITOR),
        )
    return f"{looks:.0f} looks of the monitor in {_LOOKED_WITHIN.seconds // 60} minutes"


def doctor(deployment: Deployment) -> str:
    """Run `crawlfleet doctor`."""
    sayings = list(examine(deployment.api_url, deployment.api_key, (), None))
    level = worst(sayings)
    for saying in sayings:
        if saying.level == level and level > Level.NOTE:
            raise StepError(
                f"the doctor says of {saying.check}: {saying.said} ({NAMES[level]})",
                saying.do,
                log_group(deployment.stage, names.ROUTER),
            )
    return f"{len(sayings)} sayings, the worst is {NAMES[level]!r}"


#: In the order in which one would ask.
CHECKS: Final = (
    Check("stacks", stacks),
    Check("functions", functions),
    Check("concurrency", concurrency),
    Check("clocks", rules.clocks),
    Check("rules of your own", rules.spider_rules),
    Check("the door", door),
    Check("configuration", configuration),
    Check("topics", topics),
    Check("alarms", alarms),
    Check("metrics", metrics),
    Check("dead letters", dead_letters),
    Check("doctor", doctor),
)

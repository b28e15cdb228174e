"""The journey's step about trials: a rule is tried by the function that reaches no store."""

from crawlfleet.kernel import names
from crawlfleet.sdk import Client
from infra.aws_access import asked
from infra.localstack import settings
from infra.smoke.deployment import Deployment, log_group
from infra.steps import Step, StepError


def tried(deployment: Deployment, client: Client, url: str, step: Step) -> None:
    """Try the rule on a page of the site, and see that the function has nothing of the stores.

    Raises:
        StepError: it yields nothing, or the function is told where a store is.
    """
    found = client.try_rule(settings.BIZ, settings.RULE, url=url)
    if found.error is not None or not found.records:
        raise StepError(
            f"the trial yields {len(found.records)} records: {found.error or found.problems}",
            "Its log has what the function says; the router's has what it could not ask.",
            log_group(deployment.stage, names.TRIALS),
        )
    name = names.function_name(deployment.stage, names.TRIALS)
    made = asked(
        f"reading {name}",
        deployment.access.client("lambda").get_function_configuration,
        FunctionName=name,
    )
    told = set(made.get("Environment", {}).get("Variables", {}))
    stores = told & {names.ENV_REDIS_URL, names.ENV_REDIS_SECRET, names.ENV_NODE_SECRET}
    if stores:
        raise StepError(
            f"{name} is told {', '.join(sorted(stores))}",
            "It reads strangers' pages: infra/fleet.py gives it no store.",
            log_group(deployment.stage, names.TRIALS),
        )
    step.saw(f"{found.record_count} records of one page, by a function without stores")

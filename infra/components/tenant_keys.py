"""The right to make and remove API keys of tenants: of this stage, into its plan, and no others.

API Gateway's rights are HTTP's verbs on its own paths. Of keys they go by a tag that only such keys
have, so the deployment's key is none of them. Keys of the account are not listed, as whoever may
list them may read them all: what is listed is the stage's own plan.
"""

from aws_cdk import ArnFormat, Stack
from aws_cdk import aws_apigateway as apigateway
from aws_cdk import aws_iam as iam
from constructs import Construct

from crawlfleet.kernel import names
from infra.stages import Stage


def grant_keys(
    scope: Construct, *, stage: Stage, plan: apigateway.UsagePlan, role: iam.IRole | None
) -> None:
    """Lets the role make keys and let them into the plan, list the plan's, and remove them.

    The policy stands beside the plan, in a later stack than the role: neither can refer to both.
    """
    if role is None:
        raise ValueError("a function without a role of its own")
    own = {"StringEquals": {f"aws:ResourceTag/{names.KEYS_TAG}": stage.name}}
    given = {"StringEquals": {f"aws:RequestTag/{names.KEYS_TAG}": stage.name}}
    keys = f"/usageplans/{plan.usage_plan_id}/keys"

    def may(verb: str, *paths: str, conditions: dict[str, dict[str, str]] | None = None) -> None:
        policy.add_statements(
            iam.PolicyStatement(
                actions=[f"apigateway:{verb}"],
                resources=[_arn(scope, path) for path in paths],
                conditions=conditions,
            )
        )

    policy = iam.Policy(scope, "TenantKeys", roles=[role])
    may("POST", "/apikeys", conditions=given)
    # API Gateway tags what is made by the rights of who makes it. Of a key that is there a tag is
    # changed by whoever may change the key, which this role may not.
    may("PUT", f"/tags/arn%3A{Stack.of(scope).partition}%3Aapigateway%3A*", conditions=given)
    may("DELETE", "/apikeys/*", conditions=own)
    may("GET", "/usageplans", keys)
    may("POST", keys)
    may("DELETE", f"{keys}/*")


def _arn(scope: Construct, path: str) -> str:
    return Stack.of(scope).format_arn(
        service="apigateway",
        account="",
        resource=path,
        arn_format=ArnFormat.NO_RESOURCE_NAME,
    )

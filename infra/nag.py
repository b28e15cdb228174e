"""AWS's rules for good practice (cdk-nag, the pack AWS Solutions), and what is knowingly not done.

A finding that is not in ``ACCEPTED`` fails the tests, and so does an entry there that nothing needs
any more. ``python -m infra.nag`` lists what the rules find in every stage. Rights are not judged
here: ``tests/infra/rights_*.json`` have all of them.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from crawlfleet.kernel import names

if TYPE_CHECKING:
    from aws_cdk import App


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A finding of a rule. ``STAGE`` replaces the stage's name in it.

    Attributes:
        rule: The rule, such as ``IAM5``.
        about: What exactly, where the rule says so.
        at: Path of the construct, from the stack's short name on.
        words: The rule in a sentence.
    """

    rule: str
    about: str
    at: str
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """A rule that is not followed somewhere, and why not. All but the reason are patterns."""

    rule: str
    at: str
    reason: str
    about: str = ""

    def covers(self, finding: Finding) -> bool:
        """Return whether this is about that finding."""
        return all(
            fnmatchcase(found, pattern)
            for found, pattern in (
                (finding.rule, self.rule),
                (finding.about, self.about),
                (finding.at, self.at),
            )
        )


ACCEPTED: Final = (
    # ---- network ----
    Accepted(
        rule="VPC7",
        at="network/Network/Vpc/Resource",
        reason="A crawler opens a flow for every page: its flow log would cost more than its "
        "compute. Whom it talks to is in the requests' own records, with the address of each hop.",
    ),
    Accepted(
        rule="EC23",
        at="network/Network/Vpc/NatSecurityGroup/Resource",
        reason="The rule cannot read the source, which is a reference: the VPC's own range.",
    ),
    Accepted(
        rule="EC28",
        at="network/Network/Vpc/publicSubnet?/NatInstance/Resource",
        reason="A NAT instance is watched by what passes: without it, workers fail within seconds. "
        "Its own metrics by the minute cost as much as the instance.",
    ),
    Accepted(
        rule="EC29",
        at="network/Network/Vpc/publicSubnet?/NatInstance/Resource",
        reason="It holds nothing, keeps its address in an Elastic IP, and every newer image "
        "replaces it: protection would stop deployments and guard no data.",
    ),
    # ---- state ----
    Accepted(
        rule="AEC4",
        at="state/Redis/Group",
        reason="The small stage has one node, for its price. Redis is an index here: what is lost "
        "with it is filled again from MongoDB within a minute.",
    ),
    Accepted(
        rule="AEC5",
        at="state/Redis/Group",
        reason="Its security group lets in the functions alone, in isolated subnets, by TLS and "
        "with a token; another port would hide it from nobody.",
    ),
    Accepted(
        rule="SMG4",
        at="state/Redis/Token*",
        reason="Redis and its secret must change in one order, which docs/guides/servers.md has; "
        "rotation by AWS takes a function that may do both, on a token only these functions have.",
    ),
    Accepted(
        rule="SMG4",
        at="state/Nodes/Node-*",
        reason="The operator's own URIs of databases that the stack does not run.",
    ),
    Accepted(
        rule="SMG4",
        at="state/Atlas/Password/Resource",
        reason="The cluster's user and the node's URI take it while they are deployed: a new one "
        "is a deployment, which rotation by AWS would not bring about.",
    ),
    Accepted(
        rule="S1",
        at="state/Archives/Bucket/Resource",
        reason="A log of accesses needs a second bucket, which would need one in its turn. The "
        "bucket is closed to the public; who must know each access has CloudTrail's data events.",
    ),
    # ---- functions ----
    Accepted(
        rule="L1",
        at="compute*/Function/Resource",
        reason="Python 3.13 is the version whose wheels are pinned, that byte code is made for "
        "and that the tests run on; AWS supports it until 2029.",
    ),
    Accepted(
        rule="IAM5",
        about="Resource::[*]",
        at="compute*/Role/DefaultPolicy/Resource",
        reason="X-Ray has no resources to name, and the interfaces by which Lambda attaches a "
        "function to the VPC do not exist before; these the code itself is denied. Of secrets AWS "
        "lists all names or none, which what removes tenants may. "
        "tests/infra/rights_aws-large.json shows that there are no others.",
    ),
    Accepted(
        rule="IAM5",
        about=f"Resource::*:parameter/crawlfleet/STAGE/{names.CONFIG_SNAPSHOT}/[*]",
        at="compute*/Role/DefaultPolicy/Resource",
        reason="The slots of the configuration's snapshot, of which there are as many as it takes.",
    ),
    Accepted(
        rule="IAM5",
        about="Resource::*:parameter/crawlfleet/STAGE/[*]",
        at="compute*/Role/DefaultPolicy/Resource",
        reason="The config centre's tree of this stage, which grows without a deployment.",
    ),
    Accepted(
        rule="IAM5",
        about="Resource::*:secret:crawlfleet/STAGE/nodes/[*]",
        at="compute*/Role/DefaultPolicy/Resource",
        reason="MongoDB nodes of this stage, which may join without a deployment.",
    ),
    Accepted(
        rule="IAM5",
        about="Resource::*:secret:crawlfleet/STAGE/proxies/[*]",
        at="compute*/consumer*/Role/DefaultPolicy/Resource",
        reason="Lists of proxies of this stage, which operators make by hand.",
    ),
    Accepted(
        rule="IAM5",
        about="Resource::*:secret:crawlfleet/STAGE/tenants/[*]",
        at="compute*/consumer*/Role/DefaultPolicy/Resource",
        reason="Secrets that tenants' documents refer to, which operators make by hand.",
    ),
    Accepted(
        rule="IAM5",
        about="Resource::*:secret:crawlfleet/STAGE/proxies/[*]",
        at="compute/router/Role/DefaultPolicy/Resource",
        reason="The one that a trial leaves by: what tries rules may read no list itself.",
    ),
    Accepted(
        rule="IAM5",
        about="Resource::*:secret:crawlfleet/STAGE/tenants/[*]",
        at="compute/router/Role/DefaultPolicy/Resource",
        reason="Those that a trial's own biz refers to: what tries rules may read none itself.",
    ),
    Accepted(
        rule="IAM5",
        about="Resource::*:parameter/crawlfleet/STAGE/tenants/[*]",
        at="compute/operators/Role/DefaultPolicy/Resource",
        reason="Documents of tenants, which operators add and remove without a deployment.",
    ),
    Accepted(
        rule="IAM5",
        about="Resource::*:parameter/crawlfleet/STAGE/bizs/[*]",
        at="compute/operators/Role/DefaultPolicy/Resource",
        reason="Those of a tenant's bizs, which go with it: deleting them is all that is allowed.",
    ),
    Accepted(
        rule="IAM5",
        about="Resource::*:secret:crawlfleet/STAGE/tenants/[*]",
        at="compute/operators/Role/DefaultPolicy/Resource",
        reason="Secrets of a tenant go with it: deleting them is all that is allowed.",
    ),
    Accepted(
        rule="IAM5",
        about="Resource::*:secret:crawlfleet/STAGE/otlp/[*]",
        at="compute*/Role/DefaultPolicy/Resource",
        reason="What the stage's collector of traces is told, which operators make by hand.",
    ),
    Accepted(
        rule="IAM5",
        about="Resource::*:secret:crawlfleet/STAGE/streams/[*]",
        at="compute/streams/Role/DefaultPolicy/Resource",
        reason="The tokens of the stage's channels, which operators make by hand.",
    ),
    Accepted(
        rule="IAM5",
        about="Resource::arn:*",
        at="compute/streams/Role/DefaultPolicy/Resource",
        reason="Targets of the stage's streams; the operator may end one with a star.",
    ),
    Accepted(
        rule="IAM5",
        about="Resource::*:key/[*]",
        at="compute*/Role/DefaultPolicy/Resource",
        reason="Keys with the stage's alias, by Parameter Store alone: a condition says both.",
    ),
    Accepted(
        rule="SQS3",
        at="compute/Starts/Resource",
        reason="What a tick cannot start stays in it for 14 days, and an alarm tells.",
    ),
    Accepted(
        rule="SQS3",
        at="compute/scheduler-tick-again/Resource",
        reason="The next tick does the work of one that failed; its errors have an alarm.",
    ),
    # ---- API ----
    Accepted(
        rule="IAM5",
        about="Resource::*/apikeys/[*]",
        at="api/TenantKeys/Resource",
        reason="Keys have ids by chance: a condition names the tag that only this stage's have.",
    ),
    Accepted(
        rule="IAM5",
        about="Resource::*/tags/*[*]",
        at="api/TenantKeys/Resource",
        reason="Tags of a key that is being made: a condition has them name this stage, and no key "
        "that is there can be changed.",
    ),
    Accepted(
        rule="IAM5",
        about="Resource::*/keys/[*]",
        at="api/TenantKeys/Resource",
        reason="The keys of the stage's own plan, which tenants join and leave.",
    ),
    Accepted(
        rule="APIG1",
        at="api/Rest/Api/DeploymentStage.*/Resource",
        reason="`localstack` has no logs of the API: LocalStack writes none. On AWS they are on.",
    ),
    Accepted(
        rule="APIG6",
        at="api/Rest/Api/DeploymentStage.*/Resource",
        reason="`localstack` has no logs of the API: LocalStack writes none. On AWS they are on.",
    ),
    Accepted(
        rule="APIG2",
        at="api/Rest/Api/Resource",
        reason="The router checks every field and answers each entry of a batch by itself, which "
        "a schema at the gateway cannot: it would refuse the whole batch, without saying why.",
    ),
    Accepted(
        rule="APIG3",
        at="api/Rest/Api/DeploymentStage.*/Resource",
        reason="Callers are programs with keys, quotas and limits, not browsers. A web ACL costs "
        "more than the stage, and sees the first 64 KB of a body. Attach one where you have one.",
    ),
    Accepted(
        rule="APIG4",
        at="api/Rest/Api/Default/*/Resource",
        reason="A tenant is known by its API key, which API Gateway asks for and the router maps; "
        "health and the OpenAPI document are for everybody, and limited.",
    ),
    Accepted(
        rule="COG4",
        at="api/Rest/Api/Default/*/Resource",
        reason="Callers are programs; there are no people to sign in.",
    ),
    Accepted(
        rule="IAM4",
        about="Policy::*:policy/service-role/AmazonAPIGatewayPushToCloudWatchLogs",
        at="api/Rest/Api/CloudWatchRole/Resource",
        reason="The role of the whole account, by which all its APIs write: AWS made this policy "
        "for it. A stage can leave the role alone: `ApiLogs.ROLE_OF_ACCOUNT`.",
    ),
)


def findings(app: "App", stage: str) -> Iterator[Finding]:
    """Return the findings of the rules in the stacks of a stage."""
    from cdk_nag import AwsSolutionsChecks

    for violation in AwsSolutionsChecks().validate_scope(app).violations:
        rule, _, about = violation.rule_name.partition("[")
        for resource in violation.violating_resources:
            path = resource.construct_path or ""
            yield Finding(
                rule=rule.removeprefix("AwsSolutions-"),
                about=about.removesuffix("]").replace(f"/{stage}/", "/STAGE/"),
                at=path.removeprefix(f"{names.PRODUCT}-{stage}-"),
                words=violation.description,
            )


def main() -> int:
    """Prints each finding with the reason for which it is accepted; 1 if one has none."""
    from aws_cdk import App

    from infra.app import add_stacks
    from infra.stages import STAGES

    unaccepted = 0
    for stage in STAGES.values():
        app = App()
        add_stacks(app, stage)
        for finding in findings(app, stage.name):
            reason = next((one.reason for one in ACCEPTED if one.covers(finding)), None)
            unaccepted += reason is None
            said = reason or f"NOT ACCEPTED: {finding.words}"
            sys.stdout.write(
                f"{stage.name}: {finding.rule} {finding.about} at {finding.at}\n    {said}\n"
            )
    return int(unaccepted > 0)


if __name__ == "__main__":
    sys.exit(main())

"""The one way to make a Lambda function of the fleet, from its description in ``fleet.py``.

Each function has a role of its own that starts with nothing. AWS's managed policies are not used:
they allow writing to every log group of the account.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from aws_cdk import Duration, RemovalPolicy, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from crawlfleet.kernel import names
from infra.components.fleet_network import FleetNetwork
from infra.components.function_layers import architecture, runtime
from infra.fleet import AsynchronousInvocation, FunctionSpec
from infra.stages import Stage

#: What Lambda itself does, as the function's role, to attach the function to the VPC. AWS allows
#: these for ``*`` only, since the interfaces do not exist yet.
_INTERFACE_ACTIONS = (
    "ec2:AssignPrivateIpAddresses",
    "ec2:CreateNetworkInterface",
    "ec2:DeleteNetworkInterface",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSubnets",
    "ec2:UnassignPrivateIpAddresses",
)


class CrawlFunction(Construct):
    """Function, role, log group, and a queue for the events it gave up on.

    Attributes:
        spec: What it was made from.
        function: The Lambda function.
        dead_letters: Queue of asynchronous events that failed or grew too old; None when every
            caller waits for the answer, or they are worth nothing.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        spec: FunctionSpec,
        stage: Stage,
        code: lambda_.Code,
        layers: Sequence[lambda_.ILayerVersion],
        network: FleetNetwork | None,
        environment: Mapping[str, str],
        reserved_concurrency: int | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        if set(environment) != set(spec.environment):
            differ = sorted(set(environment) ^ set(spec.environment))
            raise ValueError(f"{spec.name}: fleet.py and the stack disagree on {differ}")
        self.spec = spec
        name = names.function_name(stage.name, spec.name)
        log_group = logs.LogGroup(
            self,
            "Logs",
            log_group_name=f"/aws/lambda/{name}",
            retention=retention(stage.log_retention_days),
            removal_policy=RemovalPolicy.DESTROY,
        )
        role = self._role(name, log_group, attached=network is not None)
        waiting = spec.asynchronous
        self.dead_letters = (
            self._dead_letters(waiting) if waiting and spec.keeps_dead_letters else None
        )
        self.function = lambda_.Function(
            self,
            "Function",
            function_name=name,
            description=spec.purpose,
            runtime=runtime(),
            architecture=architecture(stage.architecture),
            handler=spec.handler,
            code=code,
            layers=layers,
            memory_size=spec.memory_mb,
            timeout=Duration.seconds(spec.timeout_seconds),
            reserved_concurrent_executions=reserved_concurrency,
            environment={**environment, **_dual_stack(network, ipv6=spec.ipv6)},
            role=role,
            log_group=log_group,
            tracing=lambda_.Tracing.ACTIVE if stage.tracing else lambda_.Tracing.DISABLED,
            **_place(network, ipv6=spec.ipv6),
            dead_letter_queue=self.dead_letters,
            retry_attempts=waiting.retry_attempts if waiting else None,
            max_event_age=Duration.seconds(waiting.max_event_age_seconds) if waiting else None,
            # A worker whose time is up calls for the next one, for as long as there is work. Lambda
            # takes such a chain for a loop that nobody wanted and stops it after some 16 links.
            # Ours ends: none is called for beyond the standing decision (fleet.scaling).
            recursive_loop=lambda_.RecursiveLoop.ALLOW if spec.invokes_itself else None,
        )

    def _role(self, name: str, log_group: logs.LogGroup, *, attached: bool) -> iam.Role:
        """A role that may write its own log and, where there is one, be attached to the VPC."""
        role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
            description=f"What {name} may do",
        )
        log_group.grant_write(role)
        if attached:
            self._allow_attaching(role, name)
        return role

    def _allow_attaching(self, role: iam.Role, name: str) -> None:
        role.add_to_policy(
            iam.PolicyStatement(
                sid="AttachToVpc", actions=list(_INTERFACE_ACTIONS), resources=["*"]
            )
        )
        function_arn = Stack.of(self).format_arn(
            service="lambda", resource=f"function:{name}", resource_name=None
        )
        # Lambda needs the interfaces; the code does not. It runs on what strangers' pages say.
        role.add_to_policy(
            iam.PolicyStatement(
                sid="NotFromTheCode",
                effect=iam.Effect.DENY,
                actions=list(_INTERFACE_ACTIONS),
                resources=["*"],
                conditions={"ArnEquals": {"lambda:SourceFunctionArn": function_arn}},
            )
        )

    def _dead_letters(self, treated: AsynchronousInvocation) -> sqs.Queue:
        return sqs.Queue(
            self,
            "DeadLetters",
            retention_period=Duration.hours(treated.dead_letters_kept_hours),
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            removal_policy=RemovalPolicy.DESTROY,
        )


def _dual_stack(network: FleetNetwork | None, *, ipv6: bool) -> dict[str, str]:
    """Have AWS's SDKs use endpoints that IPv6 leads to: what they say goes past the NAT."""
    return {"AWS_USE_DUALSTACK_ENDPOINT": "true"} if network is not None and ipv6 else {}


def _place(network: FleetNetwork | None, *, ipv6: bool) -> dict[str, Any]:
    """Place the function: in the private subnets, or in no network of ours."""
    if network is None:
        return {}
    return {
        "vpc": network.vpc,
        "vpc_subnets": ec2.SubnetSelection(subnet_type=ec2.SubnetType.PRIVATE_WITH_EGRESS),
        "security_groups": [network.functions_security_group],
        "ipv6_allowed_for_dual_stack": ipv6,
    }


def retention(days: int) -> logs.RetentionDays:
    """CloudWatch's own steps of retention; any other number of days is refused."""
    steps = {
        7: logs.RetentionDays.ONE_WEEK,
        14: logs.RetentionDays.TWO_WEEKS,
        30: logs.RetentionDays.ONE_MONTH,
        90: logs.RetentionDays.THREE_MONTHS,
        365: logs.RetentionDays.ONE_YEAR,
    }
    if days not in steps:
        raise ValueError(f"log_retention_days is {days}; it must be one of {sorted(steps)}")
    return steps[days]

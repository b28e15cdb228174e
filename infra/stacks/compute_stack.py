"""The compute stacks: the functions of a region, their layers, and what each of them may reach.

The stage's own has those of ``fleet.py``. Each other region where pools stand has one with theirs;
a stack there refers to nothing of another region: names are fixed, so ARNs are made of them.
"""

import json
from collections.abc import Iterator, Sequence

from aws_cdk import ArnFormat, CfnOutput, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from crawlfleet.kernel import names
from infra.bundle_contents import Bundle
from infra.components.clock_rule import again_queue
from infra.components.crawl_function import CrawlFunction
from infra.components.fleet_network import FleetNetwork
from infra.components.function_layers import FunctionLayers
from infra.components.spider_rules import starts_queue
from infra.fleet import FLEET, INVOKE_VARIABLES, FunctionSpec
from infra.pools import compute_in
from infra.stacks.place import place
from infra.stacks.state_stack import StateStack
from infra.stages import Stage as Settings
from infra.streams import sends


class ComputeStack(Stack):
    """Composes the functions in the order of ``fleet.py``: those invoked before those who invoke.

    ``away`` is the other region whose pools these are; without it they are the stage's own.

    Attributes:
        functions: The Lambda functions by name.
        dead_letters: Queue of the events that a function gave up on, by the names of those whose
            events are kept.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        stage: Settings,
        network: FleetNetwork | None,
        state: StateStack,
        bundle: Bundle,
        scrapy_packages: Sequence[str],
        away: str = "",
    ) -> None:
        super().__init__(
            scope,
            construct_id,
            env=place(away or stage.region),
            description=f"Crawlfleet {stage.name}: functions"
            + (f" of the pools in {away}" if away else ""),
            termination_protection=stage.protects(compute_in(away) if away else "compute"),
        )
        self._away = away
        self._fleet = stage.fleet
        self._stage = stage
        self._state = state
        self._scrapy_packages = scrapy_packages
        layers = FunctionLayers(self, "Layers", bundle=bundle, chosen=stage.architecture)
        self._starts = starts_queue(self, stage) if stage.spider_rules and not away else None
        self.functions: dict[str, lambda_.IFunction] = {}
        self.dead_letters: dict[str, sqs.IQueue] = {}
        for spec in self._fleet.functions:
            if spec.region != away:
                continue
            made = CrawlFunction(
                self,
                spec.name,
                spec=spec,
                stage=stage,
                code=lambda_.Code.from_asset(
                    str(bundle.functions.get(spec.name) or bundle.functions[spec.code_of])
                ),
                layers=layers.of(spec),
                network=network if spec.in_network else None,
                environment=dict(self._environment(spec)),
                reserved_concurrency=self._reserved_concurrency(spec),
            )
            self._grant(made)
            self.functions[spec.name] = made.function
            if made.dead_letters is not None:
                self.dead_letters[spec.name] = made.dead_letters
            for clock in FLEET.clocks:
                if clock.again_seconds and clock.function == spec.name:
                    again_queue(self, clock=clock, stage=stage, spec=spec, function=made.function)
            self._announce(made)

    def _environment(self, spec: FunctionSpec) -> Iterator[tuple[str, str]]:
        """Return the environment variables of one function."""
        streams = self._stage.streams
        known = {
            names.ENV_STAGE: self._stage.name,
            names.ENV_LOG_LEVEL: self._stage.log_level,
            names.ENV_REDIS_URL: self._state.redis.url,
            names.ENV_PLAIN_STORES: ",".join(self._stage.plain_stores),
            names.ENV_REDIS_SECRET: self._state.redis.token_name
            if self._away
            else self._state.redis.token_id,
            names.ENV_NODE_SECRET: self._state.node_secrets.name_pattern,
            names.ENV_PEOPLE_TOPIC: self._state.notifications.people.topic_arn,
            names.ENV_PHONES_TOPIC: self._state.notifications.phones.topic_arn,
            names.ENV_MACHINES_TOPIC: self._state.notifications.machines.topic_arn,
            names.ENV_STARTS_QUEUE: "" if self._starts is None else self._starts.queue_url,
            names.ENV_CONSUMER_CEILING: str(self._stage.consumer_concurrency),
            names.ENV_STREAM_READERS: str(streams.readers if streams else 0),
            names.ENV_DEFAULT_API_KEY_ID: self._state.default_api_key.key.key_id,
            names.ENV_KEYS_REGION: self._state.region,
            names.ENV_SCRAPY_PACKAGES: ",".join(self._scrapy_packages),
            names.ENV_POOLS: self._pools(),
            names.ENV_POOL: spec.pool,
            names.ENV_HOME_REGION: self._stage.region,
        }
        invoked = {
            INVOKE_VARIABLES[name]: name for name in spec.grants.invokes if name in INVOKE_VARIABLES
        }
        for variable in spec.environment:
            if variable in invoked:
                yield variable, self._address(invoked[variable])
            else:
                yield variable, known[variable]

    def _pools(self) -> str:
        """Return what functions know of the pools beside the usual one (kernel.queue_key.Pool)."""
        return json.dumps(
            [
                pool.description(
                    region=pool.region or self._state.region,
                    function=names.function_name(self._stage.name, pool.function)
                    if pool.region == self._away
                    else self._formed_arn(pool.function),
                )
                for pool in self._stage.pools
            ]
        )

    def _grant(self, made: CrawlFunction) -> None:
        grants, function = made.spec.grants, made.function
        if grants.reads_config:
            self._state.config_tree.grant_read(function)
        if grants.reads_redis_secret:
            self._state.redis.grant_token(function, away=bool(self._away))
        if grants.reads_node_secrets:
            self._state.node_secrets.grant_read(function)
        if grants.reads_page_secrets:
            self._state.node_secrets.grant_read_for_pages(function)
        if grants.reads_collector_secrets:
            self._state.node_secrets.grant_read_for_traces(function)
        if grants.reads_stream_secrets:
            self._state.node_secrets.grant_read_for_streams(function)
        for action, arns in sends(grants.delivers).items():
            iam.Grant.add_to_principal(grantee=function, actions=[action], resource_arns=list(arns))
        if grants.notifies:
            self._state.notifications.grant_publish(function)
        if grants.takes_starts and self._starts is not None:
            # Not `grant_consume_messages`, which lets it see and change what the queue is besides.
            takes = ("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:SendMessage")
            self._starts.grant(function, *takes)
        if grants.manages_tenants:
            # Keys are the stack `api`'s: what they join is made there.
            self._state.config_tree.grant_tenants(function)
            self._state.node_secrets.grant_removal_of_tenants(function)
        for name in grants.invokes:
            # Not `grant_invoke`, which lets in all versions and aliases besides.
            iam.Grant.add_to_principal(
                grantee=function,
                actions=["lambda:InvokeFunction"],
                resource_arns=[self._arn(name, made.spec.name)],
            )
        for name in grants.limits:
            iam.Grant.add_to_principal(
                grantee=function,
                actions=["lambda:GetFunctionConcurrency", "lambda:PutFunctionConcurrency"],
                resource_arns=[self._arn(name, made.spec.name)],
            )

    def _address(self, name: str) -> str:
        """The name of a function, also of one that is being made: nothing can refer to it yet.

        The ARN of one in another region: by that its callers know where to call.
        """
        if self._fleet.function(name).region != self._away:
            return self._formed_arn(name)
        made = self.functions.get(name)
        return names.function_name(self._stage.name, name) if made is None else made.function_name

    def _arn(self, name: str, holder: str) -> str:
        """The ARN of a function for what ``holder`` may do.

        To itself none can refer, and workers of different pools invoke one another: each refers to
        those that were made before it.
        """
        if name != holder and name in self.functions:
            return self.functions[name].function_arn
        return self._formed_arn(name)

    def _formed_arn(self, name: str) -> str:
        """The ARN of a function, without a reference to it."""
        return self.format_arn(
            service="lambda",
            region=self._fleet.function(name).region or self._state.region,
            resource="function",
            resource_name=names.function_name(self._stage.name, name),
            arn_format=ArnFormat.COLON_RESOURCE_NAME,
        )

    def _announce(self, made: CrawlFunction) -> None:
        """Outputs for the operator: where the function logs, and where its lost events lie."""
        words = made.spec.name.title().replace("-", "")
        CfnOutput(self, f"{words}LogGroup", value=made.function.log_group.log_group_name)
        if made.dead_letters is not None:
            CfnOutput(self, f"{words}DeadLetters", value=made.dead_letters.queue_url)

    def _reserved_concurrency(self, spec: FunctionSpec) -> int | None:
        if spec.name == names.CONSUMER:
            return self._stage.consumer_concurrency
        if spec.name == names.TRIALS:
            return self._stage.trials_concurrency
        return spec.reserved_concurrency

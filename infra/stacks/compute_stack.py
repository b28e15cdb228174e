"""The compute stack: the five functions, their layers, and what each of them may reach."""

from collections.abc import Iterator, Sequence

from aws_cdk import CfnOutput, Stack
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from crawlfleet import names
from infra.bundle import Bundle
from infra.components.crawl_function import CrawlFunction
from infra.components.fleet_network import FleetNetwork
from infra.components.function_layers import FunctionLayers
from infra.fleet import FLEET, INVOKE_VARIABLES, FunctionSpec
from infra.stacks.state_stack import StateStack
from infra.stages import Stage as Settings


class ComputeStack(Stack):
    """Composes the functions in the order of ``fleet.py``: those invoked before those who invoke.

    Attributes:
        functions: The Lambda functions by name.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        stage: Settings,
        network: FleetNetwork,
        state: StateStack,
        bundle: Bundle,
        scrapy_packages: Sequence[str],
    ) -> None:
        super().__init__(scope, construct_id, description=f"Crawlfleet {stage.name}: functions")
        self._stage = stage
        self._state = state
        self._scrapy_packages = scrapy_packages
        layers = FunctionLayers(self, "Layers", bundle=bundle, chosen=stage.architecture)
        self.functions: dict[str, lambda_.IFunction] = {}
        for spec in FLEET.functions:
            made = CrawlFunction(
                self,
                spec.name,
                spec=spec,
                stage=stage,
                code=lambda_.Code.from_asset(str(bundle.functions[spec.name])),
                layers=layers.of(spec),
                network=network,
                environment=dict(self._environment(spec)),
                reserved_concurrency=self._reserved_concurrency(spec),
            )
            self._grant(made)
            self.functions[spec.name] = made.function
            self._tell(made)

    def _environment(self, spec: FunctionSpec) -> Iterator[tuple[str, str]]:
        """Where things are, for one function."""
        known = {
            names.ENV_STAGE: self._stage.name,
            names.ENV_LOG_LEVEL: self._stage.log_level,
            names.ENV_REDIS_URL: self._state.redis.url,
            names.ENV_REDIS_SECRET: self._state.redis.token.secret_arn,
            names.ENV_NODE_SECRET: self._state.node_secrets.name_pattern,
            names.ENV_DEFAULT_API_KEY_ID: self._state.default_api_key.key.key_id,
            names.ENV_SCRAPY_PACKAGES: ",".join(self._scrapy_packages),
        }
        invoked = {INVOKE_VARIABLES[name]: name for name in spec.grants.invokes}
        for variable in spec.environment:
            if variable in invoked:
                yield variable, self.functions[invoked[variable]].function_name
            else:
                yield variable, known[variable]

    def _grant(self, made: CrawlFunction) -> None:
        grants, function = made.spec.grants, made.function
        if grants.reads_config:
            self._state.config_tree.grant_read(function)
        if grants.reads_redis_secret:
            self._state.redis.grant_token(function)
        if grants.reads_node_secrets:
            self._state.node_secrets.grant_read(function)
        if grants.reads_proxy_secrets:
            self._state.node_secrets.grant_read_proxies(function)
        for name in grants.invokes:
            self.functions[name].grant_invoke(function)

    def _tell(self, made: CrawlFunction) -> None:
        """Outputs for the operator: where the function logs, and where its lost events lie."""
        words = made.spec.name.title().replace("-", "")
        CfnOutput(self, f"{words}LogGroup", value=made.function.log_group.log_group_name)
        if made.dead_letters is not None:
            CfnOutput(self, f"{words}DeadLetters", value=made.dead_letters.queue_url)

    def _reserved_concurrency(self, spec: FunctionSpec) -> int | None:
        if spec.name == names.CONSUMER:
            return self._stage.consumer_concurrency
        return spec.reserved_concurrency

"""The state stack: everything that must outlive a deployment, in a stack that refuses deletion.

Logical ids here are fixed by hand. A stateful resource whose logical id changes is replaced, and
its data with it; a test holds the list.
"""

from aws_cdk import CfnOutput, Stack
from constructs import Construct

from infra.components.config_tree import ConfigTree
from infra.components.default_api_key import DefaultApiKey
from infra.components.fleet_network import FleetNetwork
from infra.components.node_secrets import NodeSecrets
from infra.components.redis_store import RedisStore
from infra.stages import Stage as Settings


class StateStack(Stack):
    """Composes Redis, the MongoDB secrets, the config tree's place and the default API key.

    Attributes:
        redis: The queue's Redis and its token.
        node_secrets: MongoDB URIs.
        config_tree: Where the config centre keeps its parameters.
        default_api_key: Key of the default tenant.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, stage: Settings, network: FleetNetwork
    ) -> None:
        super().__init__(
            scope,
            construct_id,
            description=f"Crawlfleet {stage.name}: state",
            termination_protection=stage.keep_state,
        )
        self.redis = RedisStore(
            self,
            "Redis",
            stage=stage,
            vpc=network.vpc,
            clients=network.functions_security_group,
        )
        self.node_secrets = NodeSecrets(self, "Nodes", stage=stage)
        self.config_tree = ConfigTree(self, "Config", stage=stage)
        self.default_api_key = DefaultApiKey(self, "ApiKey", stage=stage)
        CfnOutput(
            self,
            "ConfigRoot",
            value=self.config_tree.root,
            description="Fill with `crawlfleet config push`; no stack writes below it",
        )
        CfnOutput(
            self,
            "NodeSecrets",
            value=self.node_secrets.name_pattern,
            description="Secrets that hold the URI of each MongoDB node",
        )
        CfnOutput(
            self,
            "DefaultApiKeyId",
            value=self.default_api_key.key.key_id,
            description="`aws apigateway get-api-key --include-value --api-key <this>` shows it",
        )

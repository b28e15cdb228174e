"""The state stack: everything that must outlive a deployment, in a stack that refuses deletion.

What outlives even the stack is in ``components/keeping.py``.

Logical ids here are fixed by hand. A stateful resource whose logical id changes is replaced, and
its data with it; a test holds the list.
"""

from aws_cdk import CfnOutput, Stack
from constructs import Construct

from infra.components.archive_bucket import ArchiveBucket
from infra.components.atlas_cluster import AtlasCluster
from infra.components.config_tree import ConfigTree
from infra.components.default_api_key import DefaultApiKey
from infra.components.fleet_network import FleetNetwork
from infra.components.node_secrets import NodeSecrets
from infra.components.notifications import Notifications
from infra.components.redis_store import ElastiCacheStore, GivenStore, RedisStore
from infra.stacks.place import place
from infra.stages import GivenRedis
from infra.stages import Stage as Settings


class StateStack(Stack):
    """Composes Redis, MongoDB and its secrets, the archive, the config's place, the default key.

    Attributes:
        redis: The queue's Redis and its token, made here or given.
        node_secrets: MongoDB URIs.
        archive: Bucket for what outlives requests.
        config_tree: Where the config centre keeps its parameters.
        default_api_key: Key of the default tenant.
        notifications: Topics by which people, phones and machines are told what is wrong.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, stage: Settings, network: FleetNetwork | None
    ) -> None:
        super().__init__(
            scope,
            construct_id,
            env=place(stage.region),
            description=f"Crawlfleet {stage.name}: state",
            termination_protection=stage.protects("state"),
        )
        self.redis = self._redis(stage, network)
        uris = {}
        if stage.atlas is not None and network is not None:
            made = AtlasCluster(
                self,
                "Atlas",
                stage=stage,
                settings=stage.atlas,
                clients=network.egress_addresses,
            )
            uris[stage.atlas.node] = made.uri
        self.node_secrets = NodeSecrets(self, "Nodes", stage=stage, uris=uris)
        self.archive = ArchiveBucket(self, "Archives", stage=stage)
        self.config_tree = ConfigTree(self, "Config", stage=stage)
        self.default_api_key = DefaultApiKey(self, "ApiKey", stage=stage)
        self.notifications = Notifications(self, "Notifications", stage=stage)
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
            "ArchiveBucket",
            value=self.archive.bucket.bucket_name,
            description="Bucket for pages and exports that outlive their requests",
        )
        CfnOutput(
            self,
            "PeopleTopic",
            value=self.notifications.people.topic_arn,
            description="Messages for administrators, about everything; subscribe e-mail addresses",
        )
        CfnOutput(
            self,
            "PhonesTopic",
            value=self.notifications.phones.topic_arn,
            description="What is critical, in 140 characters; subscribe phones",
        )
        CfnOutput(
            self,
            "MachinesTopic",
            value=self.notifications.machines.topic_arn,
            description="Incidents as JSON, and alarms; subscribe queues and endpoints",
        )
        CfnOutput(
            self,
            "DefaultApiKeyId",
            value=self.default_api_key.key.key_id,
            description="`aws apigateway get-api-key --include-value --api-key <this>` shows it",
        )

    def _redis(self, stage: Settings, network: FleetNetwork | None) -> RedisStore:
        match stage.redis:
            case GivenRedis() as settings:
                return GivenStore(self, "Redis", stage=stage, settings=settings)
            case settings if network is not None:
                return ElastiCacheStore(
                    self,
                    "Redis",
                    stage=stage,
                    settings=settings,
                    vpc=network.vpc,
                    clients=network.functions_security_group,
                )
        raise ValueError(f"stage {stage.name!r}: ElastiCache without a network")

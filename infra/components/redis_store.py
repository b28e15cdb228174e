"""The queue's Redis: an ElastiCache replication group that evicts nothing, or one that stands.

MongoDB holds every request, Redis an index (DESIGN.md, decision 1): its loss costs a rebuild and no
request; yet an entry that Redis evicted quietly would wait for recovery, hence ``noeviction``.
A stage that keeps its state keeps of Redis a snapshot: the group itself would hold on to its
subnets and firewall, without which neither its stack nor the network could be deleted.
"""

from typing import Any, Final, Protocol

from aws_cdk import ArnFormat, RemovalPolicy, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_elasticache as elasticache
from aws_cdk import aws_iam as iam
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from crawlfleet.kernel import names
from infra.components.keeping import kept, saved
from infra.redis_users import rules_of_tenant, user_name
from infra.stages import ElastiCache, Engine, GivenRedis, Stage

PORT = 6379

#: Version of each engine, and the family of parameters that belongs to it.
_ENGINES: Final = {Engine.REDIS: ("7.1", "redis7"), Engine.VALKEY: ("8.0", "valkey8")}

_PASSWORD: Final = secretsmanager.SecretStringGenerator(
    exclude_punctuation=True, include_space=False, password_length=64
)


class RedisStore(Protocol):
    """The address and secret of Redis, for the functions.

    Attributes:
        url: Its address as ``names.ENV_REDIS_URL`` has it, without the token.
        token_id: Secret that holds the token, by its ARN; empty where Redis asks for none.
        token_name: The same by its name, for stacks of other regions, which cannot refer to it.
    """

    url: str
    token_id: str
    token_name: str

    def grant_token(self, grantee: iam.IGrantable, *, away: bool = False) -> None:
        """Lets the grantee read the token, if there is one; ``away`` is in another region."""


class GivenStore(Construct):
    """A Redis that somebody else runs. See :class:`RedisStore`."""

    def __init__(
        self, scope: Construct, construct_id: str, *, stage: Stage, settings: GivenRedis
    ) -> None:
        super().__init__(scope, construct_id)
        self.url = settings.url
        self.token_id = self.token_name = ""
        if settings.has_token:
            # Not the L2 construct: that one would fill in a random password that Redis refuses.
            secret = secretsmanager.CfnSecret(
                self,
                "Token",
                name=token_name(stage),
                description="Password of the queue's Redis; put in by the operator",
            )
            secret.apply_removal_policy(kept(stage))
            secret.override_logical_id("RedisToken")
            self.token_id = secret.ref
            self.token_name = token_name(stage)

    def grant_token(self, grantee: iam.IGrantable, *, away: bool = False) -> None:
        """Lets the grantee read the token, if there is one; ``away`` is in another region."""
        if away and self.token_name:
            # Secrets Manager puts a hyphen and six characters of its own behind the name.
            formed = Stack.of(self).format_arn(
                service="secretsmanager",
                resource="secret",
                resource_name=f"{self.token_name}-??????",
                arn_format=ArnFormat.COLON_RESOURCE_NAME,
            )
            _grant(grantee, formed)
        elif self.token_id:
            _grant(grantee, self.token_id)


class ElastiCacheStore(Construct):
    """Replication group, AUTH token and the firewall round them. See :class:`RedisStore`.

    With cluster mode the address is the one that tells clients of all primaries.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        stage: Stage,
        settings: ElastiCache,
        vpc: ec2.IVpc,
        clients: ec2.ISecurityGroup,
    ) -> None:
        super().__init__(scope, construct_id)
        token = secretsmanager.Secret(
            self,
            "Token",
            secret_name=token_name(stage),
            description="AUTH token of the queue's Redis",
            generate_secret_string=_PASSWORD,
            # It opens this group and no other: a next one makes its own, under the same name.
            removal_policy=RemovalPolicy.DESTROY,
        )
        _pin(token, "RedisToken")
        version, family = _ENGINES[settings.engine]
        parameters = elasticache.CfnParameterGroup(
            self,
            "Parameters",
            cache_parameter_group_family=family,
            description="Queue entries are never evicted",
            properties={"maxmemory-policy": "noeviction"}
            | ({"cluster-enabled": "yes"} if settings.cluster_shards else {}),
        )
        subnets = elasticache.CfnSubnetGroup(
            self,
            "Subnets",
            description="Isolated subnets of the stores",
            subnet_ids=vpc.select_subnets(subnet_type=ec2.SubnetType.PRIVATE_ISOLATED).subnet_ids,
        )
        group = elasticache.CfnReplicationGroup(
            self,
            "Group",
            replication_group_id=f"{names.PRODUCT}-{stage.name}",
            replication_group_description="Crawlfleet queues and leases",
            engine=settings.engine.value,
            engine_version=version,
            cache_node_type=settings.node_type,
            **_layout(settings),
            multi_az_enabled=settings.replicas > 0,
            cache_parameter_group_name=parameters.ref,
            cache_subnet_group_name=subnets.ref,
            security_group_ids=[self._firewall(vpc, clients).security_group_id],
            port=PORT,
            at_rest_encryption_enabled=True,
            transit_encryption_enabled=True,
            **self._access(stage, settings, token),
            snapshot_name=settings.snapshot,
            snapshot_retention_limit=settings.snapshot_days,
            snapshot_window="03:00-04:00",
            preferred_maintenance_window="sun:04:30-sun:05:30",
            auto_minor_version_upgrade=True,
        )
        group.apply_removal_policy(saved(stage))
        group.override_logical_id("Redis")
        self.url = (
            f"rediss+cluster://{group.attr_configuration_end_point_address}:{PORT}"
            if settings.cluster_shards
            else f"rediss://{group.attr_primary_end_point_address}:{PORT}"
        )
        self.token_id = token.secret_arn
        self.token_name = token_name(stage)

    def _access(
        self, stage: Stage, settings: ElastiCache, token: secretsmanager.Secret
    ) -> dict[str, Any]:
        """Return who is let in: whoever has the token, or the users of a group.

        ElastiCache has the one or the other. The functions are the user ``default`` then, whose
        password is the token, so they connect as before.
        """
        # References that CloudFormation resolves while deploying, not the secrets.
        password = token.secret_value.unsafe_unwrap()
        if not settings.scrapy_tenants:
            return {"auth_token": password}
        users = [self._user(stage, settings, "default", "~* +@all", password)]
        for tenant in settings.scrapy_tenants:
            name = user_name(tenant)
            secret = secretsmanager.Secret(
                self,
                f"Password-{tenant}",
                secret_name=f"{token_name(stage)}-{name}",
                description=f"Password of {name}, which sees the keys of {tenant} alone",
                generate_secret_string=_PASSWORD,
                removal_policy=RemovalPolicy.DESTROY,
            )
            rules = rules_of_tenant(tenant, cluster=bool(settings.cluster_shards))
            own = secret.secret_value.unsafe_unwrap()
            users.append(self._user(stage, settings, name, rules, own))
        group = elasticache.CfnUserGroup(
            self,
            "Users",
            engine=settings.engine.value,
            user_group_id=f"{names.PRODUCT}-{stage.name}",
            user_ids=[user.ref for user in users],
        )
        return {"user_group_ids": [group.ref]}

    def _user(
        self, stage: Stage, settings: ElastiCache, name: str, rules: str, password: str
    ) -> elasticache.CfnUser:
        return elasticache.CfnUser(
            self,
            f"User-{name}",
            engine=settings.engine.value,
            user_id=f"{names.PRODUCT}-{stage.name}-{name}",
            user_name=name,
            access_string=f"on {rules}",
            passwords=[password],
        )

    def grant_token(self, grantee: iam.IGrantable, *, away: bool = False) -> None:
        """Lets the grantee read the AUTH token; nobody ``away`` reaches this Redis."""
        if away:
            raise ValueError("ElastiCache is reached from its own VPC alone")
        _grant(grantee, self.token_id)

    def _firewall(self, vpc: ec2.IVpc, clients: ec2.ISecurityGroup) -> ec2.SecurityGroup:
        firewall = ec2.SecurityGroup(
            self,
            "Firewall",
            vpc=vpc,
            description="Redis: in from the functions alone, out to nowhere",
            allow_all_outbound=False,
        )
        firewall.add_ingress_rule(clients, ec2.Port.tcp(PORT), "The functions")
        return firewall


def token_name(stage: Stage) -> str:
    """Name of the secret with the token."""
    return f"{names.PRODUCT}/{stage.name}/redis"


def _layout(settings: ElastiCache) -> dict[str, Any]:
    """Return how many nodes there are, and which: ElastiCache says the two modes differently."""
    if settings.cluster_shards:
        return {
            "cluster_mode": "enabled",
            "num_node_groups": settings.cluster_shards,
            "replicas_per_node_group": settings.replicas,
            # AWS has no cluster mode without it, even where there is nobody to fail over to.
            "automatic_failover_enabled": True,
        }
    return {
        "num_cache_clusters": 1 + settings.replicas,
        "automatic_failover_enabled": settings.replicas > 0,
    }


def _grant(grantee: iam.IGrantable, secret_arn: str) -> None:
    iam.Grant.add_to_principal(
        grantee=grantee, actions=["secretsmanager:GetSecretValue"], resource_arns=[secret_arn]
    )


def _pin(secret: secretsmanager.Secret, logical_id: str) -> None:
    """Fixes the logical id, so that moving code about never replaces what is stored."""
    resource = secret.node.default_child
    if not isinstance(resource, secretsmanager.CfnSecret):
        raise TypeError(f"{logical_id} is no secret: {resource!r}")
    resource.override_logical_id(logical_id)

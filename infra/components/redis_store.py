"""The queue's Redis: an ElastiCache replication group that evicts nothing.

MongoDB is the truth and Redis the index (DESIGN.md, decision 1), so losing it costs a rebuild and
no request; yet an entry that Redis evicted quietly would wait for recovery, hence ``noeviction``.
"""

from aws_cdk import RemovalPolicy
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_elasticache as elasticache
from aws_cdk import aws_iam as iam
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from crawlfleet import names
from infra.stages import Stage

PORT = 6379


class RedisStore(Construct):
    """Replication group, AUTH token and the firewall round them.

    Attributes:
        token: Secret that holds the AUTH token, made once and never written in a template.
        url: ``rediss://`` address of the primary, without the token.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        stage: Stage,
        vpc: ec2.IVpc,
        clients: ec2.ISecurityGroup,
    ) -> None:
        super().__init__(scope, construct_id)
        kept = RemovalPolicy.RETAIN if stage.keep_state else RemovalPolicy.DESTROY
        name = f"{names.PRODUCT}-{stage.name}"
        self.token = secretsmanager.Secret(
            self,
            "Token",
            secret_name=f"{names.PRODUCT}/{stage.name}/redis",
            description="AUTH token of the queue's Redis",
            generate_secret_string=secretsmanager.SecretStringGenerator(
                exclude_punctuation=True, include_space=False, password_length=64
            ),
            removal_policy=kept,
        )
        _pin(self.token, "RedisToken")
        parameters = elasticache.CfnParameterGroup(
            self,
            "Parameters",
            cache_parameter_group_family="redis7",
            description="Queue entries are never evicted",
            properties={"maxmemory-policy": "noeviction"},
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
            replication_group_id=name,
            replication_group_description="Crawlfleet queues and leases",
            engine="redis",
            engine_version="7.1",
            cache_node_type=stage.redis.node_type,
            num_cache_clusters=1 + stage.redis.replicas,
            automatic_failover_enabled=stage.redis.replicas > 0,
            multi_az_enabled=stage.redis.replicas > 0,
            cache_parameter_group_name=parameters.ref,
            cache_subnet_group_name=subnets.ref,
            security_group_ids=[self._firewall(vpc, clients).security_group_id],
            port=PORT,
            at_rest_encryption_enabled=True,
            transit_encryption_enabled=True,
            # A reference that CloudFormation resolves while deploying, not the token.
            auth_token=self.token.secret_value.unsafe_unwrap(),
            snapshot_retention_limit=stage.redis.snapshot_days,
            snapshot_window="03:00-04:00",
            preferred_maintenance_window="sun:04:30-sun:05:30",
            auto_minor_version_upgrade=True,
        )
        group.apply_removal_policy(kept)
        group.override_logical_id("Redis")
        self.url = f"rediss://{group.attr_primary_end_point_address}:{PORT}"

    def grant_token(self, grantee: iam.IGrantable) -> None:
        """Lets the grantee read the AUTH token."""
        iam.Grant.add_to_principal(
            grantee=grantee,
            actions=["secretsmanager:GetSecretValue"],
            resource_arns=[self.token.secret_arn],
        )

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


def _pin(secret: secretsmanager.Secret, logical_id: str) -> None:
    """Fixes the logical id, so that moving code about never replaces what is stored."""
    resource = secret.node.default_child
    if not isinstance(resource, secretsmanager.CfnSecret):
        raise TypeError(f"{logical_id} is no secret: {resource!r}")
    resource.override_logical_id(logical_id)

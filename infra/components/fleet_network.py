"""The network: private dual-stack subnets, with ways out that cost little.

A consumer talks to the whole web, so egress decides the bill (DESIGN.md, decision 9). IPv6 leaves
through an egress-only gateway, which is free. IPv4 leaves through NAT instances of a few dollars a
month, or through NAT gateways where the stage asks for them. Of the VPC endpoints only S3's gateway
is here: it is free, and an interface endpoint a zone and service costs more than the few calls to
Parameter Store and Secrets Manager that it would carry.
"""

import hashlib

from aws_cdk import Stack, Tags
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.components.nat_instance import user_data
from infra.stages import ZONES, Nat, Vpc

#: What Amazon Linux 2023, the image of NAT instances, calls its disk.
_ROOT_DEVICE = "/dev/xvda"


class FleetNetwork(Construct):
    """The VPC and the security group that all functions share.

    Attributes:
        vpc: Subnets ``public`` (NAT), ``functions`` (private, egress) and ``stores`` (isolated).
        functions_security_group: Outbound to anywhere, for crawling; inbound from nowhere.
        egress_addresses: IPv4 addresses from which the functions are seen outside.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, stage_name: str, settings: Vpc
    ) -> None:
        super().__init__(scope, construct_id)
        instances = self._nat_instances(settings) if settings.nat is Nat.INSTANCE else None
        self.vpc = ec2.Vpc(
            self,
            "Vpc",
            ip_protocol=ec2.IpProtocol.DUAL_STACK,
            max_azs=ZONES,
            nat_gateway_provider=instances,
            nat_gateways=settings.nat_count,
            subnet_configuration=[
                ec2.SubnetConfiguration(
                    name="public",
                    subnet_type=ec2.SubnetType.PUBLIC,
                    # Dual-stack subnets give no IPv4 address unasked, and a NAT instance needs one.
                    map_public_ip_on_launch=True,
                ),
                ec2.SubnetConfiguration(
                    name="functions", subnet_type=ec2.SubnetType.PRIVATE_WITH_EGRESS
                ),
                ec2.SubnetConfiguration(
                    name="stores", subnet_type=ec2.SubnetType.PRIVATE_ISOLATED, cidr_mask=26
                ),
            ],
        )
        endpoint = self.vpc.add_gateway_endpoint("S3", service=ec2.GatewayVpcEndpointAwsService.S3)
        # Pages of the web live in S3 too, and so does what NAT instances install; no function
        # writes there, so nothing leaves by this way.
        endpoint.add_to_policy(
            iam.PolicyStatement(
                principals=[iam.AnyPrincipal()],
                actions=["s3:GetObject", "s3:GetObjectVersion", "s3:ListBucket"],
                resources=["*"],
            )
        )
        if instances is not None:
            instances.connections.allow_from(
                ec2.Peer.ipv4(self.vpc.vpc_cidr_block),
                ec2.Port.all_traffic(),
                "What the private subnets send out",
            )
            for instance in instances.gateway_instances:
                self._settle(instance)
        self.egress_addresses = [
            eip.ref for eip in self.node.find_all() if isinstance(eip, ec2.CfnEIP)
        ]
        self.functions_security_group = ec2.SecurityGroup(
            self,
            "Functions",
            vpc=self.vpc,
            description="Crawlfleet functions: out to the web and the stores, in from nowhere",
            allow_all_outbound=True,
            allow_all_ipv6_outbound=True,
        )
        Tags.of(self.vpc).add("Name", f"crawlfleet-{stage_name}")

    def _settle(self, instance: ec2.Instance) -> None:
        """Gives a NAT instance an encrypted disk, an address that outlives it, and a way out.

        A deployment replaces the instance whenever a newer image is out; whoever admits the fleet
        by address, such as MongoDB Atlas, must not notice. A change of what it runs at its first
        start replaces it too: an instance that stands would never hear of it.
        """
        text = instance.user_data.render()
        digest = hashlib.sha256(text.encode()).hexdigest()[:8]
        made = Stack.of(self).get_logical_id(instance.instance)
        instance.instance.override_logical_id(f"{made}{digest}")
        instance.instance.block_device_mappings = [
            ec2.CfnInstance.BlockDeviceMappingProperty(
                device_name=_ROOT_DEVICE, ebs=ec2.CfnInstance.EbsProperty(encrypted=True)
            )
        ]
        address = ec2.CfnEIP(instance, "Address", domain="vpc")
        ec2.CfnEIPAssociation(
            instance,
            "AddressAssociation",
            allocation_id=address.attr_allocation_id,
            instance_id=instance.instance_id,
        )
        # Its packet filter comes from there.
        for subnet in self.vpc.public_subnets:
            instance.node.add_dependency(subnet.internet_connectivity_established)

    @staticmethod
    def _nat_instances(settings: Vpc) -> ec2.NatInstanceProviderV2:
        return ec2.NatProvider.instance_v2(
            instance_type=ec2.InstanceType(settings.nat_instance_type),
            default_allowed_traffic=ec2.NatTrafficDirection.OUTBOUND_ONLY,
            user_data=user_data(),
            # A burst of crawling must not meet the credit limit of a small instance. What that can
            # cost is in docs/how-it-works/cost.md.
            credit_specification=ec2.CpuCredits.UNLIMITED,
        )

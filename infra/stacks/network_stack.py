"""The network stack: the VPC all else stands in."""

from aws_cdk import CfnOutput, Fn, Stack
from constructs import Construct

from infra.components.fleet_network import FleetNetwork
from infra.stacks.place import place
from infra.stages import Stage as Settings
from infra.stages import Vpc


class NetworkStack(Stack):
    """Composes the network.

    Attributes:
        network: VPC and the functions' security group.
    """

    def __init__(self, scope: Construct, construct_id: str, *, stage: Settings, vpc: Vpc) -> None:
        super().__init__(
            scope,
            construct_id,
            env=place(stage.region),
            description=f"Crawlfleet {stage.name}: network",
            termination_protection=stage.protects("network"),
        )
        self.network = FleetNetwork(self, "Network", stage_name=stage.name, settings=vpc)
        CfnOutput(
            self,
            "EgressAddresses",
            value=Fn.join(",", self.network.egress_addresses),
            description="IPv4 addresses the functions are seen from; admit them to MongoDB",
        )

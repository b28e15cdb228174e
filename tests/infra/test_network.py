"""The network: two ways out, one way in, and no bill for standing still."""

import dataclasses
import json
from collections.abc import Callable

from infra.stages import STAGES, Nat, Stage, Vpc
from tests.infra.assembly import STAGE, Assembly

SETTINGS = STAGES[STAGE].vpc or Vpc(nat_count=0)


def test_default_egress_is_one_nat_instance_a_zone_and_no_gateway(assembly: Assembly):
    instances = assembly.resources("network", "AWS::EC2::Instance").values()

    assert len(instances) == SETTINGS.nat_count
    assert assembly.resources("network", "AWS::EC2::NatGateway") == {}
    for instance in instances:
        assert instance["Properties"]["SourceDestCheck"] is False
        assert instance["Properties"]["InstanceType"] == SETTINGS.nat_instance_type


def test_disks_of_nat_instances_are_encrypted(assembly: Assembly):
    for instance in assembly.resources("network", "AWS::EC2::Instance").values():
        [disk] = instance["Properties"]["BlockDeviceMappings"]
        assert disk["Ebs"]["Encrypted"] is True


def test_nat_instances_have_public_ipv4_addresses(assembly: Assembly):
    subnets = assembly.resources("network", "AWS::EC2::Subnet")

    for instance in assembly.resources("network", "AWS::EC2::Instance").values():
        subnet = subnets[instance["Properties"]["SubnetId"]["Ref"]]["Properties"]
        assert subnet["MapPublicIpOnLaunch"] is True


def test_addresses_outlive_the_nat_instances_and_are_reported_to_the_operator(assembly: Assembly):
    addresses = assembly.resources("network", "AWS::EC2::EIP")
    associations = assembly.resources("network", "AWS::EC2::EIPAssociation").values()

    assert {one["Properties"]["InstanceId"]["Ref"] for one in associations} == set(
        assembly.resources("network", "AWS::EC2::Instance")
    )
    reported = json.dumps(assembly.template("network")["Outputs"]["EgressAddresses"])
    assert len(addresses) == SETTINGS.nat_count
    assert all(json.dumps({"Ref": address}) in reported for address in addresses)


def test_nat_instances_start_when_their_way_out_stands(assembly: Assembly):
    routes = assembly.resources("network", "AWS::EC2::Route")
    ways_out = {
        key
        for key, one in routes.items()
        if "publicSubnet" in one["Properties"]["RouteTableId"]["Ref"]
        and "DestinationCidrBlock" in one["Properties"]
    }

    assert len(ways_out) == 2
    for instance in assembly.resources("network", "AWS::EC2::Instance").values():
        assert ways_out <= set(instance["DependsOn"])


def test_nat_instances_take_traffic_from_the_vpc_only(assembly: Assembly):
    instance = next(iter(assembly.resources("network", "AWS::EC2::Instance").values()))
    (group,) = instance["Properties"]["SecurityGroupIds"]

    groups = assembly.resources("network", "AWS::EC2::SecurityGroup")
    ingress = groups[group["Fn::GetAtt"][0]]["Properties"]["SecurityGroupIngress"]
    assert ["CidrBlock" in json.dumps(rule["CidrIp"]) for rule in ingress] == [True]


def test_private_subnets_reach_ipv6_through_an_egress_only_gateway(assembly: Assembly):
    (gateway,) = assembly.resources("network", "AWS::EC2::EgressOnlyInternetGateway")
    routes = [
        one["Properties"] for one in assembly.resources("network", "AWS::EC2::Route").values()
    ]

    by_egress = [
        one for one in routes if one.get("EgressOnlyInternetGatewayId") == {"Ref": gateway}
    ]
    assert len(by_egress) == 2
    assert {one["DestinationIpv6CidrBlock"] for one in by_egress} == {"::/0"}
    assert all("functionsSubnet" in one["RouteTableId"]["Ref"] for one in by_egress)


def test_private_subnets_reach_ipv4_through_the_nat_instances(assembly: Assembly):
    routes = [
        one["Properties"] for one in assembly.resources("network", "AWS::EC2::Route").values()
    ]

    by_nat = [one for one in routes if "InstanceId" in one]
    assert {one["DestinationCidrBlock"] for one in by_nat} == {"0.0.0.0/0"}
    assert len(by_nat) == 2
    assert all("functionsSubnet" in one["RouteTableId"]["Ref"] for one in by_nat)


def test_stores_have_no_way_out(assembly: Assembly):
    routes = assembly.resources("network", "AWS::EC2::Route").values()

    assert not [one for one in routes if "storesSubnet" in one["Properties"]["RouteTableId"]["Ref"]]


def test_the_only_endpoint_is_the_free_one_for_s3(assembly: Assembly):
    endpoint = assembly.only("network", "AWS::EC2::VPCEndpoint")["Properties"]

    assert endpoint["VpcEndpointType"] == "Gateway"
    assert json.dumps(endpoint["ServiceName"]).endswith('".s3"]]}')


def test_by_the_endpoint_for_s3_pages_are_read_and_nothing_is_written(assembly: Assembly):
    endpoint = assembly.only("network", "AWS::EC2::VPCEndpoint")["Properties"]

    [statement] = endpoint["PolicyDocument"]["Statement"]
    assert statement["Effect"] == "Allow"
    assert set(statement["Action"]) == {"s3:GetObject", "s3:GetObjectVersion", "s3:ListBucket"}


def test_functions_reach_everything_and_are_reached_by_nothing(assembly: Assembly):
    groups = assembly.resources("network", "AWS::EC2::SecurityGroup").values()
    (group,) = [
        one["Properties"] for one in groups if "functions" in one["Properties"]["GroupDescription"]
    ]

    assert "SecurityGroupIngress" not in group
    assert {one.get("CidrIp", one.get("CidrIpv6")) for one in group["SecurityGroupEgress"]} == {
        "0.0.0.0/0",
        "::/0",
    }


def test_a_stage_can_ask_for_nat_gateways(composed: Callable[[Stage], Assembly]):
    network = dataclasses.replace(SETTINGS, nat=Nat.GATEWAY)
    made = composed(dataclasses.replace(STAGES[STAGE], vpc=network))

    gateways = made.resources("network", "AWS::EC2::NatGateway")
    assert len(gateways) == SETTINGS.nat_count
    assert made.resources("network", "AWS::EC2::Instance") == {}
    assert made.template("network")["Outputs"]["EgressAddresses"]["Value"]
    routes = [one["Properties"] for one in made.resources("network", "AWS::EC2::Route").values()]
    by_gateway = [one for one in routes if "NatGatewayId" in one]
    assert {one["NatGatewayId"]["Ref"] for one in by_gateway} == gateways.keys()
    assert {one["DestinationCidrBlock"] for one in by_gateway} == {"0.0.0.0/0"}

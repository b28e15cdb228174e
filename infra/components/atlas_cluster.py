"""MongoDB on Atlas, made by CloudFormation's public extensions of MongoDB's own.

They are plain resources: no construct library stands between. An account must have activated them
(``stages.py`` says which), so no stage has a cluster unless it asks for one. Its password is made
in a secret and its URI in the node's, and neither is in a template.
"""

from collections.abc import Sequence
from typing import Any

from aws_cdk import CfnResource, Fn, RemovalPolicy
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from crawlfleet.kernel import names
from infra.components.keeping import kept
from infra.stages import Atlas, Stage

_USER = names.PRODUCT


class AtlasCluster(Construct):
    """A project with one cluster, one user, and a list of who may come in.

    Attributes:
        uri: The node's URI, with references in the place of the password and the host.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        stage: Stage,
        settings: Atlas,
        clients: Sequence[str],
    ) -> None:
        """Makes the resources.

        Args:
            scope: The stack.
            construct_id: Its id there.
            stage: The stage.
            settings: What it asks of Atlas.
            clients: IPv4 addresses that are let in. Atlas knows no IPv6, so functions come by them.
        """
        super().__init__(scope, construct_id)
        self._stage = stage
        self._profile = {"Profile": settings.profile}
        name = f"{names.PRODUCT}-{stage.name}"
        project = self._resource("Project", {"Name": name, "OrgId": settings.org_id})
        project_id = project.get_att("Id").to_string()
        admitted = self._resource(
            "ProjectIpAccessList",
            {
                "ProjectId": project_id,
                "AccessList": [
                    {"IPAddress": address, "Comment": f"NAT {number} of {name}"}
                    for number, address in enumerate(clients)
                ],
            },
        )
        # Addresses that this stage gave back belong to somebody else the next day.
        admitted.apply_removal_policy(RemovalPolicy.DESTROY)
        cluster = self._resource(
            "Cluster",
            {
                "ProjectId": project_id,
                "Name": name,
                "ClusterType": "REPLICASET",
                "MongoDBMajorVersion": settings.version,
                "BackupEnabled": stage.keep_state,
                "TerminationProtectionEnabled": stage.keep_state,
                "ReplicationSpecs": [_members(settings)],
            },
        )
        password = secretsmanager.Secret(
            self,
            "Password",
            secret_name=f"{names.PRODUCT}/{stage.name}/atlas",
            description="Password of the fleet's user on MongoDB Atlas",
            generate_secret_string=secretsmanager.SecretStringGenerator(
                exclude_punctuation=True, include_space=False, password_length=64
            ),
            removal_policy=kept(stage),
        )
        # References that CloudFormation resolves while deploying.
        secret = password.secret_value.unsafe_unwrap()
        self._resource(
            "DatabaseUser",
            {
                "ProjectId": project_id,
                "DatabaseName": "admin",
                "Username": _USER,
                "Password": secret,
                "Roles": [
                    {"RoleName": "readWriteAnyDatabase", "DatabaseName": "admin"},
                    # What the monitor reads of the members' state and of operations under way.
                    {"RoleName": "clusterMonitor", "DatabaseName": "admin"},
                ],
                "Scopes": [{"Name": name, "Type": "CLUSTER"}],
            },
        ).node.add_dependency(cluster)
        address = cluster.get_att("ConnectionStrings.StandardSrv").to_string()
        host = Fn.select(1, Fn.split("://", address))
        self.uri = Fn.join("", ["mongodb+srv://", f"{_USER}:", secret, "@", host])

    def _resource(self, kind: str, properties: dict[str, Any]) -> CfnResource:
        made = CfnResource(
            self, kind, type=f"MongoDB::Atlas::{kind}", properties=properties | self._profile
        )
        made.apply_removal_policy(kept(self._stage))
        made.override_logical_id(f"Atlas{kind}")
        return made


def _members(settings: Atlas) -> dict[str, Any]:
    """Three members in one region: a majority stands when one of them fails."""
    return {
        "NumShards": 1,
        "AdvancedRegionConfigs": [
            {
                "ProviderName": "AWS",
                "RegionName": settings.region,
                "Priority": 7,
                "ElectableSpecs": {"InstanceSize": settings.tier, "NodeCount": 3},
                # A disk that grows by itself is cheaper than a fleet that stands still.
                "AutoScaling": {"DiskGB": {"Enabled": True}},
            }
        ],
    }

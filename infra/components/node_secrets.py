"""The secrets of the MongoDB nodes' URIs: one a node.

The stack makes the secrets of the stage's first nodes, empty; the operator puts the URIs in, and no
later deployment touches them. Only the URI of a cluster that the stage itself makes is put in. A
node that joins afterwards needs no deployment: its secret is made by hand under the same prefix,
which the functions may read, and the config centre names it.
"""

from collections.abc import Mapping

from aws_cdk import ArnFormat, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from crawlfleet.kernel import names
from infra.components.keeping import kept
from infra.stages import Stage


class NodeSecrets(Construct):
    """The secrets below one prefix.

    Attributes:
        name_pattern: Secret's name with ``{node}`` in it, for the functions' environment.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, stage: Stage, uris: Mapping[str, str]
    ) -> None:
        super().__init__(scope, construct_id)
        self.name_pattern = names.node_secret(stage.name, "{node}")
        self._prefix = names.node_secret(stage.name, "")
        self._for_pages = names.proxy_secret(stage.name, ""), f"{names.tenant_secrets(stage.name)}/"
        self._for_streams = names.stream_secret(stage.name, "")
        self._for_traces = names.collector_secret(stage.name, "")
        for node in stage.nodes:
            # Not the L2 construct: that one would fill in a random password that is no URI.
            secret = secretsmanager.CfnSecret(
                self,
                f"Node-{node}",
                name=names.node_secret(stage.name, node),
                description=f"MongoDB URI of the node {node}"
                + ("" if node in uris else "; put in by the operator"),
                secret_string=uris.get(node),
            )
            secret.apply_removal_policy(kept(stage))
            secret.override_logical_id(f"NodeSecret{node.title().replace('-', '')}")

    def grant_read(self, grantee: iam.IGrantable) -> None:
        """Lets the grantee read the URI of every node of this stage, of later ones too."""
        self._grant(grantee, self._prefix)

    def grant_read_for_pages(self, grantee: iam.IGrantable) -> None:
        """Lets the grantee read what pages are asked for with, which operators make by hand.

        That is lists of proxies, and the secrets that tenants' documents refer to.
        """
        self._grant(grantee, *self._for_pages)

    def grant_read_for_traces(self, grantee: iam.IGrantable) -> None:
        """Lets the grantee read what the collector of traces is told, which operators make."""
        self._grant(grantee, self._for_traces)

    def grant_read_for_streams(self, grantee: iam.IGrantable) -> None:
        """Lets the grantee read the tokens of the channels of streams, which operators make."""
        self._grant(grantee, self._for_streams)

    def grant_removal_of_tenants(self, grantee: iam.IGrantable) -> None:
        """Lets the grantee delete secrets of tenants, and read the names of all secrets.

        Secrets Manager lists an account's secrets or none.
        """
        _, tenants = self._for_pages
        self._grant(grantee, tenants, action="secretsmanager:DeleteSecret")
        iam.Grant.add_to_principal(
            grantee=grantee, actions=["secretsmanager:ListSecrets"], resource_arns=["*"]
        )

    def _grant(
        self,
        grantee: iam.IGrantable,
        *prefixes: str,
        action: str = "secretsmanager:GetSecretValue",
    ) -> None:
        iam.Grant.add_to_principal(
            grantee=grantee,
            actions=[action],
            resource_arns=[
                Stack.of(self).format_arn(
                    service="secretsmanager",
                    resource="secret",
                    resource_name=f"{prefix}*",
                    arn_format=ArnFormat.COLON_RESOURCE_NAME,
                )
                for prefix in prefixes
            ],
        )

"""The config centre's parameter tree: a place and a permission, deliberately without parameters.

The tree is data, not infrastructure. ``crawlfleet config push`` writes every parameter of it, the
stage document and the revision included, while the fleet runs. A parameter that a stack declared as
well would stop the first deployment after a push, and would be set back by any later one that
changed it. So the stack makes none, and no deployment can touch what was pushed.
"""

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from constructs import Construct

from crawlfleet.kernel import names
from infra.stages import Stage


class ConfigTree(Construct):
    """The tree below ``names.config_root(stage)``.

    Attributes:
        root: Path of the tree.
    """

    def __init__(self, scope: Construct, construct_id: str, *, stage: Stage) -> None:
        super().__init__(scope, construct_id)
        self.root = names.config_root(stage.name)

    def grant_read(self, grantee: iam.IGrantable) -> None:
        """Lets the grantee read the tree of this stage and nothing else in Parameter Store."""
        arn = Stack.of(self).format_arn(
            service="ssm", resource="parameter", resource_name=self.root.removeprefix("/")
        )
        # The revision alone is polled; whoever sees a new one reads it with its snapshot, and the
        # whole tree where there is none.
        revision, snapshot = f"{arn}/{names.CONFIG_REVISION}", f"{arn}/{names.CONFIG_SNAPSHOT}/*"
        iam.Grant.add_to_principal(
            grantee=grantee, actions=["ssm:GetParameters"], resource_arns=[revision, snapshot]
        )
        # So versions before the snapshot poll it: a deployment changes rights before it changes
        # code, and workers go on with theirs for a quarter of an hour.
        iam.Grant.add_to_principal(
            grantee=grantee, actions=["ssm:GetParameter"], resource_arns=[revision]
        )
        iam.Grant.add_to_principal(
            grantee=grantee,
            actions=["ssm:GetParametersByPath"],
            resource_arns=[arn, f"{arn}/*"],
        )
        self._grant_key(grantee, "kms:Decrypt")

    def grant_tenants(self, grantee: iam.IGrantable) -> None:
        """Lets the grantee write tenants' documents, and delete those of a tenant and its bizs.

        It writes a snapshot of the whole tree, too: what that says is in force.
        """
        arn = Stack.of(self).format_arn(
            service="ssm", resource="parameter", resource_name=self.root.removeprefix("/")
        )
        tenants, bizs = f"{arn}/{names.CONFIG_TENANTS}/*", f"{arn}/{names.CONFIG_BIZS}/*"
        snapshot, revision = f"{arn}/{names.CONFIG_SNAPSHOT}/*", f"{arn}/{names.CONFIG_REVISION}"
        iam.Grant.add_to_principal(
            grantee=grantee,
            actions=["ssm:PutParameter"],
            resource_arns=[tenants, snapshot, revision],
        )
        iam.Grant.add_to_principal(
            grantee=grantee,
            actions=["ssm:DeleteParameters"],
            resource_arns=[tenants, bizs, snapshot],
        )
        self._grant_key(grantee, "kms:Encrypt")

    def _grant_key(self, grantee: iam.IGrantable, action: str) -> None:
        # By its alias, as a function may stand in another region than the key, where no stack can
        # refer to it; and by Parameter Store alone.
        stack = Stack.of(self)
        iam.Grant.add_to_principal(
            grantee=grantee,
            actions=[action],
            resource_arns=[stack.format_arn(service="kms", resource="key", resource_name="*")],
            conditions={
                "StringEquals": {"kms:ViaService": f"ssm.{stack.region}.amazonaws.com"},
                "ForAnyValue:StringEquals": {"kms:ResourceAliases": names.config_key(self.root)},
            },
        )

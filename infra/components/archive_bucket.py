"""The archive: a bucket for pages and exports that are to outlive their requests.

Its objects are written once and read seldom, so they move to a cheaper class, and go when the stage
says so. No function may write to it until one does: rights follow use (``fleet.py``).
"""

from collections.abc import Iterator

from aws_cdk import CfnResource, Duration
from aws_cdk import aws_s3 as s3
from constructs import Construct

from infra.components.keeping import kept
from infra.stages import Archive, Stage

#: How long what was overwritten or deleted can still be fetched back.
_UNDO = Duration.days(7)


class ArchiveBucket(Construct):
    """The bucket, closed to the public and to unencrypted transport.

    A stage that does not keep its state deletes the bucket with its stack, which AWS refuses while
    there is something in it: emptying it for the operator would take a custom resource.

    Attributes:
        bucket: The bucket; AWS chooses the name.
    """

    def __init__(self, scope: Construct, construct_id: str, *, stage: Stage) -> None:
        super().__init__(scope, construct_id)
        archive = stage.archive
        self.bucket = s3.Bucket(
            self,
            "Bucket",
            encryption=s3.BucketEncryption.S3_MANAGED,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            enforce_ssl=True,
            # A second write under the same key is a mistake or a repeat; either can be undone.
            versioned=True,
            lifecycle_rules=[
                s3.LifecycleRule(
                    id="cheaper-then-gone",
                    transitions=list(_transitions(archive)),
                    expiration=None if archive.days is None else Duration.days(archive.days),
                    noncurrent_version_expiration=_UNDO,
                ),
                # A writer that died in the middle of an upload leaves parts that nobody sees and
                # everybody pays.
                s3.LifecycleRule(
                    id="no-half-uploads", abort_incomplete_multipart_upload_after=Duration.days(1)
                ),
            ],
            removal_policy=kept(stage),
        )
        _pin(self.bucket.node.default_child, "Archive")
        # Who keeps the bucket keeps it closed to plain text.
        if self.bucket.policy is not None:
            self.bucket.policy.apply_removal_policy(kept(stage))
            _pin(self.bucket.policy.node.default_child, "ArchivePolicy")


def _pin(resource: object, logical_id: str) -> None:
    if not isinstance(resource, CfnResource):
        raise TypeError(f"{logical_id} is no single resource: {resource!r}")
    resource.override_logical_id(logical_id)


def _transitions(archive: Archive) -> Iterator[s3.Transition]:
    if archive.infrequent_after_days is not None:
        yield s3.Transition(
            storage_class=s3.StorageClass.INFREQUENT_ACCESS,
            transition_after=Duration.days(archive.infrequent_after_days),
        )

"""The removal policy of a store, when its stack goes or its resource is replaced.

What a first deployment made goes with that deployment when it fails: names are fixed, and what
stayed behind would stand in the way of the second.
"""

from aws_cdk import RemovalPolicy

from infra.stages import Stage


def kept(stage: Stage) -> RemovalPolicy:
    """Stays with a stage that keeps its state, else goes with its stack."""
    return RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE if stage.keep_state else RemovalPolicy.DESTROY


def saved(stage: Stage) -> RemovalPolicy:
    """Goes with its stack; with a stage that keeps its state, after a last snapshot.

    For what stands in the network: kept itself, it would keep its subnets and their bill.
    """
    return RemovalPolicy.SNAPSHOT if stage.keep_state else RemovalPolicy.DESTROY

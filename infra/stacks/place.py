"""The place of a stack."""

from aws_cdk import Environment


def place(region: str) -> Environment | None:
    """A region of whichever account the credentials are of; None leaves the region to them too."""
    return Environment(region=region) if region else None

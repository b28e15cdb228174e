"""The first configuration of a local cloud: the samples, pushed as a user would push them."""

from pathlib import Path
from typing import Any, Final

import boto3

from crawlfleet.cli.config import push_folder
from crawlfleet.kernel import names
from crawlfleet.kernel.errors import CrawlfleetError
from infra.local.parts import PartError
from infra.local.state import STAGE

#: What an empty config centre gets.
SAMPLES: Final = Path(__file__).parents[2] / "samplesconfig" / STAGE


def seed_config(endpoint_url: str, region: str, samples: Path = SAMPLES) -> bool:
    """Push ``samples`` if the stage has no configuration yet; return whether it had none.

    Raises:
        PartError: the samples were refused, with every mistake; nothing was written.
    """
    ssm: Any = boto3.client(
        "ssm",
        endpoint_url=endpoint_url,
        region_name=region,
        aws_access_key_id="local",
        aws_secret_access_key="local",  # noqa: S106  moto asks for no secret
    )
    found = ssm.get_parameters_by_path(Path=names.config_root(STAGE), Recursive=True, MaxResults=1)
    if found["Parameters"]:
        return False
    try:
        push_folder(samples, STAGE, ssm)
    except CrawlfleetError as error:
        raise PartError(f"the configuration in {samples} was refused: {error}") from error
    return True

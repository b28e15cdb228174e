"""The first configuration of a local cloud: the samples, pushed as a user would push them."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import boto3

from crawlfleet.cli.config.command import push_folder
from crawlfleet.config.publishing import read_documents, write_tree
from crawlfleet.kernel import names
from crawlfleet.kernel.errors import CrawlfleetError
from infra.local.parts import PartError
from infra.local.pools import LocalPool
from infra.local.state import STAGE

#: What an empty config centre gets.
SAMPLES: Final = Path(__file__).parents[2] / "samplesconfig" / STAGE


def seed_config(
    endpoint_url: str, region: str, samples: Path = SAMPLES, pools: Sequence[LocalPool] = ()
) -> bool:
    """Push ``samples`` if the stage has no configuration yet; return whether it had none.

    Where there are further ``pools`` its stage document gets what it does not say: ``bidding``, as
    workers of several kinds are there to be chosen from, and how many each pool may have.

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
    is_new = not found["Parameters"]
    try:
        if is_new:
            push_folder(samples, STAGE, ssm)
        if pools:
            _add_pools(ssm, pools)
    except CrawlfleetError as error:
        raise PartError(f"the configuration in {samples} was refused: {error}") from error
    return is_new


def _add_pools(ssm: Any, pools: Sequence[LocalPool]) -> None:
    documents = read_documents(ssm, STAGE)
    stage = json.loads(documents.get(names.CONFIG_STAGE, "{}"))
    limits = {pool.kind.name: {"max_consumers": pool.kind.concurrency} for pool in pools}
    # What somebody has said stands, `bidding: null` too.
    changed = {"bidding": {}, **stage, "pools": {**limits, **stage.get("pools", {})}}
    if changed != stage:
        write_tree(ssm, STAGE, {names.CONFIG_STAGE: json.dumps(changed)})

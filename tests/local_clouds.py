"""Local clouds of a test's own, and what is put in force there."""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import boto3
import pytest
import yaml

from infra.local.aws_server import REGION
from infra.local.cloud import LocalCloud
from infra.local.seeding import SAMPLES
from infra.local.state import STAGE
from tests.kit.cli import push_folder


@contextmanager
def a_cloud(state: Path, **options: object) -> Iterator[LocalCloud]:
    """A cloud on servers of its own, whatever the environment names; by itself nothing ticks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("REDIS_URL", raising=False)
        patch.delenv("MONGODB_URI", raising=False)
        with LocalCloud(state, **{"ticking": False, **options}) as cloud:
            yield cloud


def aws(service, cloud: LocalCloud):
    """A client of the cloud's AWS."""
    return boto3.client(
        service,
        endpoint_url=cloud.aws_endpoint_url,
        region_name=REGION,
        aws_access_key_id="local",
        aws_secret_access_key="local",
    )


def push(
    cloud: LocalCloud,
    folder: Path,
    stage: Mapping[str, object],
    bizs: Mapping[str, object] | None = None,
) -> None:
    """Put the samples in force, with these fields of the stage, and these bizs of its tenant."""
    shutil.copytree(SAMPLES, folder, dirs_exist_ok=True)
    document = folder / "stage.yaml"
    changed = yaml.safe_load((SAMPLES / "stage.yaml").read_text()) | stage
    document.write_text(yaml.safe_dump(changed))
    for name, biz in (bizs or {}).items():
        (folder / "bizs" / "default" / f"{name}.yaml").write_text(yaml.safe_dump(biz))
    push_folder(folder, STAGE, aws("ssm", cloud))

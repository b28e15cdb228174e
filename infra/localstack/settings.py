"""The configuration of the journey: the sample, and what is changed in it while it runs."""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlsplit

from crawlfleet.cli.config.command import reader_check
from crawlfleet.cli.config_folder import read_folder
from crawlfleet.config.publishing import write_tree
from crawlfleet.fleet.autoscaler import reserved
from crawlfleet.fleet.models import ScalingTarget
from crawlfleet.kernel.errors import CrawlfleetError
from crawlfleet.kernel.names import CONFIG_STAGE
from infra.aws_access import Access
from infra.bundle import ROOT
from infra.local.extra_packages import carry_extras
from infra.stages import STAGES
from infra.steps import StepError

SAMPLE: Final = ROOT / "samplesconfig" / "local"
#: The sample of code of one's own, and its biz.
OWN_CODE: Final = ROOT / "samplesconfig" / "own-code"
_OWN_BIZ: Final = "bizs/default/press"
#: The biz of the sample whose rules read the documentation server's pages, and the rule.
BIZ: Final = "docs"
RULE: Final = "page"

#: A biz of a site that wants a token, the secret that has it and the header that it goes in, and a
#: state of its own that its pages become.
GUARDED_BIZ: Final = "guarded"
GUARDED_SECRET: Final = "site-token"  # noqa: S105  its name
GUARDED_HEADER: Final = "X-Site-Token"
REVIEWED: Final = "reviewed"

#: More workers, sooner, and let go sooner. The sample has two for 2,000 requests each.
WORKERS: Final = 4
_CEILING: Final = STAGES["localstack"].consumer_concurrency
#: How many consumers may run at once when all of these are wanted, and of an idle fleet. The stage
#: is deployed with neither, so that each of them shows that somebody has set it.
PEAK: Final = reserved(ScalingTarget(kept=WORKERS), _CEILING)
IDLE: Final = reserved(ScalingTarget(), _CEILING)
BUSY: Final[dict[str, Any]] = {
    "fleet": {"max_consumers": WORKERS, "requests_per_consumer": 10, "quiet_seconds": 1.0},
    "alarms": {"bad_looks": 1, "good_looks": 1},
    # What waits while no worker may run is far more.
    "thresholds": {"backlog": 50},
}
#: Somebody's own site, wherever functions see it: the sample knows loopback alone.
_OWN_SITE: Final = {"per_second": 1000, "concurrency": 64}
#: Jobs go to the workers that suit them.
BIDDING: Final[dict[str, Any]] = {"bidding": {"window_seconds": 0.5, "wait_seconds": 60.0}}
#: Any MongoDB is larger than that.
FULL: Final[dict[str, Any]] = {"thresholds": {"storage_bytes": 1}}


def own_site(url: str) -> dict[str, Any]:
    """The change that takes a site for one's own.

    >>> own_site("http://172.17.0.1:80/")
    {'host_limits': {'172.17.0.1': {'per_second': 1000, 'concurrency': 64}}}
    """
    return {"host_limits": {urlsplit(url).hostname or "": dict(_OWN_SITE)}}


def merged(document: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    """The document with the fields of the change in the place of its own.

    >>> merged({"fleet": {"a": 1, "b": 2}, "c": 3}, {"fleet": {"a": 5}})
    {'fleet': {'a': 5, 'b': 2}, 'c': 3}
    """
    found = dict(document)
    for name, value in change.items():
        held = found.get(name)
        if isinstance(value, dict) and isinstance(held, dict):
            found[name] = merged(held, value)
        else:
            found[name] = value
    return found


def own_code(site: str) -> dict[str, str]:
    """The biz that is read by a package of one's own, for this site."""
    documents = read_folder(OWN_CODE)
    return {_OWN_BIZ: documents[_OWN_BIZ].replace("https://press.example", site.rstrip("/"))}


def guarded() -> dict[str, str]:
    """The biz of a site that wants a token, with states of its own."""
    document = json.loads(read_folder(SAMPLE)[f"bizs/default/{BIZ}"])
    change = {
        "collection": GUARDED_BIZ,
        "fetch": {"headers": {GUARDED_HEADER: {"secret": GUARDED_SECRET}}},
        "states": {"held": 100, REVIEWED: 1_000},
        "transitions": {"pending": ["held"], "held": ["pending"], "done": [REVIEWED]},
    }
    return {f"bizs/default/{GUARDED_BIZ}": json.dumps(merged(document, change))}


@cache
def _carry_own_code() -> None:
    """Let the check of the configuration find what the functions of the stage do."""
    carry_extras(
        [str(ROOT / place) for place in STAGES["localstack"].extra_packages], "extra_packages"
    )


def push(
    access: Access,
    stage: str,
    *changes: dict[str, Any],
    sample: Path = SAMPLE,
    more: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Put the sample in force, with changes of its stage document and more bizs; the revision.

    Raises:
        StepError: it was refused, or the config centre does not answer.
    """
    _carry_own_code()
    documents = {**read_folder(sample), **more}
    document = json.loads(documents[CONFIG_STAGE])
    for change in changes:
        document = merged(document, change)
    documents[CONFIG_STAGE] = json.dumps(document)
    try:
        done = write_tree(
            access.client("ssm"), stage, documents, check_reader=reader_check(), delete=True
        )
    except CrawlfleetError as error:
        raise StepError(
            f"the configuration was refused: {error}",
            "`crawlfleet config validate samplesconfig/local` names every mistake.",
        ) from error
    return done.revision

"""Jobs that got no worker (SPEC.md B6): an administrator is told.

They were given up, as none suits them; or they wait for longer than the stage has patience: no
worker has looked at them, or those that suit them are busy.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from crawlfleet.finding_kinds import Kind
from crawlfleet.model.biz import Tree
from crawlfleet.model.incident import Finding, Place, key_of
from crawlfleet.model.sample import UnplacedJob
from crawlfleet.policy.plain_text import one_line, plain

#: Of a biz's jobs so many are named, and characters of why.
_NAMED: Final = 3
_QUOTED: Final = 400


def unplaced_findings(jobs: Sequence[UnplacedJob]) -> Iterator[Finding]:
    """One for each biz, which says which jobs, what they wanted, and what was on offer."""
    of_biz = sorted(jobs, key=lambda job: (job.tenant, job.biz))
    for (tenant, biz), each in groupby(of_biz, key=lambda job: (job.tenant, job.biz)):
        found = list(each)
        words = [_said(job) for job in found[:_NAMED]]
        more = [f"and {len(found) - _NAMED:,} more"] if len(found) > _NAMED else []
        yield Finding(
            kind=Kind.JOB_UNPLACED,
            place=Place(tenant=tenant, biz=biz),
            value=len(found),
            threshold=0,
            said="; ".join([*words, *more]),
        )


def _said(job: UnplacedJob) -> str:
    waits = "" if job.since is None else f" waits since {job.since:%Y-%m-%d %H:%M} UTC"
    return f"{one_line(job.job, 160)}{waits}: {plain(job.why, _QUOTED)}"


def unknown_of_unplaced(tree: Tree) -> Iterator[str]:
    """What nothing is known of where it could not be read."""
    for lane in tree.lanes():
        yield key_of(Kind.JOB_UNPLACED, Place(tenant=lane.tenant, biz=lane.biz))

"""Jobs whose biz was removed end (SPEC.md C5): nobody can make, find or count their tasks any more.

A biz may be missing by mistake, so they wait for it for ``KEPT``; then they end as cancelled, and a
biz that has its name a year later has nothing to do with them. One whose document is not valid is
there. Whoever cancels such a job keeps it from going on; it ends then as well.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from crawlfleet.model.biz import Tree
from crawlfleet.ports import LostJobs

#: Jobs wait so long for a biz that was removed.
KEPT: Final = timedelta(days=7)
#: The turn's name, how often it comes round, and after what a holder that vanished loses it.
TURN: Final = "lost_jobs"
EVERY: Final = timedelta(minutes=10)
TERM: Final = timedelta(minutes=2)
#: Jobs of one biz that one round ends.
BATCH: Final = 1_000


def end_lost_jobs(lost: LostJobs, tree: Tree, now: datetime, time_left: Callable[[], float]) -> int:
    """End the jobs whose biz has not been there for ``KEPT``; how many.

    Raises:
        StoreUnavailableError: the home node, which keeps the jobs, does not answer.
    """
    ended = 0
    for tenant, biz in lost.bizs():
        if time_left() <= 0:
            break
        if biz in tree.bizs.get(tenant, {}) or (tenant, biz) in tree.refused:
            lost.find(tenant, biz)
        else:
            ended += lost.lose(tenant, biz, now, now - KEPT, BATCH)
    return ended

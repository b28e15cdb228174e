"""Whether the capacity that tenants state they need is there (SPEC.md C1, B13)."""

from collections.abc import Iterator
from typing import Final

from crawlfleet.finding_kinds import Kind
from crawlfleet.model.biz import Tree
from crawlfleet.model.incident import Finding, Place, key_of
from crawlfleet.model.pool import MAIN_POOL
from crawlfleet.model.sample import PoolSample, WorkersSample
from crawlfleet.policy.capacity import stated_by

#: Of those that state needs, so many are named.
_NAMED: Final = 5


def capacity_findings(workers: WorkersSample, tree: Tree) -> Iterator[Finding]:
    """Pools with fewer workers than is stated, and needs of pools that are not there."""
    for pool in workers.pools:
        short = short_of(pool)
        if short:
            yield Finding(
                kind=Kind.CAPACITY_SHORT,
                place=_place(pool.name),
                value=short,
                threshold=0,
                said=f"{_said(pool)}; it is stated by {_stated_by(tree, pool.name)}",
            )
    there = {MAIN_POOL, *(pool.name for pool in workers.pools)}
    for name in sorted({needs.pool for _, needs in stated_by(tree)} - there):
        yield Finding(
            kind=Kind.CAPACITY_SHORT,
            place=_place(name),
            value=1,
            threshold=0,
            said=f"capacity of the pool {name} is stated, and no such pool is deployed;"
            f" it is stated by {_stated_by(tree, name)}",
        )


def short_of(pool: PoolSample) -> int:
    """How many workers are missing of those that stated needs come to.

    >>> short_of(PoolSample(name="large", alive=3, kept=4, stated=6))
    3
    """
    return max(0, pool.stated - min(pool.kept, pool.alive))


def unknown_of_capacity(tree: Tree) -> Iterator[str]:
    """What nothing is known of where the workers could not be counted."""
    stated = {needs.pool for _, needs in stated_by(tree)}
    for name in sorted({MAIN_POOL, *tree.stage.pools, *stated}):
        yield key_of(Kind.CAPACITY_SHORT, _place(name))


def _said(pool: PoolSample) -> str:
    if pool.alive >= pool.kept:
        return (
            f"stated needs come to {pool.stated:,} workers and {pool.kept:,} are kept: that is what"
            " the pool's max_consumers, its reserved concurrency and capacity.workers_per_tenant"
            " leave room for"
        )
    more = f"; stated needs come to {pool.stated:,}" if pool.stated > pool.kept else ""
    return f"{pool.kept:,} workers are to be kept available and {pool.alive:,} are alive{more}"


def _stated_by(tree: Tree, pool: str) -> str:
    names = [name for name, needs in stated_by(tree) if needs.pool == pool]
    more = len(names) - _NAMED
    said = ", ".join(names[:_NAMED]) or "nobody any more"
    return f"{said} and {more:,} more" if more > 0 else said


def _place(pool: str) -> Place:
    return Place(part="workers", name=pool)

"""Remove tenants: suspend, wait, take the bizs out, delete, prove it (SPEC.md C1).

Each call takes the steps that are due, and says how far it is; whoever is cut off calls again.

1. ``settling``: the tenant is suspended. Nothing is deleted until every function knows that
   (``IN_FORCE_SECONDS``) and every lease from before has ended, nor while a worker has work of it.
2. ``settled``: it is read and exported as long as anybody likes. It may still be resumed.
3. ``withdrawn``: its bizs are out of the configuration, until every function knows that, too, and
   has forgotten of which collections it had made sure (:data:`SURE_SECONDS`): a tenant of the same
   name may be added right after the removal.
4. ``deleting``: the stores' inventories are cleared.
5. ``removed``: a call that deletes nothing has looked into every store and found nothing. Then the
   tenant's document goes, and with it its keys. Until then nobody can add one of that name.

How far it is stands in the tenant's document, which is the last thing to go.
"""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from typing import Final, Protocol

import msgspec

from crawlfleet.config.documents.biz import Tree
from crawlfleet.config.documents.removal import Removing
from crawlfleet.config.lookup import operates
from crawlfleet.kernel.errors import ConflictError, InvalidRequestError, NotFoundError
from crawlfleet.kernel.names import CONFIG_BIZS, DEFAULT_TENANT
from crawlfleet.kernel.time import SURE_SECONDS, TimeLeft
from crawlfleet.tenancy import models
from crawlfleet.tenancy.models import Standing
from crawlfleet.tenancy.service import IN_FORCE_SECONDS, NAME, Tenants
from crawlfleet.wire.tenants import StoreCount

#: No function goes by the bizs that were withdrawn, or by what it knows of their collections.
_FORGOTTEN_AFTER: Final = timedelta(seconds=IN_FORCE_SECONDS + SURE_SECONDS)
#: How long a call deletes.
DELETING_SECONDS: Final = 10.0
#: What a deletion leaves, as it is no tenant's alone, or not in a store.
REMAINS: Final = (
    "what was exported",
    "metrics, logs and backups, for as long as they are kept",
    "its last document in the stage's earlier snapshot, until the configuration changes again",
    "items, feeds and cursors of streams, which name no tenant, until they expire",
    "robots.txt of the sites that it has visited, which name no tenant, for a day at most",
)


class RemovalState(StrEnum):
    """The states of a removal, in their order."""

    SETTLING = "settling"
    SETTLED = "settled"
    WITHDRAWN = "withdrawn"
    DELETING = "deleting"
    REMOVED = "removed"


class Removal(msgspec.Struct, frozen=True, kw_only=True):
    """A removal as it stands: what was there ``before`` anything was deleted, and what is ``left``.

    The next step is due at ``due_at``, where that is known; ``in_flight`` requests hold it up.
    """

    tenant: str
    state: RemovalState
    due_at: datetime | None = None
    in_flight: int = 0
    before: tuple[StoreCount, ...] = ()
    left: tuple[StoreCount, ...] = ()


class Inventory(Protocol):
    """An inventory counts what one store has of a tenant, deletes it, and counts again as proof."""

    store: str

    def count(self, tenant: str) -> Counter[str]:
        """Count the tenant's things by kind."""
        ...

    def clear(self, tenant: str, time_left: TimeLeft) -> None:
        """Delete what is counted, as far as there is time; a later call goes on."""
        ...


def begun(now: datetime, lease_seconds: float) -> Removing:
    """Begin a removal: all is settled once every function knows, and a lease after that."""
    wait = timedelta(seconds=IN_FORCE_SECONDS + lease_seconds)
    return Removing(since=now, settled_at=now + wait)


def state_of(removing: Removing, in_flight: int, now: datetime) -> RemovalState:
    """Tell how far a removal is that has not ended."""
    if removing.withdrawn_at is None:
        is_settled = now >= removing.settled_at and not in_flight
        return RemovalState.SETTLED if is_settled else RemovalState.SETTLING
    is_known = now >= removing.withdrawn_at + _FORGOTTEN_AFTER
    return RemovalState.DELETING if is_known else RemovalState.WITHDRAWN


def with_removing(standing: Standing, removing: Removing) -> str:
    """Write how far the removal is into a tenant's document, which suspends it."""
    document = {"managed": True, "suspended": True, "removing": msgspec.to_builtins(removing)}
    return msgspec.json.encode({**standing.fields, **document}).decode()


def without_bizs(documents: Mapping[str, str], tenant: str) -> dict[str, str]:
    """Return the documents without those of a tenant's bizs.

    >>> sorted(without_bizs({"bizs/a/b": "", "bizs/ab/b": "", "tenants/a": ""}, "a"))
    ['bizs/ab/b', 'tenants/a']
    """
    below = f"{CONFIG_BIZS}/{tenant}/"
    return {path: text for path, text in documents.items() if not path.startswith(below)}


@dataclass(frozen=True, slots=True)
class Removals:
    """The removals of a stage's tenants; ``inventories`` are those of its stores."""

    tenants: Tenants
    inventories: Callable[[Tree], Sequence[Inventory]]
    _: KW_ONLY
    steady: Callable[[], float] = time.monotonic

    def counts(self, tree: Tree, name: str) -> tuple[StoreCount, ...]:
        """Count what every store has of a tenant, or of a name that is no tenant's any more.

        Raises:
            InvalidRequestError: no tenant can have that name.
            StoreUnavailableError: a store does not answer.
        """
        if not NAME.match(name):
            raise InvalidRequestError.of("name", "is up to 32 of a-z, 0-9 and -, a letter first")
        return (*self._in_configuration(name), *self._in_stores(tree, name))

    def advance(
        self,
        tree: Tree,
        name: str,
        now: datetime,
        *,
        in_flight: Callable[[], int],
        delete: bool,
        expected: str | None = None,
    ) -> Removal:
        """Begin a tenant's removal, or go on with it; what has settled is deleted on request.

        Raises:
            NotFoundError: there is none of that name.
            ConflictError: it is an operator, not the ``expected`` revision any more, or tenants
                are only shown here.
            StoreUnavailableError: a store does not answer; the call may be repeated.
        """
        self.tenants.key_store()
        try:
            standing = models.standing_of(self.tenants.documents(), name, expected)
        except NotFoundError as error:
            left = self.counts(tree, name)
            said = "; ".join(f"{one.count} {one.store} {one.kind}" for one in left) or "nothing"
            raise NotFoundError(f"{error}; of that name there is {said}") from error
        removing = standing.document.removing or self._begin(tree, name, expected, now)
        working = in_flight() if removing.withdrawn_at is None else 0
        state = state_of(removing, working, now)
        if state is RemovalState.SETTLED and delete:
            removing = self._withdraw(tree, name, removing, now)
            state = RemovalState.WITHDRAWN
        if state is RemovalState.DELETING:
            return self._delete(tree, name, removing, now)
        due_at = removing.settled_at if state is RemovalState.SETTLING else None
        if removing.withdrawn_at is not None:
            due_at = removing.withdrawn_at + _FORGOTTEN_AFTER
        return Removal(
            tenant=name,
            state=state,
            due_at=due_at,
            in_flight=working,
            before=_told(removing.before),
            left=self.counts(tree, name),
        )

    def _begin(self, tree: Tree, name: str, expected: str | None, now: datetime) -> Removing:
        if name == DEFAULT_TENANT or operates(tree, name):
            said = "the tenant that every stage has" if name == DEFAULT_TENANT else "an operator"
            raise ConflictError(f"{name} is {said}, and is not removed")
        removing = begun(now, tree.stage.fleet.lease_seconds)

        def suspended(documents: Mapping[str, str]) -> dict[str, str]:
            standing = models.standing_of(documents, name, expected)
            found = standing.document.removing
            # One that was begun and never announced, as its call died, begins now.
            is_further = found is not None and found.withdrawn_at is not None
            text = with_removing(standing, found if found and is_further else removing)
            return {**documents, models.path_of(name): text}

        with self.tenants.locked():
            documents = self.tenants.push(suspended, now)
        return models.standing_of(documents, name).document.removing or removing

    def _withdraw(self, tree: Tree, name: str, removing: Removing, now: datetime) -> Removing:
        """Take the bizs out of the configuration, and note what is there."""
        counts = {f"{one.store}/{one.kind}": one.count for one in self.counts(tree, name)}
        fresh = msgspec.structs.replace(removing, withdrawn_at=now, before=counts)

        def withdrawn(documents: Mapping[str, str]) -> dict[str, str]:
            nonlocal fresh
            standing = models.standing_of(documents, name)
            found = standing.document.removing
            if found is None or found.since != removing.since:
                raise ConflictError(f"{name} was resumed, or another call goes on with its removal")
            if found.withdrawn_at is not None:
                # A call died while it wrote this: nobody was told, so the wait begins now.
                fresh = msgspec.structs.replace(found, withdrawn_at=now)
            text = with_removing(standing, fresh)
            return {**without_bizs(documents, name), models.path_of(name): text}

        with self.tenants.locked():
            self.tenants.push(withdrawn, now)
        return fresh

    def _delete(self, tree: Tree, name: str, removing: Removing, now: datetime) -> Removal:
        """Delete what is found; a call that finds nothing ends the removal."""
        told = partial(Removal, tenant=name, before=_told(removing.before))
        if self._in_stores(tree, name):
            ends_at = self.steady() + DELETING_SECONDS
            for each in self.inventories(tree):
                each.clear(name, lambda: ends_at - self.steady())
            return told(state=RemovalState.DELETING, left=self.counts(tree, name))

        def gone(documents: Mapping[str, str]) -> dict[str, str]:
            return {
                path: text
                for path, text in without_bizs(documents, name).items()
                if path != models.path_of(name)
            }

        store = self.tenants.key_store()
        with self.tenants.locked():
            standing = models.standing_of(self.tenants.documents(), name)
            own = {*standing.document.api_keys, *standing.document.retiring_keys}
            for key in sorted(own | {one.id for one in store.made() if one.tenant == name}):
                store.remove(key)
            self.tenants.push(gone, now)
        left = self.counts(tree, name)
        return told(state=RemovalState.DELETING if left else RemovalState.REMOVED, left=left)

    def _in_stores(self, tree: Tree, name: str) -> tuple[StoreCount, ...]:
        return tuple(
            StoreCount(store=each.store, kind=kind, count=count)
            for each in self.inventories(tree)
            for kind, count in sorted(each.count(name).items())
        )

    def _in_configuration(self, name: str) -> tuple[StoreCount, ...]:
        documents = self.tenants.documents()
        own = documents.keys() - without_bizs(documents, name).keys()
        own |= {models.path_of(name)} & documents.keys()
        keys = [one for one in self.tenants.made_keys() if one.tenant == name]
        found = (("configuration", "documents", len(own)), ("keys", "API keys", len(keys)))
        return tuple(StoreCount(store=store, kind=kind, count=n) for store, kind, n in found if n)


def _told(before: Mapping[str, int]) -> tuple[StoreCount, ...]:
    found = (((*path.partition("/"),), count) for path, count in before.items())
    return tuple(StoreCount(store=store, kind=kind, count=n) for (store, _, kind), n in found)

"""Add and change tenants (SPEC.md C1): their keys, settings and suspension.

Each change is one push of the configuration, made of what stands at that moment and refused where
somebody else pushed in between; then it is tried again. A fleet lock lets one change through at a
time, so that tries are few. A key is made before the document that names it, and belongs to nobody
until then: a call that dies in between leaves a key that opens nothing, which ``leftovers`` tells
of and the tenant's next change of keys removes.
"""

import re
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import KW_ONLY, dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from crawlfleet.config import publishing
from crawlfleet.config.documents.biz import Tree
from crawlfleet.config.in_force import OWN_LOOK_SECONDS
from crawlfleet.config.lookup import operates
from crawlfleet.config.redis import RedisRevisions
from crawlfleet.config.ssm import SsmApi, SsmReader
from crawlfleet.config.validation import unchecked
from crawlfleet.fleet.redis.registry import RedisFailureDetector
from crawlfleet.kernel.errors import (
    ConfigError,
    ConflictError,
    CrawlfleetError,
    InvalidRequestError,
    NoConfigurationError,
    Problem,
    StoreConflictError,
    StoreUnavailableError,
)
from crawlfleet.kernel.names import CONFIG_REVISION, DEFAULT_TENANT, config_root
from crawlfleet.tenancy import models
from crawlfleet.tenancy.models import ManagedKey, Standing

if TYPE_CHECKING:
    from crawlfleet.tenancy.keys import FreshKey, KeyStore

#: Seconds after which a change is in force everywhere, even where Redis withholds announcements:
#: an environment asks SSM itself that often, and half as much more by chance.
IN_FORCE_SECONDS: Final = int(OWN_LOOK_SECONDS * 1.5)
LOCK: Final = "tenants"
#: A lock whose holder died ends after this; a call to the router takes less.
_TERM: Final = timedelta(seconds=60)
_LOCK_TRIES: Final = 50
_LOCK_PAUSE_SECONDS: Final = 0.1
#: Pushes that may come in between before a change gives up.
_TRIES: Final = 5
NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,31}\Z")
#: Makes the text of the tenant's document out of the stage's documents.
Change = Callable[[Mapping[str, str]], str]


@dataclass(frozen=True, slots=True)
class Tenants:
    """The tenants of a stage as its operators manage them.

    ``keys`` is None where a function may neither make keys nor write the configuration, as a
    router on AWS: there tenants are only shown.
    """

    ssm: SsmApi
    stage: str
    _: KW_ONLY
    keys: "KeyStore | None"
    locks: RedisFailureDetector
    revisions: RedisRevisions
    pause: Callable[[float], None] = time.sleep

    def documents(self) -> dict[str, str]:
        """Read the stage's newest documents, which may not be in force yet.

        Raises:
            StoreUnavailableError: SSM does not answer.
        """
        reader = SsmReader(self.ssm, config_root(self.stage))
        revision, documents = reader.snapshot()
        if revision is None:
            raise NoConfigurationError((Problem(CONFIG_REVISION, "there is none"),))
        return reader.tree().documents if documents is None else documents

    def made_keys(self) -> list[ManagedKey]:
        """List the keys that were made for tenants; none where keys are made elsewhere."""
        return [] if self.keys is None else self.keys.made()

    def leftovers(self, documents: Mapping[str, str], now: datetime) -> list[ManagedKey]:
        """Find keys of calls that died; none where keys are made elsewhere."""
        return models.leftovers(self.made_keys(), documents, now)

    def add(
        self, name: str, settings: Mapping[str, Any], now: datetime
    ) -> "tuple[Standing, FreshKey]":
        """Add a tenant with its settings; return it, and its key, which nobody can read again.

        Raises:
            InvalidRequestError: the name or a setting is wrong.
            ConflictError: there is one already, or tenants are only shown here.
        """
        self.key_store()
        if not NAME.match(name):
            raise InvalidRequestError.of("name", "is up to 32 of a-z, 0-9 and -, a letter first")
        if name == DEFAULT_TENANT:
            raise InvalidRequestError.of("name", "is the tenant that every stage has")
        models.added(settings, "")  # mistakes are told before a key is made
        with self.locked():
            _must_be_new(self.documents(), name)
            key = self._fresh_key(name, now)

            def added(documents: Mapping[str, str]) -> str:
                _must_be_new(documents, name)
                return models.added(settings, key.id)

            with self._unless_refused(key):
                standing = self._changed(name, added, now)
        return standing, key

    def set(
        self, name: str, settings: Mapping[str, Any], expected: str | None, now: datetime
    ) -> Standing:
        """Merge settings into a tenant's.

        Raises:
            NotFoundError: there is none of that name.
            InvalidRequestError: a setting is wrong.
            ConflictError: it is not the ``expected`` revision any more.
        """
        self.key_store()

        def changed(documents: Mapping[str, str]) -> str:
            return models.changed(models.standing_of(documents, name, expected), settings)

        with self.locked():
            return self._changed(name, changed, now)

    def suspend(
        self, tree: Tree, name: str, expected: str | None, now: datetime, *, suspended: bool
    ) -> Standing:
        """Suspend a tenant, or resume it.

        Raises:
            NotFoundError: there is none of that name.
            ConflictError: it is an operator, or not the ``expected`` revision any more.
        """
        self.key_store()
        if suspended and operates(tree, name):
            raise ConflictError(f"{name} is an operator: nobody could resume it")

        def switched(documents: Mapping[str, str]) -> str:
            standing = models.standing_of(documents, name, expected)
            return models.switched(standing, suspended=suspended)

        with self.locked():
            return self._changed(name, switched, now)

    def rotate(
        self, name: str, overlap: timedelta, expected: str | None, now: datetime
    ) -> "tuple[Standing, FreshKey]":
        """Give a tenant a new key; those that it has end after the overlap.

        Raises:
            NotFoundError: there is none of that name.
            ConflictError: too many keys are ending, it is not the ``expected`` revision any more,
                or tenants are only shown here.
        """
        self.key_store()
        if name == DEFAULT_TENANT:
            raise ConflictError(f"the key of {name} is the deployment's: it is replaced there")
        ended: tuple[str, ...] = ()
        with self.locked():
            models.standing_of(self.documents(), name, expected)
            key = self._fresh_key(name, now)

            def rotated(documents: Mapping[str, str]) -> str:
                nonlocal ended
                standing = models.standing_of(documents, name, expected)
                rotation = models.rotated(standing, key.id, now, overlap)
                ended = rotation.ended
                return rotation.text

            with self._unless_refused(key):
                standing = self._changed(name, rotated, now)
            for one in ended:
                with suppress(StoreUnavailableError):  # the router lets it in no more anyway
                    self.key_store().remove(one)
        return standing, key

    def key_store(self) -> "KeyStore":
        """Return the store of keys.

        Raises:
            ConflictError: functions may change no tenants here.
        """
        if self.keys is None:
            said = "this function may change no tenants: a deployment leads such calls to another "
            raise ConflictError(f"{said}one, `operators`; see docs/guides/tenants.md")
        return self.keys

    def _fresh_key(self, tenant: str, now: datetime) -> "FreshKey":
        """Make a key, and remove those that calls of the same tenant have left."""
        keys = self.key_store()
        for one in self.leftovers(self.documents(), now):
            if one.tenant == tenant:
                keys.remove(one.id)
        return keys.make(tenant, now)

    @contextmanager
    def _unless_refused(self, key: "FreshKey") -> Iterator[None]:
        """Remove the key where nothing was written; where that is not known it stays."""
        try:
            yield
        except StoreUnavailableError:
            raise
        except CrawlfleetError:
            with suppress(StoreUnavailableError):
                self.key_store().remove(key.id)
            raise

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Let one change of tenants through at a time.

        Raises:
            ConflictError: another one takes long.
        """
        holder = uuid.uuid4().hex
        for _ in range(_LOCK_TRIES):
            if self.locks.acquire_lock(LOCK, holder, timedelta(), _TERM):
                break
            self.pause(_LOCK_PAUSE_SECONDS)
        else:
            raise ConflictError("another change of tenants is under way; ask again in a minute")
        try:
            yield
        finally:
            with suppress(StoreUnavailableError):
                self.locks.release_lock(LOCK, holder)

    def _changed(self, name: str, change: Change, now: datetime) -> Standing:
        """Push the change of a tenant's document; return the tenant as it stands then."""
        path = models.path_of(name)
        documents = self.push(lambda standing: {**standing, path: change(standing)}, now)
        return models.standing_of(documents, name)

    def push(
        self, wanted_of: Callable[[Mapping[str, str]], dict[str, str]], now: datetime
    ) -> dict[str, str]:
        """Push what is wanted in the place of the stage's documents; return them as they are then.

        Raises:
            ConflictError: the configuration would be refused, or others push all the time.
            StoreUnavailableError: SSM does not answer.
        """

        def wanted(
            standing: Mapping[str, str], _given: Mapping[str, str], **_: bool
        ) -> dict[str, str]:
            return wanted_of(standing)

        for _ in range(_TRIES):
            try:
                # No rule is compiled: none of them changes.
                plan = publishing.plan(
                    self.ssm, self.stage, {}, check_reader=unchecked, now=now, wanted_of=wanted
                )
                written = publishing.carry_out(self.ssm, self.stage, plan, now=now)
            except StoreConflictError:
                continue
            except ConfigError as error:
                said = "; ".join(map(str, error.problems[:5]))
                raise ConflictError(f"the configuration as a whole would be refused: {said}") from (
                    error
                )
            with suppress(StoreUnavailableError, ConfigError):
                self.revisions.look(written.revision)
            return plan.wanted()
        raise ConflictError("others push configurations all the time; ask again")


def _must_be_new(documents: Mapping[str, str], name: str) -> None:
    text = documents.get(models.path_of(name))
    if text is not None:
        standing = models.tenants_in({models.path_of(name): text}).get(name)
        if standing is not None and standing.document.removing is not None:
            raise ConflictError(f"{name} is being removed: remove it to the end, then add it")
        said = f"there is a tenant {name} already; where the answer that had its key was lost, "
        raise ConflictError(f"{said}rotate its key")

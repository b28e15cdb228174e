"""Publish the config centre: everything is checked first, and the revision is written last.

Pushed by ``crawlfleet config push`` and by whatever seeds a stage. SSM has no transactions, so of
two pushes at the same moment the second to read the revision refuses. Before the revision the
snapshot is written that it stands for (``parameters``); a stage that has none gets it by the next
push, whether that changes anything or not.

Tenants that are ``managed`` are not undone by a folder: see :func:`wanted_of`.
"""

import secrets
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Final

import msgspec

from crawlfleet.config import parameters, ssm
from crawlfleet.config.documents.biz import Stage, Tenant, Tree
from crawlfleet.config.loading import adopt, push_problems
from crawlfleet.config.validation import ReaderCheck, unchecked
from crawlfleet.kernel.errors import ConfigError, Problem, StoreConflictError
from crawlfleet.kernel.names import (
    CONFIG_BIZS,
    CONFIG_PARTS,
    CONFIG_REVISION,
    CONFIG_STAGE,
    CONFIG_TENANTS,
    config_root,
)
from crawlfleet.kernel.validation import decode

#: What DeleteParameters takes at once.
_DELETED_AT_ONCE: Final = 10
#: Fields of a managed tenant's document that calls alone change.
MANAGED_FIELDS: Final = ("managed", "suspended", "removing", "api_keys", "retiring_keys")


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a push. With nothing to do, ``revision`` is the present one."""

    revision: str
    written: tuple[str, ...]
    deleted: tuple[str, ...]


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The differences of a push: the stored texts and those wanted, by path.

    ``put`` are the paths to write, in that order.
    """

    revision: str | None
    stored: parameters.Stored
    before: dict[str, str]
    after: dict[str, str]
    put: tuple[str, ...]

    @property
    def deleted(self) -> tuple[str, ...]:
        """Return the paths of documents that are to go."""
        return tuple(sorted(self.before.keys() - self.after.keys()))

    @property
    def is_done(self) -> bool:
        """Return whether the stage has all that is wanted, and a snapshot of it.

        Whoever died before the revision has left documents that nobody was told of.
        """
        if self.put or self.deleted or self.revision is None:
            return False
        found = parameters.gather(self.revision, self.stored.slots.values())
        if found is None or found.content is None:
            return False
        return parameters.unpack(self.revision, found.content) == self.wanted()

    def wanted(self) -> dict[str, str]:
        """Return every document that the stage is to have, text by path."""
        kept = {
            path: text for path, text in self.stored.documents.items() if path not in self.before
        }
        return kept | {path: compact(text) for path, text in self.after.items()}


def read_documents(client: ssm.SsmApi, stage: str) -> dict[str, str]:
    """Read every document of the stage, text by path, valid or not.

    Raises:
        StoreUnavailableError: SSM does not answer.
        ConfigError: a document's parts are incomplete.
    """
    stored = ssm.SsmReader(client, config_root(stage)).tree()
    if stored.problems:
        raise ConfigError(stored.problems)
    return stored.documents


def managed_tenants(documents: Mapping[str, str]) -> dict[str, Tenant]:
    """Return the tenants among documents that no files manage, by name.

    >>> list(managed_tenants({"tenants/a": '{"managed": true}', "tenants/b": "{}"}))
    ['a']
    """
    found = {}
    for path, text in sorted(documents.items()):
        kind, _, name = path.partition("/")
        tenant = decode(text, Tenant)[0] if kind == CONFIG_TENANTS else None
        if tenant is not None and tenant.managed:
            found[name] = tenant
    return found


def wanted_of(
    standing: Mapping[str, str], documents: Mapping[str, str], *, delete: bool
) -> dict[str, str]:
    """Return what is to stand once a folder's ``documents`` are pushed over what stands.

    A managed tenant keeps its keys and its suspension, whatever a file says of them. Where the
    folder has no file of it, all of its documents stay, ``delete`` or not.

    >>> wanted_of({"tenants/a": '{"managed":true}', "tenants/b": "{}"}, {}, delete=True)
    {'tenants/a': '{"managed":true}'}
    """
    wanted = dict(documents) if delete else {**standing, **documents}
    for tenant in managed_tenants(standing):
        path = f"{CONFIG_TENANTS}/{tenant}"
        if path in documents:
            wanted[path] = _as_managed(documents[path], standing[path])
            continue
        bizs = f"{CONFIG_BIZS}/{tenant}/"
        stays = {at: text for at, text in standing.items() if at == path or at.startswith(bizs)}
        wanted = {**stays, **wanted}
    return wanted


def _as_managed(text: str, standing: str) -> str:
    """Return a managed tenant's document with the fields that calls alone change as they stand."""
    try:
        given = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return text  # which is refused as it is
    kept = msgspec.json.decode(standing, type=dict[str, msgspec.Raw])
    unmanaged = {name: value for name, value in given.items() if name not in MANAGED_FIELDS}
    managed = {name: kept[name] for name in MANAGED_FIELDS if name in kept}
    return msgspec.json.encode({**unmanaged, **managed}).decode()


def write_tree(
    client: ssm.SsmApi,
    stage: str,
    documents: Mapping[str, str],
    *,
    check_reader: ReaderCheck = unchecked,
    now: datetime | None = None,
    delete: bool = False,
    wanted_of: Callable[..., dict[str, str]] = wanted_of,
) -> Written:
    """Check everything, then write the documents that differ, then the revision.

    The ``client``'s retries should be patient, as PutParameter is rationed. ``documents`` are JSON
    by path (``stage``, ``tenants/{tenant}``, ``bizs/{tenant}/{biz}``); with ``delete`` those of the
    stage that are not given go. ``now`` is what new generations are measured by.

    Raises:
        ConfigError: there are validation errors; nothing was written.
        StoreConflictError: somebody else pushed meanwhile; nothing was written.
        StoreUnavailableError: SSM does not answer. What was written is not announced; push again.
    """
    moment = now or datetime.now(UTC)
    prepared = plan(
        client,
        stage,
        documents,
        check_reader=check_reader,
        now=moment,
        delete=delete,
        wanted_of=wanted_of,
    )
    return carry_out(client, stage, prepared, now=moment)


def plan(
    client: ssm.SsmApi,
    stage: str,
    documents: Mapping[str, str],
    *,
    check_reader: ReaderCheck,
    now: datetime,
    delete: bool = False,
    wanted_of: Callable[..., dict[str, str]] = wanted_of,
) -> Plan:
    """Read what is stored, check what is wanted, and return the differences; writes nothing.

    ``wanted_of`` makes what is to stand of what stands and ``documents``.

    Raises:
        ConfigError: there are validation errors, in what is given or beside it.
        StoreUnavailableError: SSM does not answer.
    """
    reader = ssm.SsmReader(client, config_root(stage))
    revision = reader.revision()
    stored = reader.tree()
    standing = stored.documents
    wanted = wanted_of(standing, documents, delete=delete)
    unread = [problem for problem in stored.problems if problem.field not in wanted]
    verdict = adopt("", wanted, None, {}, check_reader)
    problems = [*verdict.problems, *_size_problems(documents), *([] if delete else unread)]
    if verdict.tree is not None:
        problems += push_problems(standing, verdict.tree, now)
    if problems:
        raise ConfigError(dict.fromkeys(problems))
    after = {path: text for path, text in wanted.items() if _differs(standing.get(path), text)}
    before = {path: text for path, text in standing.items() if path in after or path not in wanted}
    put = _order(after, standing, verdict.tree)
    return Plan(revision=revision, stored=stored, before=before, after=after, put=put)


def carry_out(
    client: ssm.SsmApi,
    stage: str,
    prepared: Plan,
    *,
    now: datetime,
    progress: Callable[[str], None] | None = None,
) -> Written:
    """Write what was planned. ``progress`` is called with each path before it is written.

    Raises:
        StoreConflictError: the revision is no longer the planned one's; nothing was written.
        StoreUnavailableError: SSM does not answer. What was written is not announced; push again.
    """
    root = config_root(stage)
    if prepared.is_done and prepared.revision is not None:
        return Written(revision=prepared.revision, written=(), deleted=())
    if ssm.SsmReader(client, root).revision() != prepared.revision:
        raise StoreConflictError(f"{root} was pushed to by somebody else; look at the difference")
    # First, as its slots are new names: a key that cannot be used is found out before anything is
    # changed.
    digest = _put_snapshot(client, root, prepared)
    kept: set[str] = set()
    changed = (*prepared.put, *prepared.deleted)
    for path in changed:
        if progress is not None:
            progress(path)
        if path in prepared.after:
            kept |= _put_document(client, root, path, prepared)
        else:
            _delete(client, [f"{root}/{path}"])
    prefixes = tuple(f"{path}/{CONFIG_PARTS}/" for path in changed)
    stale = sorted(name for name in prepared.stored.parts - kept if name.startswith(prefixes))
    _delete(client, [f"{root}/{name}" for name in stale])
    revision = parameters.name_revision(prepared.revision, now, digest)
    ssm.put(client, root, CONFIG_REVISION, revision)
    return Written(revision=revision, written=prepared.put, deleted=prepared.deleted)


def compact(text: str) -> str:
    """JSON without blanks, its keys in the order they came in; anything else as it is."""
    try:
        return msgspec.json.format(text, indent=-1)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return text


def _put_snapshot(client: ssm.SsmApi, root: str, prepared: Plan) -> str:
    """Write the snapshot beside the standing one; returns its digest.

    Of more than a reader would take there is none: functions then read the documents one by one.
    """
    documents = prepared.wanted()
    if sum(map(len, documents.values())) > parameters.MAX_SNAPSHOT_BYTES // 4:
        return secrets.token_hex(16)
    content = parameters.pack(documents)
    slots = parameters.slots(content, prepared.revision, prepared.stored.slots)
    for name, value in slots.items():
        ssm.put(client, root, name, value)
    standing = parameters.used_slots(prepared.revision or "", prepared.stored.slots)
    stale = sorted(prepared.stored.slots.keys() - slots.keys() - standing)
    _delete(client, [f"{root}/{name}" for name in stale])
    return parameters.digest_of(content)


def _put_document(client: ssm.SsmApi, root: str, path: str, prepared: Plan) -> set[str]:
    """Write a document; returns the names of its parts."""
    encoded = parameters.encode(path, compact(prepared.after[path]))
    damaged = any(problem.field == path for problem in prepared.stored.problems)
    for name, value in encoded.parts.items():
        if damaged or name not in prepared.stored.parts:
            ssm.put(client, root, name, value)
    ssm.put(client, root, path, encoded.head)  # from here on the new version stands
    return set(encoded.parts)


def _delete(client: ssm.SsmApi, names: Iterable[str]) -> None:
    waiting = list(names)
    while waiting:
        batch, waiting = waiting[:_DELETED_AT_ONCE], waiting[_DELETED_AT_ONCE:]
        with ssm.answering():
            client.delete_parameters(Names=batch)


def _differs(standing: str | None, wanted: str) -> bool:
    return standing is None or compact(standing) != compact(wanted)


def _order(
    after: Mapping[str, str], standing: Mapping[str, str], wanted: Tree | None
) -> tuple[str, ...]:
    """Order the paths: the stage first, because bizs name its nodes; last, if it drops one.

    Whoever starts in the middle of a push then finds no biz that names what is not there.
    """
    text = standing.get(CONFIG_STAGE)
    old = None if text is None else decode(text, Stage)[0]
    drops = bool(old and wanted and set(old.nodes) - set(wanted.stage.nodes))
    return tuple(sorted(after, key=lambda path: ((path == CONFIG_STAGE) == drops, path)))


def _size_problems(documents: Mapping[str, str]) -> list[Problem]:
    return [
        Problem(path, f"is larger than {parameters.MAX_DOCUMENT_BYTES} bytes")
        for path, text in documents.items()
        if len(text.encode()) > parameters.MAX_DOCUMENT_BYTES
    ]

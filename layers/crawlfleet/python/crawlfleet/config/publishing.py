"""Publish the config centre: everything is checked first, and the revision is written last.

Pushed by ``crawlfleet config push`` and by whatever seeds a stage. SSM has no transactions, so of
two pushes at the same moment the second to read the revision refuses.
"""

import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Final

import msgspec

from crawlfleet.config.documents.biz import Stage, Tree
from crawlfleet.config.loading import adopt, push_problems
from crawlfleet.config.ssm import (
    MAX_DOCUMENT_BYTES,
    SsmApi,
    Stored,
    answering,
    encode,
    read_revision,
    read_tree,
)
from crawlfleet.config.validation import ReaderCheck, unchecked
from crawlfleet.kernel.errors import ConfigError, Problem, StoreConflictError
from crawlfleet.kernel.names import CONFIG_PARTS, CONFIG_REVISION, CONFIG_STAGE, config_root
from crawlfleet.kernel.validation import decode

#: What DeleteParameters takes at once.
_DELETED_AT_ONCE: Final = 10


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
    stored: Stored
    before: dict[str, str]
    after: dict[str, str]
    put: tuple[str, ...]

    @property
    def deleted(self) -> tuple[str, ...]:
        """Return the paths of documents that are to go."""
        return tuple(sorted(self.before.keys() - self.after.keys()))


def read_documents(client: SsmApi, stage: str) -> dict[str, str]:
    """Read every document of the stage, text by path, valid or not.

    Raises:
        StoreUnavailableError: SSM does not answer.
        ConfigError: a document's parts are incomplete.
    """
    stored = read_tree(client, config_root(stage), time.sleep)
    if stored.problems:
        raise ConfigError(stored.problems)
    return stored.documents


def write_tree(
    client: SsmApi,
    stage: str,
    documents: Mapping[str, str],
    *,
    check_reader: ReaderCheck = unchecked,
    now: datetime | None = None,
    delete: bool = False,
) -> Written:
    """Check everything, then write the documents that differ, then the revision.

    Args:
        client: A client of ``ssm``; its retries should be patient, PutParameter is rationed.
        stage: Name of the stage.
        documents: JSON by path (``stage``, ``tenants/{tenant}``, ``bizs/{tenant}/{biz}``).
        check_reader: The extractor's check of a rule's selectors.
        now: Now; what new generations are measured by.
        delete: Whether documents of the stage that are not given go.

    Raises:
        ConfigError: there are validation errors; nothing was written.
        StoreConflictError: somebody else pushed meanwhile; nothing was written.
        StoreUnavailableError: SSM does not answer. What was written is not announced; push again.
    """
    moment = now or datetime.now(UTC)
    prepared = plan(client, stage, documents, check_reader=check_reader, now=moment, delete=delete)
    return carry_out(client, stage, prepared, now=moment)


def plan(
    client: SsmApi,
    stage: str,
    documents: Mapping[str, str],
    *,
    check_reader: ReaderCheck,
    now: datetime,
    delete: bool = False,
) -> Plan:
    """Read what is stored, check what is wanted, and return the differences; writes nothing.

    Raises:
        ConfigError: there are validation errors, in what is given or beside it.
        StoreUnavailableError: SSM does not answer.
    """
    root = config_root(stage)
    revision = read_revision(client, root)
    stored = read_tree(client, root, time.sleep)
    standing = stored.documents
    wanted = dict(documents) if delete else {**standing, **documents}
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
    client: SsmApi,
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
    if not prepared.put and not prepared.deleted and prepared.revision is not None:
        return Written(revision=prepared.revision, written=(), deleted=())
    if read_revision(client, root) != prepared.revision:
        raise StoreConflictError(f"{root} was pushed to by somebody else; look at the difference")
    stale: set[str] = set()
    for path in prepared.put:
        if progress is not None:
            progress(path)
        stale |= _put_document(client, root, path, prepared)
    for path in prepared.deleted:
        if progress is not None:
            progress(path)
        _delete(client, [f"{root}/{path}"])
        stale |= {
            name for name in prepared.stored.parts if name.startswith(f"{path}/{CONFIG_PARTS}/")
        }
    _delete(client, [f"{root}/{name}" for name in sorted(stale)])
    revision = f"{now:%Y%m%dT%H%M%S}.{now.microsecond // 1000:03d}Z-{secrets.token_hex(4)}"
    _put(client, f"{root}/{CONFIG_REVISION}", revision)
    return Written(revision=revision, written=prepared.put, deleted=prepared.deleted)


def compact(text: str) -> str:
    """JSON without blanks, its keys in the order they came in; anything else as it is."""
    try:
        return msgspec.json.format(text, indent=-1)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return text


def _put_document(client: SsmApi, root: str, path: str, prepared: Plan) -> set[str]:
    """Write a document; returns the parts that nothing refers to any more."""
    encoded = encode(path, compact(prepared.after[path]))
    damaged = any(problem.field == path for problem in prepared.stored.problems)
    for name, value in encoded.parts.items():
        if damaged or name not in prepared.stored.parts:
            _put(client, f"{root}/{name}", value)
    _put(client, f"{root}/{path}", encoded.head)  # from here on the new version stands
    prefix = f"{path}/{CONFIG_PARTS}/"
    return {
        name
        for name in prepared.stored.parts
        if name.startswith(prefix) and name not in encoded.parts
    }


def _put(client: SsmApi, name: str, value: str) -> None:
    with answering():
        client.put_parameter(Name=name, Value=value, Type="String", Overwrite=True, Tier="Standard")


def _delete(client: SsmApi, names: Iterable[str]) -> None:
    waiting = list(names)
    while waiting:
        batch, waiting = waiting[:_DELETED_AT_ONCE], waiting[_DELETED_AT_ONCE:]
        with answering():
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
        Problem(path, f"is larger than {MAX_DOCUMENT_BYTES} bytes")
        for path, text in documents.items()
        if len(text.encode()) > MAX_DOCUMENT_BYTES
    ]

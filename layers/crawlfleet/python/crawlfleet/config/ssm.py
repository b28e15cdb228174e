"""The config centre on SSM Parameter Store (SPEC.md A3, H8); the layout is drawn in names.py.

Every journey asks here for what is in force. Asking costs nothing: once in ``poll_seconds`` one
small parameter, the revision, is read, and the tree is read again only when that has changed.
Nothing runs in the background, because Lambda freezes what does. A push is in force everywhere
within one poll of the next call.

A document that fits is the value of its parameter. A larger one is compressed and cut into parts
below ``{path}/parts/{digest}/``; its own parameter then is the head, ``{"digest": d, "parts": n}``.
Parts never change: a new version has another digest, so a reader sees the old version or the new
one, or that it came between and must read again.
"""

import base64
import logging
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import blake2b
from typing import Any, Final, Protocol

import msgspec

from crawlfleet.config.documents.biz import Tree
from crawlfleet.config.loading import Reading, adopt
from crawlfleet.config.validation import ReaderCheck, unchecked
from crawlfleet.kernel.errors import (
    ConfigError,
    CrawlfleetError,
    NoConfigurationError,
    Problem,
    StoreUnavailableError,
)
from crawlfleet.kernel.names import CONFIG_PARTS, CONFIG_REVISION, CONFIG_STAGE, config_root

#: Largest value of a standard parameter, in bytes.
MAX_PARAMETER_BYTES: Final = 4096
#: Largest document; a few hundred rules are a tenth of it.
MAX_DOCUMENT_BYTES: Final = 2_000_000
#: How often a tree is read anew because a document changed under the reader's eyes.
READ_TRIES: Final = 4
#: Pages of ten parameters. Whoever sends more than this does not mean to end.
_MAX_PAGES: Final = 5_000


class SsmApi(Protocol):
    """The calls of SSM that the config centre makes; any client of ``ssm`` fits."""

    def get_parameter(self, **arguments: Any) -> Mapping[str, Any]:
        """GetParameter."""
        ...

    def get_parameters_by_path(self, **arguments: Any) -> Mapping[str, Any]:
        """GetParametersByPath."""
        ...

    def put_parameter(self, **arguments: Any) -> Mapping[str, Any]:
        """PutParameter."""
        ...

    def delete_parameters(self, **arguments: Any) -> Mapping[str, Any]:
        """DeleteParameters."""
        ...


class Head(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The place of a large document: the digest of its text, and how many parts hold it."""

    digest: str
    parts: int


class Stored(msgspec.Struct, frozen=True, kw_only=True):
    """The documents read below a root.

    Attributes:
        documents: Text by path, such as ``bizs/acme/shop``.
        parts: Names of all parts below the root, relative to it.
        problems: Documents that could not be put together.
    """

    documents: dict[str, str]
    parts: frozenset[str]
    problems: tuple[Problem, ...] = ()


class Encoded(msgspec.Struct, frozen=True):
    """A document as parameters: the value at its path, and its parts by name below the root."""

    head: str
    parts: dict[str, str]


@contextmanager
def answering() -> Iterator[None]:
    """Turn whatever SSM or its client does wrong into our error, never showing a value."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except (BotoCoreError, ClientError) as error:
        raise StoreUnavailableError("ssm", f"{type(error).__name__}: {error}") from error
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise StoreUnavailableError("ssm", f"answered with nonsense ({error!r})") from error


def read_revision(client: SsmApi, root: str) -> str | None:
    """Read the revision of the tree; None when none was ever written.

    Raises:
        StoreUnavailableError: SSM does not answer, or not as SSM does.
    """
    from botocore.exceptions import ClientError

    with answering():
        try:
            answer = client.get_parameter(Name=f"{root}/{CONFIG_REVISION}", WithDecryption=True)
        except ClientError as error:
            if error.response.get("Error", {}).get("Code") == "ParameterNotFound":
                return None
            raise
        return _text(answer["Parameter"]["Value"])


def read_tree(client: SsmApi, root: str, pause: Callable[[float], None]) -> Stored:
    """Read every document below the root.

    A document whose parts are incomplete is being replaced at this moment, so the tree is read
    again. If that goes on, the document becomes a problem and the others are returned.

    Raises:
        StoreUnavailableError: SSM does not answer, or not as SSM does.
    """
    stored = assemble(_read_all(client, root))
    for attempt in range(1, READ_TRIES):
        if not stored.problems:
            break
        pause(0.05 * attempt)
        stored = assemble(_read_all(client, root))
    return stored


def encode(path: str, text: str) -> Encoded:
    """Cut a document into parameters of a size that SSM takes."""
    content = text.encode()
    # SSM reads {{...}} in a value as a reference to another parameter and refuses it.
    if 0 < len(content) <= MAX_PARAMETER_BYTES and "{{" not in text:
        return Encoded(text, {})
    digest = blake2b(content, digest_size=10).hexdigest()
    packed = base64.b64encode(zlib.compress(content, 9)).decode()
    cuts = range(0, len(packed), MAX_PARAMETER_BYTES)
    parts = {
        f"{path}/{CONFIG_PARTS}/{digest}/{number}": packed[start : start + MAX_PARAMETER_BYTES]
        for number, start in enumerate(cuts)
    }
    head = msgspec.json.encode(Head(digest=digest, parts=len(parts))).decode()
    return Encoded(head, parts)


def assemble(values: Mapping[str, str]) -> Stored:
    """Invert :func:`encode` over a whole tree. Parts that no head names are left over."""
    heads = {name: value for name, value in values.items() if _is_document(name)}
    documents: dict[str, str] = {}
    problems: list[Problem] = []
    for path, value in heads.items():
        if path == CONFIG_REVISION:
            continue
        head = _head(value)
        if head is None:
            documents[path] = value
            continue
        text = _join(path, head, values)
        if text is None:
            message = "its parts are incomplete or damaged; push it again"
            problems.append(Problem(path, message))
        else:
            documents[path] = text
    return Stored(
        documents=documents, parts=frozenset(values.keys() - heads.keys()), problems=tuple(problems)
    )


def _join(path: str, head: Head, values: Mapping[str, str]) -> str | None:
    names = [f"{path}/{CONFIG_PARTS}/{head.digest}/{number}" for number in range(head.parts)]
    try:
        packed = base64.b64decode("".join(values[name] for name in names), validate=True)
        unpacker = zlib.decompressobj()
        content = unpacker.decompress(packed, MAX_DOCUMENT_BYTES)
        text = content.decode()
    except (KeyError, ValueError, zlib.error):
        return None
    whole = unpacker.eof and blake2b(content, digest_size=10).hexdigest() == head.digest
    return text if whole else None


def _head(value: str) -> Head | None:
    try:
        head = msgspec.json.decode(value, type=Head)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return None
    return head if 0 <= head.parts <= MAX_DOCUMENT_BYTES // 1024 else None


def _is_document(name: str) -> bool:
    """Return whether a name is no part's: a part's name is longer."""
    pieces = name.split("/")
    depth = 1 if pieces[0] == CONFIG_STAGE else 2 if pieces[0] == "tenants" else 3
    return not (len(pieces) == depth + 3 and pieces[depth] == CONFIG_PARTS)


def _read_all(client: SsmApi, root: str) -> dict[str, str]:
    """Read every value below the root by its name relative to it."""
    values: dict[str, str] = {}
    arguments: dict[str, Any] = {"Path": root, "Recursive": True, "WithDecryption": True}
    with answering():
        for _ in range(_MAX_PAGES):
            answer = client.get_parameters_by_path(**arguments)
            for parameter in answer["Parameters"]:
                name = _text(parameter["Name"])
                if name.startswith(f"{root}/"):
                    values[name.removeprefix(f"{root}/")] = _text(parameter["Value"])
            token = answer.get("NextToken")
            if not token:
                return values
            if token == arguments.get("NextToken"):
                raise ValueError("the same page again")
            arguments["NextToken"] = token
        raise ValueError("pages without end")


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a value is {type(value).__name__}")
    return value


log = logging.getLogger(__name__)

#: Seconds between two reads of the revision.
POLL_SECONDS: Final = 5.0
#: Most seconds between two reads while SSM fails. Each costs a caller its time-outs.
MAX_POLL_SECONDS: Final = 30.0


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """The problems of a revision that is not in force as a whole."""

    revision: str
    problems: tuple[Problem, ...]


class SsmConfig:
    """The configuration in force; threads may share it.

    A failing SSM or a wrong document leaves the last good version in force; see
    :attr:`refused` and :attr:`failing`.

    Args:
        client: Of ``ssm``, with short time-outs, as ``kernel.aws.clients.client`` makes it.
        stage: Name of the stage whose tree is read.
        check_reader: The extractor's check; without one, selectors are taken as they are.
        poll_seconds: Time between two reads of the revision.
        clock: Epoch seconds. Not the monotonic clock: it may stand still in a frozen function.
        pause: Waits between two readings of a tree that is being written.
        pools: The pools beside the usual one that are deployed.
    """

    def __init__(
        self,
        client: SsmApi,
        stage: str,
        *,
        check_reader: ReaderCheck = unchecked,
        poll_seconds: float = POLL_SECONDS,
        clock: Callable[[], float] = time.time,
        pause: Callable[[float], None] = time.sleep,
        pools: Iterable[str] = (),
    ) -> None:
        self._client = client
        self._root = config_root(stage)
        self._check_reader = check_reader
        self._poll_seconds = poll_seconds
        self._clock = clock
        self._pause = pause
        self._pools = frozenset(pools)
        self._lock = threading.Lock()
        self._tree: Tree | None = None
        self._refused: Refused | None = None
        self._readings: dict[str, Reading] = {}
        self._revision: str | None = None
        self._looked_at: float | None = None
        self._failures = 0
        self._failure: CrawlfleetError | None = None

    @property
    def refused(self) -> Refused | None:
        """Return what of the newest revision is not in force; None when all of it is."""
        return self._refused

    @property
    def failing(self) -> str | None:
        """Return why the newest read of SSM failed; None when it did not."""
        return None if self._failure is None else str(self._failure)

    def current(self) -> Tree:
        """Return the newest valid tree, at most about ``poll_seconds`` old; no read per call.

        One thread reads; the others meanwhile go on with what is in force.

        Raises:
            ConfigError: there has never been a valid tree; names every error.
            NoConfigurationError: nothing was pushed yet.
            StoreUnavailableError: there has never been one because SSM does not answer.
        """
        tree = self._tree
        if tree is not None:
            if self._is_due() and self._lock.acquire(blocking=False):
                try:
                    self._poll()
                finally:
                    self._lock.release()
            return self._tree or tree
        with self._lock:
            if self._tree is None and self._is_due():
                self._poll()
        if self._tree is None:
            raise self._first_failure()
        return self._tree

    def _is_due(self) -> bool:
        if self._looked_at is None:
            return True
        wait = self._poll_seconds
        if self._tree is not None and self._failures:
            wait = max(wait, min(MAX_POLL_SECONDS, wait * 2**self._failures))
        # A clock that was set back must not put off the next read.
        return not 0 <= self._clock() - self._looked_at < wait

    def _poll(self) -> None:
        """Read the revision, and the tree if need be. Called by one thread at a time."""
        try:
            self._refresh()
        except (StoreUnavailableError, ConfigError) as error:
            if self._failure is None or type(self._failure) is not type(error):
                log.warning(
                    "configuration not read; the last good one stays in force",
                    extra={"config_root": self._root, "reason": str(error)},
                )
            self._failures += 1
            self._failure = error
        else:
            self._failures = 0
            self._failure = None
        finally:
            self._looked_at = self._clock()

    def _refresh(self) -> None:
        revision = read_revision(self._client, self._root)
        if revision is None:
            message = f"there is none; push a configuration below {self._root}"
            raise NoConfigurationError((Problem(CONFIG_REVISION, message),))
        if revision == self._revision and self._tree is not None:
            return
        stored = read_tree(self._client, self._root, self._pause)
        documents = dict(stored.documents)
        # A document that cannot be put together counts as there and wrong, not as removed.
        documents |= {problem.field: "" for problem in stored.problems}
        verdict = adopt(revision, documents, self._tree, self._readings, self._check_reader)
        unread = {problem.field: problem for problem in stored.problems}
        problems = tuple(unread.get(problem.field, problem) for problem in verdict.problems)
        self._readings = verdict.readings
        self._report(revision, problems)
        if verdict.tree is None:
            raise ConfigError(problems)
        self._tree = msgspec.structs.replace(verdict.tree, pools=self._pools)
        self._revision = revision

    def _report(self, revision: str, problems: tuple[Problem, ...]) -> None:
        refused = Refused(revision=revision, problems=problems) if problems else None
        if refused is not None and refused != self._refused:
            log.error(
                "configuration refused in part; the last good version of it stays in force",
                extra={"revision": revision, "problems": [str(problem) for problem in problems]},
            )
        self._refused = refused

    def _first_failure(self) -> CrawlfleetError:
        """A new error each time: one that is raised twice gathers two tracebacks."""
        failure = self._failure
        if isinstance(failure, ConfigError):
            return type(failure)(failure.problems)
        if isinstance(failure, StoreUnavailableError):
            return StoreUnavailableError(
                failure.part, str(failure).removeprefix(f"{failure.part}: ")
            )
        return StoreUnavailableError("ssm", "no answer yet")

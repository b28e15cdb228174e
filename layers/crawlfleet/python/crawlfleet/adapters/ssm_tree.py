"""Documents as parameters of SSM Parameter Store (SPEC.md A3); the layout is drawn in names.py.

A document that fits is the value of its parameter. A larger one is compressed and cut into parts
below ``{path}/parts/{digest}/``; its own parameter then is the head, ``{"digest": d, "parts": n}``.
Parts never change: a new version has another digest, so a reader sees the old version or the new
one, or that it came between and must read again.
"""

import base64
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import blake2b
from typing import Any, Final, Protocol

import msgspec

from crawlfleet.errors import Problem, StoreUnavailableError
from crawlfleet.names import CONFIG_PARTS, CONFIG_REVISION, CONFIG_STAGE

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
    """Where a large document is: the digest of its text, and how many parts hold it."""

    digest: str
    parts: int


class Stored(msgspec.Struct, frozen=True, kw_only=True):
    """What was read below a root.

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
    """The revision of the tree, or None when none was ever written.

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
    """Every document below the root, put together.

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
    """The inverse of :func:`encode` over a whole tree. Parts that no head names are left over."""
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
    """Whether a name is no part's. A biz may be called ``parts``; a part's name is longer."""
    pieces = name.split("/")
    depth = 1 if pieces[0] == CONFIG_STAGE else 2 if pieces[0] == "tenants" else 3
    return not (len(pieces) == depth + 3 and pieces[depth] == CONFIG_PARTS)


def _read_all(client: SsmApi, root: str) -> dict[str, str]:
    """Every value below the root by its name relative to it."""
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

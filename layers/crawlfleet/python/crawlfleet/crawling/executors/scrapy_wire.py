"""Write Scrapy's requests and items as JSON: no pickle, so that nothing read back can run.

JSON alone holds less than what spiders put into ``meta`` and ``cb_kwargs``. An object with the key
``$`` stands for what else is taken: bytes, tuples, sets, dates and times, decimals, UUIDs, and
items (of Scrapy, dataclasses, attrs, pydantic).

What is read may be anybody's, as tenants write into the same Redis. So a callback is one of those
that the project wrote to be called, and a class is only ever found, never imported: a request's, an
item's of Scrapy, or one of the packages that the spider itself is of.
"""

import base64
import json
import sys
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from inspect import getattr_static
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from crawlfleet.crawling.records.normalise import normalised
from crawlfleet.kernel.errors import InvalidRequestError

if TYPE_CHECKING:
    from scrapy import Request, Spider

#: Bytes of a request, by default.
MOST_BYTES: Final = 1_000_000
_TAG: Final = "$"
_DEEPEST: Final = 64
#: About 3,000 digits; Python itself refuses to write out, or to read, more than 4,300.
_MOST_BITS: Final = 10_000
#: What a request has where nothing was said; such attributes are not written.
_DEFAULTS: Final[Mapping[str, object]] = {
    "method": "GET",
    "body": b"",
    "encoding": "utf-8",
    "priority": 0,
    "dont_filter": False,
}
#: Attributes that have a spelling of their own below.
_OWN: Final = frozenset({"url", "headers", "callback", "errback"})


#: The setting that lets callbacks travel whose names begin with an underscore.
CALLBACKS: Final = "CRAWLFLEET_CALLBACKS"
#: What Scrapy's own spiders give as callbacks.
_OF_SCRAPY: Final = frozenset({"_callback", "_errback", "_parse_sitemap", "parse_start_url"})
#: Packages that a project's classes are derived from, and that are not its own.
_NOT_OWN: Final = frozenset({"builtins", "crawlfleet", "scrapy", "scrapy_redis", "typing"})


class NotPortableError(ValueError):
    """JSON cannot hold a value, or it is no longer what it was written for; says where and why."""

    def __init__(self, place: str, why: str) -> None:
        self.place = place
        self.why = why
        super().__init__(f"{place}: {why}")


def dump_request(request: "Request", spider: "Spider", most_bytes: int = MOST_BYTES) -> bytes:
    """Write a request as JSON; callbacks by the names of the spider's methods.

    Raises NotPortableError: names the key that JSON cannot hold, or the size.
    """
    content = json.dumps(request_fields(request, spider), separators=(",", ":")).encode()
    if len(content) > most_bytes:
        raise NotPortableError("request", f"has {len(content):,} bytes, {most_bytes:,} is the most")
    return content


def request_fields(request: "Request", spider: "Spider") -> dict[str, Any]:
    """Return what is written of a request; raises as :func:`dump_request`."""
    from scrapy import Request

    own = _packages(spider)
    fields: dict[str, Any] = {"url": request.url}
    for name in ("callback", "errback"):
        if (method := getattr(request, name)) is not None:
            fields[name] = _name_of(method, spider, name)
    if request.headers:
        fields["headers"] = [
            [_text(name), [_text(value) for value in values]]
            for name, values in request.headers.items()
        ]
    for name in request.attributes:
        value = getattr(request, name)
        if name in _OWN or (not value and name not in _DEFAULTS) or _DEFAULTS.get(name) == value:
            continue
        fields[name] = _written(value, name, own)
    if type(request) is not Request:
        fields["_class"] = _spelled(type(request), "request")
    return fields


def fields_of_dict(given: Mapping[Any, Any]) -> dict[str, Any]:
    """Return what is written of a request that Scrapy made a dict of, as scrapy-redis keeps them.

    Raises NotPortableError: it is none, or names the key that JSON cannot hold.
    """
    url = given.get("url")
    if not isinstance(url, str):
        raise NotPortableError("request", "has no URL")
    fields: dict[str, Any] = {"url": url}
    for name, value in given.items():
        if name in {"callback", "errback"} and isinstance(value, str):
            fields[name] = value
        elif name == "headers" and isinstance(value, Mapping):
            fields[name] = [
                [text_of(key), [text_of(each) for each in several]]
                for key, values in value.items()
                for several in (values if isinstance(values, list | tuple) else [values],)
            ]
        elif name == "_class" and isinstance(value, str):
            module, _, kind = value.rpartition(".")
            fields[name] = f"{module}:{kind}"
        elif isinstance(name, str) and name not in _OWN and value and _DEFAULTS.get(name) != value:
            fields[name] = _written(value, name, frozenset())
    return fields


def body_of(fields: Mapping[str, Any]) -> bytes:
    """Return the body of a written request; raises as :func:`load_request`."""
    body = _read(fields.get("body", b""), "body", frozenset())
    return body if isinstance(body, bytes) else str(body).encode()


def plain_value(written: Any) -> Any:
    """Return a value as it was before it was written; raises as :func:`load_request`."""
    return _read(written, "value", frozenset())


def load_request(content: bytes | str, spider: "Spider") -> "Request":
    """Read a request back.

    Raises NotPortableError: it is no request, or names what the spider does not have.
    """
    try:
        fields = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise NotPortableError("request", f"is no JSON: {error}") from error
    return request_of(fields, spider)


def request_of(fields: object, spider: "Spider") -> "Request":
    """Make the request of its fields; raises as :func:`load_request`."""
    from scrapy import Request

    if not isinstance(fields, dict) or not isinstance(fields.get("url"), str):
        raise NotPortableError("request", "is no object with a URL")
    kind: type[Request] = Request
    if "_class" in fields:
        kind = _found(fields["_class"], "request", lambda cls: issubclass(cls, Request))
    own = _packages(spider)
    given: dict[str, Any] = {}
    for name, value in fields.items():
        if name in {"callback", "errback"}:
            given[name] = _method(value, spider, name)
        elif name == "headers":
            given[name] = _headers(value)
        elif name in kind.attributes:
            given[name] = _read(value, name, own)
    try:
        return kind(**given)
    except (TypeError, ValueError, AttributeError) as error:
        raise NotPortableError("request", str(error)) from error


def item_fields(item: object) -> dict[str, Any]:
    """Return an item's fields in the form that records have.

    A set is a sorted list, so that the same item is the same record again; bytes are text, or
    base64 where they are none. Raises NotPortableError: it is no item, or names the field that no
    record can hold.
    """
    from itemadapter import ItemAdapter

    if not ItemAdapter.is_item(item):
        raise NotPortableError("item", f"is no item but {_kind(item)}")
    try:
        return normalised(_plain(ItemAdapter(item).asdict()))
    except InvalidRequestError as error:
        raise NotPortableError(error.problems[0].field, error.problems[0].message) from error
    except RecursionError as error:
        raise NotPortableError("item", "is nested too deeply") from error


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, set | frozenset):
        return [_plain(each) for each in sorted(value, key=repr)]
    if isinstance(value, bytes | bytearray):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return base64.b64encode(value).decode()
    return value


def _name_of(method: Any, spider: "Spider", place: str) -> str:
    name = getattr(method, "__name__", "")
    if getattr(getattr(spider, name, None), "__func__", None) is not getattr(method, "__func__", 0):
        why = f"{name or method!r} is no method of the spider {spider.name!r}"
        raise NotPortableError(place, why)
    _method(name, spider, place)
    return str(name)


def _method(name: object, spider: "Spider", place: str) -> Callable[..., Any]:
    """Return the callback of that name; nothing is looked up that could run, such as a property."""
    found = getattr_static(type(spider), name, None) if isinstance(name, str) else None
    if not isinstance(name, str) or not isinstance(found, FunctionType):
        raise NotPortableError(place, f"the spider {spider.name!r} has no method {name!r}")
    if not _is_callback(name, spider):
        why = (
            f"{name!r} of the spider {spider.name!r} is no callback: one is a public method of its "
        )
        why += f"own; {CALLBACKS} may name others that begin with an underscore"
        raise NotPortableError(place, why)
    return getattr(spider, name)  # type: ignore[no-any-return]  # a function of its class


def _is_callback(name: str, spider: "Spider") -> bool:
    packages = {_package(kind) for kind in type(spider).__mro__ if name in vars(kind)}
    if name == "parse" or (name in _OF_SCRAPY and "scrapy" in packages):
        return True
    if name.startswith("__") or packages & _NOT_OWN:
        return False
    return not name.startswith("_") or name in _named_callbacks(spider)


def _named_callbacks(spider: "Spider") -> list[str]:
    settings = getattr(spider, "settings", None)
    return [] if settings is None else settings.getlist(CALLBACKS)


def _packages(spider: "Spider") -> frozenset[str]:
    """Return the packages that a spider's classes are of: its project's."""
    return frozenset(map(_package, type(spider).__mro__)) - _NOT_OWN


def _package(kind: type) -> str:
    return kind.__module__.partition(".")[0]


def _spelled(kind: type, place: str) -> str:
    spelled = f"{kind.__module__}:{kind.__qualname__}"
    if "<" in spelled:
        raise NotPortableError(place, f"the class {spelled} has no place to be found at")
    return spelled


def _found(spelled: object, place: str, fits: Callable[[type], bool]) -> Any:
    module, _, path = spelled.partition(":") if isinstance(spelled, str) else ("", "", "")
    found: Any = sys.modules.get(module)
    for name in path.split("."):
        # A module or a class may run something when it is asked for what it does not have.
        found = getattr_static(found, name, None)
    if not isinstance(found, type) or not fits(found):
        raise NotPortableError(place, f"the project has imported no such class: {spelled!r}")
    return found


def _is_item(kind: type, own: frozenset[str]) -> bool:
    """Tell whether items of a class travel: making one runs code of whoever wrote the class."""
    from itemadapter import ItemAdapter
    from scrapy import Item

    return issubclass(kind, Item) or (ItemAdapter.is_item_class(kind) and _package(kind) in own)


def _written(value: Any, place: str, own: frozenset[str], depth: int = 0) -> Any:
    if depth > _DEEPEST:
        raise NotPortableError(place, "is nested too deeply")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        raise NotPortableError(place, "is a number of thousands of digits")
    for plain in (str, int, float):
        if isinstance(value, plain) and type(value).__module__ != "enum":
            return value if type(value) is plain else plain(value)
    if isinstance(value, list):
        return [_written(each, f"{place}[{at}]", own, depth + 1) for at, each in enumerate(value)]
    if type(value) is dict:
        items = value.items()
        if _TAG not in value and all(type(key) is str for key in value):
            return {k: _written(each, f"{place}[{k!r}]", own, depth + 1) for k, each in items}
        keys = [_written(key, f"{place}'s key", own, depth + 1) for key in value]
        pairs = zip(keys, value.values(), strict=True)
        each = [[k, _written(v, f"{place}[{k!r}]", own, depth + 1)] for k, v in pairs]
        return _tagged("dict", each)
    for kind, (name, write, _) in _KINDS.items():
        if type(value) is kind:
            return _tagged(name, _written(write(value), place, own, depth + 1))
    return _written_item(value, place, own, depth)


def _written_item(value: Any, place: str, own: frozenset[str], depth: int) -> Any:
    from itemadapter import ItemAdapter

    if not ItemAdapter.is_item(value) or isinstance(value, dict):
        raise NotPortableError(place, f"JSON cannot hold {_kind(value)}")
    if not _is_item(type(value), own):
        why = f"{_kind(value)} is no class of Scrapy's items, nor of the spider's own packages"
        raise NotPortableError(place, why)
    content = [
        _spelled(type(value), place),
        {
            name: _written(each, f"{place}[{name!r}]", own, depth + 1)
            for name, each in ItemAdapter(value).items()
        },
    ]
    return _tagged("item", content)


def _read(value: Any, place: str, own: frozenset[str]) -> Any:
    if isinstance(value, list):
        return [_read(each, place, own) for each in value]
    if not isinstance(value, dict):
        return value
    if _TAG not in value:
        return {key: _read(each, place, own) for key, each in value.items()}
    try:
        kind, content = value[_TAG]
        if kind == "dict":
            return {_read(key, place, own): _read(each, place, own) for key, each in content}
        if kind == "item":
            return _read_item(content, place, own)
        return _READERS[kind](_read(content, place, own))
    except NotPortableError:
        raise
    except (TypeError, ValueError, LookupError, ArithmeticError) as error:
        raise NotPortableError(place, f"is not as we write it: {error!r}") from error


def _read_item(content: Any, place: str, own: frozenset[str]) -> Any:
    spelled, fields = content
    kind = _found(spelled, place, lambda cls: _is_item(cls, own))
    return kind(**{name: _read(each, place, own) for name, each in fields.items()})


def _headers(value: object) -> dict[bytes, list[bytes]]:
    try:
        return {
            name.encode("latin-1"): [each.encode("latin-1") for each in values]
            for name, values in value  # type: ignore[attr-defined]  # wrong ones are refused below
        }
    except (TypeError, ValueError, AttributeError) as error:
        raise NotPortableError("headers", f"are not as we write them: {error!r}") from error


def _tagged(kind: str, content: Any) -> dict[str, Any]:
    return {_TAG: [kind, content]}


def _text(value: bytes) -> str:
    return value.decode("latin-1")


def text_of(value: object) -> str:
    """Return bytes as the text that headers write them as, anything else as its text."""
    return _text(value) if isinstance(value, bytes) else str(value)


def _kind(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


#: Each further kind: its name, how it is written as what JSON has, and how it is read.
_KINDS: Final[Mapping[type, tuple[str, Callable[[Any], Any], Callable[[Any], Any]]]] = {
    bytes: ("bytes", lambda value: base64.b64encode(value).decode(), base64.b64decode),
    tuple: ("tuple", list, tuple),
    set: ("set", list, set),
    frozenset: ("frozenset", list, frozenset),
    datetime: ("datetime", datetime.isoformat, datetime.fromisoformat),
    date: ("date", date.isoformat, date.fromisoformat),
    time: ("time", time.isoformat, time.fromisoformat),
    timedelta: (
        "timedelta",
        lambda value: [value.days, value.seconds, value.microseconds],
        lambda parts: timedelta(*parts),
    ),
    Decimal: ("decimal", str, Decimal),
    UUID: ("uuid", str, UUID),
}
_READERS: Final = {name: read for name, _, read in _KINDS.values()}

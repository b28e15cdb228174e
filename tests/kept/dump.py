"""Dumps of Redis and MongoDB as text: written, and restored at another time.

Times are in it everywhere, in many forms: as BSON dates, as scores and parts of values in epoch
seconds, milliseconds, microseconds and nanoseconds, as names of days. So that no lease has ended
and no TTL has passed when a dump is put back years later, whatever is a time near that of the dump
is moved on with it; nothing else is changed, and no name is known here. Ids stay: theirs is long
ago then.
"""

import base64
import json
import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from bson import json_util
from pymongo import IndexModel

from tests.kit.worlds.functions import World

HERE = Path(__file__).parent
REDIS, MONGO, API = HERE / "redis.jsonl", HERE / "mongo.jsonl", HERE / "openapi.json"

#: The control database has another name in each world.
_CONTROL = "control"
#: Numbers that may be times, by their digits; what a second is in them.
_UNITS = {10: 1, 13: 10**3, 16: 10**6, 19: 10**9}
_NUMBER = re.compile(
    r"(?<![0-9A-Za-z])0*([1-9]\d{9}|[1-9]\d{12}|[1-9]\d{15}|[1-9]\d{18})(?![0-9A-Za-z])"
)
_DAY = re.compile(r"(?<![0-9A-Za-z])20\d\d-\d\d-\d\d(?![0-9A-Za-z])")
_SEGMENT = re.compile(rb"(?<![0-9A-Za-z])20\d\d-\d\d-\d\d(?=/)")
_MOMENT = re.compile(r"(?<![0-9A-Za-z])20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d")
#: Times that lie further from the dump's are none of it.
_NEAR = timedelta(days=400).total_seconds()


class Move:
    """Moves the times in a value by whole seconds, and names the server anew.

    Args:
        written: When the value was written.
        to: When it is to have been written.
        names: What is called otherwise now.
    """

    def __init__(self, written: datetime, to: datetime, names: dict[str, str]) -> None:
        self._written = written
        self._days = to.date() - written.date()
        self._seconds = int((to - written).total_seconds())
        self._names = names

    def __call__(self, value: Any) -> Any:
        """The value with its times moved."""
        if isinstance(value, dict):
            return {
                self(name): self._packed(part) if name == "base64" else self(part)
                for name, part in value.items()
            }
        if isinstance(value, list):
            return [self(part) for part in value]
        if isinstance(value, int) and not isinstance(value, bool):
            return int(self._text(str(value)))
        return self._text(value) if isinstance(value, str) else value

    def _text(self, text: str) -> str:
        for before, now in self._names.items():
            text = text.replace(before, now)
        text = _NUMBER.sub(self._number, text)
        text = _MOMENT.sub(self._moment, text)
        return _DAY.sub(lambda found: str(date.fromisoformat(found[0]) + self._days), text)

    def _packed(self, text: str) -> str:
        """Move the days of segments in bytes, where a day is as long as any other."""
        return base64.b64encode(_SEGMENT.sub(self._day, base64.b64decode(text))).decode()

    def _day(self, found: re.Match[bytes]) -> bytes:
        return str(date.fromisoformat(found[0].decode()) + self._days).encode()

    def _number(self, found: re.Match[str]) -> str:
        unit = _UNITS[len(found[1])]
        if abs(int(found[1]) / unit - self._written.timestamp()) > _NEAR:
            return found[0]
        return str(int(found[1]) + self._seconds * unit).zfill(len(found[0]))

    def _moment(self, found: re.Match[str]) -> str:
        moved = datetime.fromisoformat(found[0]) + timedelta(seconds=self._seconds)
        return moved.isoformat()


# ---- writing -------------------------------------------------------------------------------------


def write(world: World, commit: str, folder: Path = HERE) -> None:
    """Write both stores down as they are, Redis first: who works there goes on meanwhile."""
    head = {"written": datetime.now(UTC).isoformat(), "commit": commit, "run": _run(world)}
    redis, mongo = [json.dumps(head), *_redis_lines(world)], [*_mongo_lines(world)]
    (folder / REDIS.name).write_text("\n".join(redis) + "\n")
    (folder / MONGO.name).write_text("\n".join(mongo) + "\n")


def _run(world: World) -> str:
    """The name of the server's run, by which the product tells one Redis from another."""
    found: Any = world.redis.info()
    return f"{found['run_id']}:{found['master_replid']}"


def _redis_lines(world: World) -> Iterator[str]:
    redis: Any = world.redis
    read = {
        "string": redis.get,
        "hash": lambda key: sorted(redis.hgetall(key).items()),
        "list": lambda key: redis.lrange(key, 0, -1),
        "set": lambda key: sorted(redis.smembers(key)),
        "zset": lambda key: redis.zrange(key, 0, -1, withscores=True),
    }
    for key in sorted(redis.scan_iter()):
        kind = redis.type(key).decode()
        line = {"key": _text(key), "type": kind, "value": _text(read[kind](key))}
        life = redis.pttl(key)
        yield json.dumps(line if life < 0 else {**line, "ttl": life}, ensure_ascii=False)


def _text(value: Any) -> Any:
    if isinstance(value, bytes):
        try:
            text = value.decode()
        except UnicodeDecodeError:
            # A first line that is text may tell a time.
            found = re.match(rb"[ -~]*\n", value)
            head = found[0] if found else b""
            rest = base64.b64encode(value[len(head) :]).decode()
            return {"text": head.decode(), "base64": rest}
        return text
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return [_text(one) for one in value] if isinstance(value, list | tuple) else value


def _mongo_lines(world: World) -> Iterator[str]:
    for database, found in sorted(_databases(world).items()):
        for name in sorted(found.list_collection_names()):
            indexes = [
                index for index in found[name].list_indexes() if index["key"].keys() != {"_id"}
            ]
            place = {"database": database, "collection": name}
            yield json_util.dumps(
                {**place, "indexes": indexes}, json_options=json_util.CANONICAL_JSON_OPTIONS
            )
            for document in found[name].find(sort=[("_id", 1)]):
                yield json_util.dumps(
                    {**place, "document": document}, json_options=json_util.CANONICAL_JSON_OPTIONS
                )


def _databases(world: World) -> dict[str, Any]:
    found = [name for name in world.mongo.list_database_names() if name.startswith("cf_")]
    return {_CONTROL if name == world.control.name else name: world.mongo[name] for name in found}


# ---- putting back --------------------------------------------------------------------------------


def restore(world: World, *, ago: timedelta = timedelta()) -> None:
    """Put both stores back, in the place of what is there, as if they were written so long ago."""
    redis = REDIS.read_text().splitlines()
    head = json.loads(redis[0])
    named = {head["run"]: _run(world)}
    move = Move(datetime.fromisoformat(head["written"]), datetime.now(UTC) - ago, named)
    world.redis.flushall()
    for line in redis[1:]:
        _put(world, move(json.loads(line)), int(ago.total_seconds() * 1000))
    mongo = (move(json.loads(line)) for line in MONGO.read_text().splitlines())
    _fill(world, [json_util.loads(json.dumps(line)) for line in mongo])


def _put(world: World, line: dict[str, Any], ago_ms: int) -> None:
    redis: Any = world.redis
    key, value = _bytes(line["key"]), _bytes(line["value"])
    if line.get("ttl", ago_ms + 1) <= ago_ms:
        return
    put = {
        "string": lambda: redis.set(key, value),
        "hash": lambda: redis.hset(key, mapping=dict(value)),
        "list": lambda: redis.rpush(key, *value),
        "set": lambda: redis.sadd(key, *value),
        "zset": lambda: redis.zadd(key, dict(value)),
    }
    put[line["type"]]()
    if "ttl" in line:
        redis.pexpire(key, line["ttl"] - ago_ms)


def _bytes(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict):
        return value["text"].encode() + base64.b64decode(value["base64"])
    return [_bytes(one) for one in value] if isinstance(value, list) else value


def _fill(world: World, lines: list[dict[str, Any]]) -> None:
    """Put documents in the place of those that are there; indexes that are there stay."""
    there = {
        (database.name, name)
        for database in _databases(world).values()
        for name in database.list_collection_names()
    }
    documents: dict[tuple[str, str], list[Any]] = {}
    for line in lines:
        name = world.control.name if line["database"] == _CONTROL else line["database"]
        found = documents.setdefault((name, line["collection"]), [])
        if "document" in line:
            found.append(line["document"])
        elif line["indexes"] and (name, line["collection"]) not in there:
            models = [_index(index) for index in line["indexes"]]
            world.mongo[name][line["collection"]].create_indexes(models)
    for name, of in there - documents.keys():
        world.mongo[name].drop_collection(of)
    for (name, of), found in documents.items():
        world.mongo[name][of].delete_many({})
        if found:
            world.mongo[name][of].insert_many(found)


def _index(index: dict[str, Any]) -> IndexModel:
    options = {name: value for name, value in index.items() if name not in {"v", "key"}}
    return IndexModel(list(index["key"].items()), **options)


# ---- the OpenAPI document ------------------------------------------------------------------------


def write_api(document: Any) -> None:
    """Write the document down without what it says for people."""
    parts = bare(document)
    schemas = parts["components"].pop("schemas")
    lines = [
        *(json.dumps({"path": name, "is": part}) for name, part in parts.pop("paths").items()),
        *(json.dumps({"schema": name, "is": part}) for name, part in schemas.items()),
        json.dumps({"rest": parts}),
    ]
    API.write_text("\n".join(lines) + "\n")


def kept_api() -> dict[str, Any]:
    """The document as it was written down."""
    lines = [json.loads(line) for line in API.read_text().splitlines()]
    [found] = [dict(line["rest"]) for line in lines if "rest" in line]
    found["paths"] = {line["path"]: line["is"] for line in lines if "path" in line}
    schemas = {line["schema"]: line["is"] for line in lines if "schema" in line}
    found["components"] = {**found["components"], "schemas": schemas}
    return found


def bare(document: Any) -> dict[str, Any]:
    """The document without descriptions, long and short, and without the product's version."""
    found: dict[str, Any] = _bare(document)
    del found["info"]["version"]
    return found


def _bare(value: Any, *, named: bool = False) -> Any:
    """The same of a part; of a ``named`` one the keys are names of somebody's choice."""
    if isinstance(value, list):
        return [_bare(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {
        name: _bare(part, named=not named and name in _OF_NAMES)
        for name, part in value.items()
        if named or name not in _SAID
    }


_SAID = {"description", "summary", "example", "examples", "servers"}
_OF_NAMES = {"properties", "$defs", "schemas", "paths", "headers"}

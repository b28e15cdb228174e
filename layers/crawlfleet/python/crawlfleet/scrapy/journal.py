"""Keep what a process has put into Redis until it is done, so that it survives the loss of Redis.

A file of SQLite, by default in the project's ``.scrapy/crawlfleet``, holds the open requests that
this process has queued, their fingerprints, and the items that no worker has stored yet. What ends
elsewhere is found out and removed. Where Redis was emptied or went back to an old snapshot, all of
it is put in again: a page may be done twice then, none is lost. A process that was killed leaves
its file to the next one on this machine.

Loss is found by a beat: a number that is raised in Redis and then here. What is absent in Redis is
believed only after a beat that has found there what this file says.
"""

import logging
import sqlite3
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

from crawlfleet.kernel.errors import StoreUnavailableError
from crawlfleet.scrapy.redis import Marks, Pushed

_log = logging.getLogger(__name__)
#: Entries of one read, and of one look for what has ended elsewhere.
TOGETHER: Final = 500
#: Files that processes of one crawl on one machine try to have for themselves.
_MOST_FILES: Final = 64
_MEMORY: Final = ":memory:"
_TABLES: Final = """
CREATE TABLE IF NOT EXISTS requests (
    id TEXT PRIMARY KEY, marks TEXT, mark BLOB, priority INTEGER, start INTEGER, content BLOB
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS seen (mark BLOB PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS items (id TEXT PRIMARY KEY, data BLOB) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
"""


class Kept(NamedTuple):
    """A request of the journal, by its id in Redis."""

    id: str
    pushed: Pushed


class Journal:
    """The journal of one process; without a ``folder`` it is in memory, and ends with it.

    ``name`` is the crawl's: processes of one crawl on one machine have a file each. A file that
    cannot be read or written is left as it is.
    """

    def __init__(self, folder: Path | None = None, name: str = "") -> None:
        self._lock: IO[bytes] | None = None
        place = _MEMORY
        try:
            if folder is not None:
                place = self._take_file(folder, name)
            self._open(place)
        except (ImportError, OSError, sqlite3.Error) as error:
            _log.warning("the journal is in memory, and ends with this process: %s", error)
            self._open(_MEMORY)
        self._place: dict[str, str] = {"requests": "", "items": ""}

    def _open(self, place: str) -> None:
        self._db = sqlite3.connect(place, isolation_level=None, timeout=5.0)
        try:
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._db.executescript(_TABLES)
            own = "INSERT OR IGNORE INTO facts VALUES ('id', ?)"
            self._db.execute(own, (uuid.uuid4().hex,))
            facts = dict(self._db.execute("SELECT name, value FROM facts"))
        except sqlite3.Error:
            self._db.close()
            raise
        #: The journal's own name in Redis.
        self.id: str = facts.pop("id")
        self._beats = {name: int(value) for name, value in facts.items()}

    def _take_file(self, folder: Path, name: str) -> str:
        """Return the first file that no living process has."""
        import fcntl  # which Windows has not

        folder.mkdir(parents=True, exist_ok=True)
        for number in range(_MOST_FILES):
            path = folder / f"{name}{f'-{number}' if number else ''}.sqlite"
            lock = path.with_suffix(".lock").open("wb")
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                lock.close()
                continue
            self._lock = lock
            return str(path)
        return _MEMORY

    # ---- requests ------------------------------------------------------------------------------

    def add(self, requests: Iterable[Kept]) -> None:
        """Keep requests that Redis has by now."""
        with self._transaction():
            self._insert(requests)

    def _insert(self, requests: Iterable[Kept]) -> None:
        for id_, pushed in requests:
            row = (id_, pushed.marks, pushed.mark, pushed.priority, pushed.start, pushed.content)
            self._db.execute("INSERT OR REPLACE INTO requests VALUES (?, ?, ?, ?, ?, ?)", row)

    def end(self, ids: Iterable[str]) -> None:
        """Remove requests that are done; of those with a fingerprint it is kept."""
        each = [(id_,) for id_ in ids]
        if not each:
            return
        with self._transaction():
            self._db.executemany(
                "INSERT OR IGNORE INTO seen SELECT mark FROM requests"
                " WHERE id = ? AND marks = 'seen'",
                each,
            )
            self._db.executemany("DELETE FROM requests WHERE id = ?", each)

    def renew(self, old: Iterable[str], new: Iterable[Kept]) -> None:
        """Replace requests by the same under their new ids."""
        with self._transaction():
            self._db.executemany("DELETE FROM requests WHERE id = ?", [(id_,) for id_ in old])
            self._insert(new)

    def some(self) -> list[str]:
        """Return the ids of some open requests, others than the last time."""
        return self._some("requests")

    def requests(self) -> Iterator[list[Kept]]:
        """Yield all open requests, some at a time, each once."""
        last = ""
        query = "SELECT * FROM requests WHERE id > ? ORDER BY id LIMIT ?"
        # What is put in again has greater ids: those of the beginning are the last.
        end = self._rows("SELECT max(id) FROM requests", ())[0][0] or ""
        while rows := [row for row in self._rows(query, (last, TOGETHER)) if row[0] <= end]:
            yield [_kept(row) for row in rows]
            last = rows[-1][0]

    def marks(self) -> Iterator[list[bytes]]:
        """Yield the fingerprints of what is done, some at a time."""
        last = b""
        query = "SELECT mark FROM seen WHERE mark > ? ORDER BY mark LIMIT ?"
        while rows := self._rows(query, (last, TOGETHER)):
            yield [mark for (mark,) in rows]
            last = rows[-1][0]

    # ---- items ---------------------------------------------------------------------------------

    def add_items(self, items: Iterable[tuple[str, bytes]]) -> None:
        """Keep items that the data queue has by now."""
        with self._transaction():
            self._db.executemany("INSERT OR REPLACE INTO items VALUES (?, ?)", items)

    def end_items(self, ids: Iterable[str]) -> None:
        """Remove items that are stored."""
        with self._transaction():
            self._db.executemany("DELETE FROM items WHERE id = ?", [(id_,) for id_ in ids])

    def some_items(self) -> list[str]:
        """Return the ids of some items, others than the last time."""
        return self._some("items")

    def items(self) -> Iterator[list[tuple[str, bytes]]]:
        """Yield all items, some at a time."""
        last = ""
        query = "SELECT id, data FROM items WHERE id > ? ORDER BY id LIMIT ?"
        while rows := self._rows(query, (last, TOGETHER)):
            yield rows
            last = rows[-1][0]

    # ---- beats ---------------------------------------------------------------------------------

    def beat(self, of: str) -> int:
        """Return the last beat of the crawl, or of the data queue, that Redis has answered."""
        return self._beats.get(of, 0)

    def has_beaten(self, of: str, number: int) -> None:
        """Note a beat."""
        self._set(of, str(number))
        self._beats[of] = number

    # ---- the whole -----------------------------------------------------------------------------

    def forget(self) -> None:
        """Forget the crawl; items stay until they are stored."""
        with self._transaction():
            self._db.execute("DELETE FROM requests")
            self._db.execute("DELETE FROM seen")

    def close(self) -> None:
        """Leave the file to the next process."""
        self._db.close()
        if self._lock is not None:
            self._lock.close()

    def _some(self, table: str) -> list[str]:
        query = f"SELECT id FROM {table} WHERE id > ? ORDER BY id LIMIT ?"  # noqa: S608  one of two
        rows = self._rows(query, (self._place[table], TOGETHER))
        self._place[table] = rows[-1][0] if len(rows) == TOGETHER else ""
        return [id_ for (id_,) in rows]

    def _set(self, name: str, value: str) -> None:
        with self._transaction():
            self._db.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))

    def _rows(self, query: str, values: Sequence[object]) -> list[Any]:
        with _border():
            return self._db.execute(query, values).fetchall()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Write all or nothing; StoreUnavailableError where the disk takes nothing."""
        with _border():
            self._db.execute("BEGIN")
            with self._db:
                yield


@contextmanager
def _border() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise StoreUnavailableError("journal", f"{type(error).__name__}: {error}") from error


def _kept(row: Sequence[Any]) -> Kept:
    id_, marks, mark, priority, start, content = row
    pushed = Pushed(
        content=content, marks=Marks(marks), mark=mark, priority=priority, start=bool(start)
    )
    return Kept(id_, pushed)


def journal_folder(setting: str | None) -> Path | None:
    """Return the folder of journals: that of the setting, or the project's; None for memory alone.

    ``CRAWLFLEET_JOURNAL`` is a folder, or ``memory``.
    """
    if setting == "memory":
        return None
    if setting:
        return Path(setting)
    from scrapy.exceptions import NotConfigured
    from scrapy.utils.project import data_path

    with suppress(NotConfigured, OSError):
        return Path(data_path("crawlfleet"))
    return None

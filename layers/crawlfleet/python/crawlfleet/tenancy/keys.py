"""API keys that operators have made for tenants: where they are kept, and on one machine, a file.

A key is made, returned once and never read again; what is kept of it for people is its id.
"""

import fcntl
import json
import os
import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from crawlfleet.kernel.errors import StoreUnavailableError
from crawlfleet.tenancy.models import ManagedKey

#: When a key was made, in its id.
MADE_FORMAT: Final = "%Y%m%dT%H%M%SZ"
_ID: Final = re.compile(r"([a-z][a-z0-9-]{0,31})\.(\d{8}T\d{6}Z)\.[0-9a-f]{12}\Z")


class FreshKey(NamedTuple):
    """A key that was just made. It shows its id alone."""

    id: str
    key: str

    def __repr__(self) -> str:
        return f"FreshKey({self.id!r})"


class KeyStore(Protocol):
    """The store of keys, by which whoever lets calls in knows them."""

    def make(self, tenant: str, now: datetime) -> FreshKey:
        """Make a key for a tenant; it is let in at once, and belongs to nobody yet."""
        ...

    def remove(self, key_id: str) -> None:
        """Remove a key; no effect where there is none of that id."""
        ...

    def made(self) -> list[ManagedKey]:
        """List the keys that were made here."""
        ...


class KeyFile:
    """The keys of a local cloud: a file ``{key: id}`` that its owner alone can read.

    Several processes may change it: each under a lock, and by a new file in the place of the old.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def __repr__(self) -> str:
        return f"KeyFile({str(self._path)!r})"

    def make(self, tenant: str, now: datetime) -> FreshKey:
        """Make a key for a tenant."""
        key_id = f"{tenant}.{now.astimezone(UTC).strftime(MADE_FORMAT)}.{secrets.token_hex(6)}"
        return FreshKey(key_id, self.add(key_id))

    def add(self, key_id: str) -> str:
        """Make a key of that id and return it."""
        key = secrets.token_urlsafe(30)
        self._change(lambda keys: {**keys, key: key_id})
        return key

    def remove(self, key_id: str) -> None:
        """Remove the keys of that id."""
        self._change(lambda keys: {key: one for key, one in keys.items() if one != key_id})

    def made(self) -> list[ManagedKey]:
        """List the keys that were made for tenants; others were put there by hand."""
        with self._translated():
            ids = sorted(set(self._read().values())) if self._path.exists() else []
        found = ((key_id, _ID.match(key_id)) for key_id in ids)
        return [
            ManagedKey(
                id=key_id,
                tenant=match[1],
                made_at=datetime.strptime(match[2], MADE_FORMAT).replace(tzinfo=UTC),
            )
            for key_id, match in found
            if match is not None
        ]

    def _change(self, change: Callable[[dict[str, str]], dict[str, str]]) -> None:
        with self._translated(), self._lock():
            keys = self._read() if self._path.exists() else {}
            fresh = self._path.with_suffix(".new")
            descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "w") as file:
                json.dump(change(keys), file, indent=1)
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(self._path)

    def _read(self) -> dict[str, str]:
        keys: dict[str, str] = json.loads(self._path.read_text())
        return keys

    @contextmanager
    def _lock(self) -> Iterator[None]:
        # A file of its own: the one with the keys is another file after each change.
        with open(self._path.with_suffix(".lock"), "w", opener=_private) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError) as error:
            # The kind alone: what cannot be read as JSON is quoted by its error, and is keys.
            raise StoreUnavailableError("keys", type(error).__name__) from None


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)

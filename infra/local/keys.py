"""API keys of the local cloud: ``keys.json``, ``{key: key id}``, readable by its owner only.

The first key is made with the file; its id belongs to the default tenant. Further keys are added
to the file, by `ApiKeys.add` or by hand, and are in force with the next request.
"""

import json
import os
import secrets
from pathlib import Path
from typing import Final

#: Key id of the default tenant's key.
DEFAULT_KEY_ID: Final = "local-default"


class ApiKeys:
    """The keys, read again whenever the file has changed."""

    def __init__(self, path: Path) -> None:
        """Read ``path``, or make it with the default tenant's key."""
        self._path = path
        self._seen: tuple[int, int] | None = None
        self._keys: dict[str, str] = {}
        if not path.exists():
            self.add(DEFAULT_KEY_ID)

    @property
    def default_key(self) -> str:
        """The default tenant's key."""
        return next(key for key, key_id in self._read().items() if key_id == DEFAULT_KEY_ID)

    def key_id(self, key: str) -> str | None:
        """The id of a key; None if there is no such key."""
        return self._read().get(key)

    def add(self, key_id: str) -> str:
        """Make a key of that id and return it."""
        key = secrets.token_urlsafe(30)
        keys = (self._read() if self._path.exists() else {}) | {key: key_id}
        fresh = self._path.with_suffix(".new")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            json.dump(keys, file, indent=1)
        fresh.replace(self._path)
        return key

    def _read(self) -> dict[str, str]:
        status = self._path.stat()
        seen = (status.st_mtime_ns, status.st_ino)
        if seen != self._seen:
            self._keys = json.loads(self._path.read_text())
            self._seen = seen
        return self._keys

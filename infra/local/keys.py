"""API keys of the local cloud: ``keys.json``, ``{key: key id}``, readable by its owner only.

The first key is made with the file; its id belongs to the default tenant. Further keys are added
to the file, by `ApiKeys.add` or by hand, and are in force with the next request.
"""

import json
from pathlib import Path
from typing import Final

from crawlfleet.tenancy.keys import KeyFile

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
        return KeyFile(self._path).add(key_id)

    def _read(self) -> dict[str, str]:
        status = self._path.stat()
        seen = (status.st_mtime_ns, status.st_ino)
        if seen != self._seen:
            self._keys = json.loads(self._path.read_text())
            self._seen = seen
        return self._keys

"""The files of the console: read once, served with what browsers are to hold them to.

The build names each file but the page by a hash of its content, so those may be kept for ever, and
the page itself is asked for each time. Nothing of it is secret; nothing of it comes from elsewhere.
"""

import hashlib
import re
from pathlib import Path
from typing import Final, NamedTuple

PAGE: Final = "index.html"
#: Browsers run our files alone, whatever is written into the page, and show it in no frame.
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none';"
    " require-trusted-types-for 'script'; trusted-types 'none'"
)
SAFE: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}
_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
_HASHED: Final = re.compile(r"[a-z0-9]+-[A-Z0-9]{8}\.[a-z]+\Z")
_FOR_EVER: Final = "public, max-age=31536000, immutable"
_EACH_TIME: Final = "no-cache"
#: The console's files are below the page's address: that has a slash at its end, or it has not.
_BELOW: Final = re.compile(r'(src|href)="\./')


class File(NamedTuple):
    """A file as it is served."""

    text: str
    etag: str
    headers: dict[str, str]


class Site:
    """The files of a folder; none where nothing was built there."""

    def __init__(self, folder: Path | None) -> None:
        self._files = {
            path.name: _file(path.name, path.read_text())
            for path in (() if folder is None else sorted(folder.glob("*")))
            if path.suffix in _TYPES
        }

    def file(self, path: str) -> File | None:
        """Return the file of a path such as ``/console/app-1A2B3C4D.js``; None where there is none.

        The page is at ``/console`` and ``/console/`` alike.
        """
        below = path.removeprefix("/console")
        if below not in {"", "/"}:
            return self._files.get(below.removeprefix("/"))
        page = self._files.get(PAGE)
        if page is None or below:
            return page
        return _file(PAGE, _BELOW.sub(r'\1="console/', page.text))


def _file(name: str, text: str) -> File:
    kept = _FOR_EVER if _HASHED.match(name) else _EACH_TIME
    etag = f'"{hashlib.sha256(text.encode()).hexdigest()[:24]}"'
    kind = _TYPES[Path(name).suffix]
    headers = {**SAFE, "Content-Type": kind, "Cache-Control": kept, "ETag": etag}
    return File(text, etag, headers)

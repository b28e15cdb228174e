"""Address and key of the API: from arguments, the environment, or a local cloud's file.

The local cloud writes ``.crawlfleet/local.json`` with ``api_url`` and ``api_key``; it is found in
the working directory or above it, or in the folder that ``CRAWLFLEET_STATE`` names. The key of that
file goes to the address of that file only, and the address must be this machine's, so that a file
left lying about leads to no other machine.
"""

import ipaddress
import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec

from crawlfleet.kernel.errors import ConfigError, Problem
from crawlfleet.kernel.names import ENV_STATE

ENV_API_URL: Final = "CRAWLFLEET_API_URL"
ENV_API_KEY: Final = "CRAWLFLEET_API_KEY"
LOCAL_FILE: Final = Path(".crawlfleet", "local.json")

_REMEDY: Final = (
    f"give it, set {{}}, or start a local cloud with `crawlfleet up`; one that runs is found by "
    f"its {LOCAL_FILE}, from its own folder and those below it: work there, or set {ENV_STATE}, "
    f"or set {ENV_API_URL} and {ENV_API_KEY}"
)
_PACKAGE: Final = Path(__file__).resolve().parent
#: What a header may carry without being folded, encoded or misread.
_KEY: Final = re.compile(r"[!-~]{1,512}\Z")


class Address(msgspec.Struct, frozen=True):
    """The API's base URL without a trailing slash, and the key. The key shows in no text."""

    api_url: str
    api_key: str

    def __repr__(self) -> str:
        return f"Address(api_url={self.api_url!r})"

    @property
    def on_this_machine(self) -> bool:
        """Tell whether the host is a loopback address; no proxy of the environment is used then."""
        return _is_loopback(urlsplit(self.api_url).hostname or "")


class _LocalFile(msgspec.Struct, frozen=True):
    api_url: str
    api_key: str


def find_address(
    api_url: str | None = None,
    api_key: str | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    start: Path | None = None,
) -> Address:
    """Find the address and the key to use.

    ``environ`` is the process's and ``start`` the working directory unless given.

    Raises:
        ConfigError: one of the two is missing or unusable; both errors are named.
    """
    environ = os.environ if environ is None else environ
    url = api_url or environ.get(ENV_API_URL) or None
    key = api_key or environ.get(ENV_API_KEY) or None
    if url is None or key is None:
        local = _find_local(start or Path.cwd(), environ.get(ENV_STATE))
        if local is not None and url is None:
            url, key = local.api_url, key or local.api_key
        elif local is not None and url is not None and _same(url, local.api_url):
            key = local.api_key
    url = url.rstrip("/") if url else None
    state = environ.get(ENV_STATE)
    remedy = _empty(state) if state else _elsewhere() or _REMEDY
    problems = [
        *_url_problems(url, remedy),
        *_key_problems(key, remedy, remedy_is_reported=url is None),
    ]
    if url is None and key is None:
        problems = problems[:1]  # what it advises gives the key, too
    if problems or url is None or key is None:
        raise ConfigError(problems)
    return Address(url, key)


def local_file(start: Path, state: Path | None) -> Path | None:
    """Find the file of a local cloud: in ``start`` or the nearest folder above it that has one.

    Where ``state`` is given it is that folder's, whether it is there or not.
    """
    if state is not None:
        return state / LOCAL_FILE.name
    above = (folder / LOCAL_FILE for folder in (start, *start.parents))
    return next((file for file in above if file.is_file()), None)


def _find_local(start: Path, state: str | None) -> _LocalFile | None:
    """Read the file of a local cloud; where a state folder is named, from there alone."""
    path = local_file(start, Path(state) if state else None)
    try:
        content = path.read_bytes() if path else None
    except OSError:
        content = None
    if content is None:
        return None
    try:
        local = msgspec.json.decode(content, type=_LocalFile)
    except msgspec.DecodeError as error:
        said = f"is not what `crawlfleet up` writes: {error}"
        raise ConfigError((Problem(str(path), said),)) from error
    if not _is_loopback(_host(local.api_url)):
        said = f"leads to another machine; if that is meant, set {ENV_API_URL} and {ENV_API_KEY}"
        raise ConfigError((Problem(str(path), said),))
    return local


def _elsewhere() -> str | None:
    """Name the one command by which the local cloud of this checkout is found from here."""
    file = local_file(_PACKAGE, None)
    if file is None:
        return None
    state = shlex.quote(str(file.parent))
    return f"`export {ENV_STATE}={state}` has the local cloud of the checkout found from here"


def _empty(state: str) -> str:
    """Name the state folder that the environment says, and that has no local cloud."""
    return (
        f"{ENV_STATE} names {state}, which has no {LOCAL_FILE.name}: name the folder that "
        f"`crawlfleet up --state` was given, or set {{}}"
    )


def _url_problems(url: str | None, remedy: str) -> list[Problem]:
    if url is None:
        return [Problem("api_url", "is missing: " + remedy.format(ENV_API_URL))]
    try:
        parts = urlsplit(url)
        port_is_fine = parts.port is None or parts.port > 0
    except ValueError:
        return [Problem("api_url", "is no URL")]
    if parts.username is not None or parts.password is not None:
        return [Problem("api_url", "holds credentials; the API takes a key instead")]
    if parts.scheme not in {"http", "https"} or not parts.hostname or not port_is_fine:
        return [Problem("api_url", f"must be an http or https URL with a host, not {url!r}")]
    if parts.query or parts.fragment:
        return [Problem("api_url", "must end with its path: no query, no fragment")]
    return []


def _key_problems(key: str | None, remedy: str, *, remedy_is_reported: bool) -> list[Problem]:
    if key is None:
        same = f"the same helps, with {ENV_API_KEY}"
        said = same if remedy_is_reported else remedy.format(ENV_API_KEY)
        return [Problem("api_key", f"is missing: {said}")]
    if not _KEY.match(key):
        return [Problem("api_key", "must be 1 to 512 visible ASCII characters")]
    return []


def _same(one: str, other: str) -> bool:
    return one.rstrip("/") == other.rstrip("/")


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False

"""A port of this machine that can be reached at another of its addresses, too.

Redis, MongoDB and the site listen on loopback. Functions in containers reach this machine by the
address of Docker's bridge: so whatever comes to a port there is passed on to the same port here.
"""

import contextlib
import socket
import threading
from typing import Final, Self

from infra.local.parts import LOOPBACK

_CHUNK: Final = 65_536
_CONNECT_SECONDS: Final = 5.0


class Doorway:
    """Passes on everything that comes to ``address`` and ``port`` while the block lasts."""

    def __init__(self, address: str, port: int) -> None:
        self._server = socket.create_server((address, port), backlog=128)
        self._port = port
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._serve, name=f"doorway {port}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        _end(self._server)
        with self._lock:
            for one in self._open:
                _end(one)
        self._thread.join(10)

    def _serve(self) -> None:
        while True:
            try:
                caller, _ = self._server.accept()
            except OSError:
                return  # it is closed
            threading.Thread(target=self._pass_on, args=(caller,), daemon=True).start()

    def _pass_on(self, caller: socket.socket) -> None:
        with caller:
            try:
                inside = socket.create_connection((LOOPBACK, self._port), _CONNECT_SECONDS)
            except OSError:
                return
            with inside:
                inside.settimeout(None)
                with self._lock:
                    self._open |= {caller, inside}
                back = threading.Thread(target=_copy, args=(inside, caller), daemon=True)
                back.start()
                _copy(caller, inside)
                back.join()
                with self._lock:
                    self._open -= {caller, inside}


def _copy(source: socket.socket, target: socket.socket) -> None:
    """Until the source has no more; then the target is told that there is no more."""
    with contextlib.suppress(OSError):
        while content := source.recv(_CHUNK):
            target.sendall(content)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def _end(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()

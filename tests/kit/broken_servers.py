"""Servers that accept a connection and then do not do what a server does."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager


@contextmanager
def broken_server(answer: bytes | None) -> Iterator[str]:
    """A port that answers everything so, or never anything; yields its address."""
    listener = socket.create_server(("127.0.0.1", 0))
    held: list[socket.socket] = []

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            held.append(connection)
            if answer is not None:
                threading.Thread(target=reply, args=(connection,), daemon=True).start()

    def reply(connection: socket.socket) -> None:
        try:
            while connection.recv(65536):
                connection.sendall(answer or b"")
        except OSError:
            return

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()  # first: what it accepts in its last moment is to be closed too
        for connection in held:
            # Closing alone tells nobody while a thread still reads there.
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()


@contextmanager
def closed_port() -> Iterator[str]:
    """An address where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
    yield address


class Proxy:
    """Forwards to a server, or from some moment on to another one, as a name that has moved does.

    It can stop forwarding in the middle of a conversation.
    """

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._pairs: list[socket.socket] = []
        self.silent = False
        self.garble = False
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def lead_to(self, host: str, port: int) -> None:
        """Lead new connections to that server; conversations stay where they are."""
        self._target = (host, port)

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self._target)
            except OSError:
                client.close()
                continue
            self._pairs += [client, server]
            for source, sink, back in ((client, server, False), (server, client, True)):
                threading.Thread(target=self._copy, args=(source, sink, back), daemon=True).start()

    def _copy(self, source: socket.socket, sink: socket.socket, back: bool) -> None:
        try:
            while chunk := source.recv(65536):
                if self.silent:
                    continue
                if self.garble and back and len(chunk) > 16:
                    chunk = chunk[:16] + bytes(255 - byte for byte in chunk[16:])
                sink.sendall(chunk)
        except OSError:
            pass
        finally:
            # Closing alone tells nobody while the other thread still reads there.
            with contextlib.suppress(OSError):
                sink.shutdown(socket.SHUT_RDWR)
            sink.close()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for one in self._pairs:
            one.close()


#: Servers that do not do what a server of HTTP should, by what is wrong with them.
BROKEN_SERVERS: dict[str, Callable[[], AbstractContextManager[str]]] = {
    "dead": closed_port,
    "mute": lambda: broken_server(None),
    "failing": lambda: broken_server(b"HTTP/1.1 500 Broken\r\nContent-Length: 0\r\n\r\n"),
    "lying": lambda: broken_server(b"what?\r\n\r\n"),
}

"""moto's AWS in one process, with the configuration kept in a file.

``python -m infra.local.control_plane --port PORT [--keep FILE]``

moto holds everything in memory. What a user of the local cloud would miss after a restart is the
config centre and the secrets: with ``--keep`` both are written to the file soon after each change,
and read from it before the server says that it is ready. Nothing else is kept.
"""

import argparse
import contextlib
import json
import os
import signal
import sys
import threading
from collections.abc import Iterable
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

import boto3
from moto.moto_server.werkzeug_app import (
    DomainDispatcherApplication,
    MotoRequestHandler,
    create_backend_app,
)
from werkzeug.serving import make_server

from infra.local.aws_server import CREDENTIALS, READY_PATH
from infra.local.parts import LOOPBACK

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

#: A change waits this long for its followers, so that a push of a tree is written once.
_SETTLE_SECONDS: Final = 0.2

#: ``X-Amz-Target`` of a call: the service's prefix, then the action.
_KEPT_SERVICES: Final = ("AmazonSSM.", "secretsmanager.")
_READING: Final = ("Get", "List", "Describe", "BatchGet")


def changes_kept_state(target: str) -> bool:
    """Return whether a call with this ``X-Amz-Target`` may change what is kept.

    >>> changes_kept_state("AmazonSSM.PutParameter"), changes_kept_state("AmazonSSM.GetParameter")
    (True, False)
    """
    return target.startswith(_KEPT_SERVICES) and not target.rpartition(".")[2].startswith(_READING)


class Keeper:
    """Write the parameters and secrets of the server at ``endpoint_url`` to a file, and back."""

    def __init__(self, path: Path, endpoint_url: str) -> None:
        """Keep everything in ``path``."""
        self._path = path
        self._changed = threading.Event()
        self._stopping = threading.Event()
        self._ssm = boto3.client("ssm", endpoint_url=endpoint_url)
        self._secrets = boto3.client("secretsmanager", endpoint_url=endpoint_url)
        self._thread = threading.Thread(target=self._write_changes, name="keeper")

    def restore(self) -> None:
        """Put what the file holds into the empty server, then watch for changes."""
        if self._path.exists():
            kept: dict[str, Any] = json.loads(self._path.read_text())
            for parameter in kept["parameters"]:
                self._ssm.put_parameter(**parameter)
            for secret in kept["secrets"]:
                self._secrets.create_secret(**secret)
        self._changed.clear()
        self._thread.start()

    def note_change(self) -> None:
        """Have the file written soon."""
        self._changed.set()

    def stop(self) -> None:
        """Write what is not written yet, and stop."""
        self._stopping.set()
        self._changed.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _write_changes(self) -> None:
        while not self._stopping.is_set() or self._changed.is_set():
            self._changed.wait()
            self._stopping.wait(_SETTLE_SECONDS)
            self._changed.clear()
            try:
                self._write()
            except Exception as error:  # noqa: BLE001  the next change tries again
                print(f"{self._path} was not written: {error!r}", file=sys.stderr)

    def _write(self) -> None:
        text = json.dumps(
            {"parameters": list(self._parameters()), "secrets": list(self._kept_secrets())},
            indent=1,
        )
        fresh = self._path.with_suffix(".new")
        with open(fresh, "w", opener=_private) as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self._path)

    def _parameters(self) -> Iterable[dict[str, Any]]:
        pages = self._ssm.get_paginator("get_parameters_by_path")
        for page in pages.paginate(Path="/", Recursive=True, WithDecryption=True):
            for parameter in page["Parameters"]:
                yield {
                    "Name": parameter["Name"],
                    "Value": parameter["Value"],
                    "Type": parameter["Type"],
                    # Above 4 KB a parameter is of the advanced tier, at most 8 KB.
                    "Tier": "Advanced" if len(parameter["Value"].encode()) > 4_096 else "Standard",
                }

    def _kept_secrets(self) -> Iterable[dict[str, Any]]:
        for page in self._secrets.get_paginator("list_secrets").paginate():
            for secret in page["SecretList"]:
                # One may be gone since it was listed.
                with contextlib.suppress(self._secrets.exceptions.ResourceNotFoundException):
                    value = self._secrets.get_secret_value(SecretId=secret["Name"])
                    yield {"Name": secret["Name"], "SecretString": value["SecretString"]}


def _private(path: str, flags: int) -> int:
    """Open for the owner only: the file holds secrets."""
    return os.open(path, flags, 0o600)


class ControlPlane:
    """moto's WSGI application, with a look at each call and a page that says when it is ready."""

    def __init__(self) -> None:
        """Build an empty AWS."""
        self._moto = DomainDispatcherApplication(create_backend_app)
        self.keeper: Keeper | None = None
        self.is_ready = False

    def __call__(self, environ: "WSGIEnvironment", respond: "StartResponse") -> Iterable[bytes]:
        """Answer one call."""
        if environ["PATH_INFO"] == READY_PATH:
            respond("200 OK" if self.is_ready else "503 Service Unavailable", [])
            return []
        answer: Iterable[bytes] = self._moto(environ, respond)
        if self.keeper is not None and changes_kept_state(environ.get("HTTP_X_AMZ_TARGET", "")):
            self.keeper.note_change()
        return answer


def serve(port: int, keep: Path | None) -> None:
    """Serve until SIGTERM."""
    os.environ.update(CREDENTIALS)
    os.environ["MOTO_PORT"] = str(port)
    for name in [name for name in os.environ if name.startswith("AWS_ENDPOINT_URL")]:
        del os.environ[name]  # the clients here are told where to go

    application = ControlPlane()
    server = make_server(
        LOOPBACK, port, application, threaded=True, request_handler=MotoRequestHandler
    )

    def stop(_number: int, _frame: FrameType | None) -> None:
        # shutdown waits for serve_forever, which runs in this thread.
        threading.Thread(target=finish).start()

    def finish() -> None:
        if application.keeper is not None:
            application.keeper.stop()
        server.shutdown()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)

    def prepare() -> None:
        if keep is not None:
            keeper = Keeper(keep, f"http://{LOOPBACK}:{port}")
            try:
                keeper.restore()
            except Exception as error:  # noqa: BLE001  without its state the server must not run
                print(f"{keep} cannot be read, so move it away: {error!r}", file=sys.stderr)
                sys.stderr.flush()
                os._exit(1)
            application.keeper = keeper
        application.is_ready = True

    threading.Thread(target=prepare, daemon=True).start()
    server.serve_forever(poll_interval=0.05)


def main(arguments: list[str]) -> None:
    """Read the command line and serve."""
    parser = argparse.ArgumentParser(prog="python -m infra.local.control_plane")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args(arguments)
    serve(options.port, options.keep)


if __name__ == "__main__":
    main(sys.argv[1:])

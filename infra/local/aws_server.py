"""moto's server: the AWS control plane (SSM, Secrets Manager, SNS, CloudWatch, S3) in memory."""

import http.client
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Self

from infra.local.parts import LOOPBACK, GuardedProcess, free_port, python_environment

REGION: Final = "us-east-1"
ACCOUNT: Final = "123456789012"  # moto's
#: What clients of the local control plane sign with; nobody checks it.
CREDENTIALS: Final = {
    "AWS_ACCESS_KEY_ID": "local",
    "AWS_SECRET_ACCESS_KEY": "local",
    "AWS_SESSION_TOKEN": "local",
    "AWS_DEFAULT_REGION": REGION,
    "AWS_REGION": REGION,
}

#: Answers 200 as soon as the server may be used.
READY_PATH: Final = "/_crawlfleet/ready"

_OK: Final = 200


class AwsServer:
    """Start moto's server, wait until it answers, stop it.

    Its state is in memory only, but for the parameters and secrets, which ``keep`` holds.
    """

    def __init__(
        self, *, port: int = 0, keep: Path | None = None, log_path: Path | None = None
    ) -> None:
        """Choose the port (0 is any free one), the file of what is kept, and where it logs."""
        self._port = port
        self._keep = keep
        self._log_path = log_path
        self._stack = ExitStack()
        self.endpoint_url = ""
        self.pid: int | None = None

    def start(self) -> Self:
        """Start the server."""
        with ExitStack() as stack:
            log_path = self._log_path
            if log_path is None:
                folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="crawlfleet-aws-"))
                log_path = Path(folder) / "moto.log"
            port = self._port or free_port()
            server = stack.enter_context(
                GuardedProcess(
                    "moto",
                    [
                        *(sys.executable, "-m", "infra.local.control_plane", "--port", str(port)),
                        *(() if self._keep is None else ("--keep", str(self._keep))),
                    ],
                    log_path,
                    python_environment(),
                )
            )
            server.wait_until(lambda: _answers(port))
            self.endpoint_url, self.pid = f"http://{LOOPBACK}:{port}", server.pid
            self._stack = stack.pop_all()
        return self

    def stop(self) -> None:
        """Stop the server; what it held is gone."""
        self._stack.close()
        self.pid = None

    def __enter__(self) -> Self:
        """Start."""
        return self.start()

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self.stop()


def _answers(port: int) -> bool:
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=5)
    try:
        connection.request("GET", READY_PATH)
        return connection.getresponse().status == _OK
    except OSError:
        return False
    finally:
        connection.close()

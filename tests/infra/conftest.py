"""One synthesis a session, by the command that people run, without an account or a network."""

import fcntl

import pytest

from tests.infra.assembly import Assembly, synthesise


@pytest.fixture(scope="session")
def assembly(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Assembly:
    """The stage ``prod``, synthesised once however many processes run the tests."""
    own = tmp_path_factory.getbasetemp()
    shared = own if worker_id == "master" else own.parent
    folder = shared / "cdk.out"
    with (shared / "cdk.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "manifest.json").exists():
            synthesise(folder)
    return Assembly(folder)

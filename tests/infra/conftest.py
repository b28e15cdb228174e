"""One synthesis a stage and session, by the command that people run, without account or network."""

import fcntl
from collections.abc import Callable, Iterator

import pytest

from infra import bundle
from infra.bundle import Bundle, Size
from infra.fleet import FLEET
from infra.stages import STAGES
from tests.infra.assembly import STAGE, Assembly, synthesise


@pytest.fixture(scope="session")
def assembled(
    tmp_path_factory: pytest.TempPathFactory, worker_id: str
) -> Callable[[str], Assembly]:
    """A stage by its name, synthesised once however many processes run the tests."""
    own = tmp_path_factory.getbasetemp()
    shared = own if worker_id == "master" else own.parent

    def assemble(stage: str) -> Assembly:
        folder = shared / f"cdk.out-{stage}"
        with (shared / "cdk.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (folder / "manifest.json").exists():
                synthesise(folder, stage)
        return Assembly(folder, stage)

    return assemble


@pytest.fixture(scope="session")
def assembly(assembled: Callable[[str], Assembly]) -> Assembly:
    """The stage that has everything."""
    return assembled(STAGE)


@pytest.fixture(scope="session", params=STAGES)
def each_stage(request: pytest.FixtureRequest, assembled: Callable[[str], Assembly]) -> Assembly:
    """Every stage that there is, one after the other."""
    return assembled(request.param)


@pytest.fixture(scope="session")
def localstack(assembled: Callable[[str], Assembly]) -> Assembly:
    return assembled("localstack")


@pytest.fixture(scope="module")
def empty_bundle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Folders with nothing in them to deploy, for tests that ask what is round the functions."""
    folder = tmp_path_factory.mktemp("nothing")
    (folder / "empty.txt").touch()
    made = Bundle(
        package_layer=folder,
        vendor_layers={group.name: folder for group in FLEET.vendor_groups},
        functions={spec.name: folder for spec in FLEET.functions},
        sizes={folder: Size(unpacked=0, zipped=0)},
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bundle, "build", lambda *_, **__: made)
        yield

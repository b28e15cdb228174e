"""Fixtures that synthesise each stage once a session, without account or network.

That of the stage that has everything is by the command that people run, with what is deployed then.
The others are composed here round functions that are empty, as are a test's own.
"""

import fcntl
from collections.abc import Callable

import pytest

from infra.bundle_contents import Bundle, Size
from infra.fleet import FLEET
from infra.stages import STAGES, Stage
from infra.streams import StreamReaders, with_streams
from tests.infra.assembly import STAGE, Assembly, compose, synthesise

#: All functions whose code there is.
EVERY = with_streams(FLEET, StreamReaders())


@pytest.fixture(scope="session")
def assembled(
    empty_bundle: Bundle, tmp_path_factory: pytest.TempPathFactory, worker_id: str
) -> Callable[[str], Assembly]:
    """A stage by its name, synthesised once however many processes run the tests."""

    def build(*_: object, **__: object) -> Bundle:
        return empty_bundle

    own = tmp_path_factory.getbasetemp()
    shared = own if worker_id == "master" else own.parent

    def assemble(stage: str) -> Assembly:
        folder = shared / f"cdk.out-{stage}"
        with (shared / "cdk.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (folder / "manifest.json").exists():
                if stage == STAGE:
                    synthesise(folder, stage)
                else:  # all of them: what takes its time is Node's beginning in this process
                    for name in STAGES.keys() - {STAGE}:
                        made = compose(STAGES[name], shared / f"cdk.out-{name}", build)
                        made.synth()
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


@pytest.fixture(scope="session")
def empty_bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """Folders with nothing in them to deploy, for tests that ask what is round the functions."""
    folder = tmp_path_factory.mktemp("nothing")
    (folder / "empty.txt").touch()
    return Bundle(
        package_layer=folder,
        vendor_layers={group.name: folder for group in FLEET.vendor_groups},
        functions={spec.name: folder for spec in EVERY.functions},
        sizes={folder: Size(unpacked=0, zipped=0)},
    )


@pytest.fixture(scope="session")
def composed(
    empty_bundle: Bundle, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[Stage], Assembly]:
    """A stage of a test's own, round functions that are empty; each is synthesised once."""

    # By what it says: a stage holds mappings.
    made: dict[str, Assembly] = {}

    def synthesised(stage: Stage) -> Assembly:
        key = repr(stage)
        if key not in made:
            folder = tmp_path_factory.mktemp(stage.name)
            compose(stage, folder, lambda *_, **__: empty_bundle).synth()
            made[key] = Assembly(folder, stage.name)
        return made[key]

    return synthesised

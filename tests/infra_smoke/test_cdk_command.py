"""The CDK's command is run only if it is, byte for byte, the package that was tested."""

import base64
import hashlib
import io
import tarfile

import pytest

from infra.cdk_command import INTEGRITY, VERSION, CommandError, fetched


def packed(program: bytes, name: str = "package/bin/cdk") -> bytes:
    """An archive as npm packs it."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        entry = tarfile.TarInfo(name)
        entry.size = len(program)
        archive.addfile(entry, io.BytesIO(program))
    return content.getvalue()


def integrity_of(archive: bytes) -> str:
    return "sha512-" + base64.b64encode(hashlib.sha512(archive).digest()).decode()


@pytest.fixture
def npm(tmp_path, monkeypatch):
    """An npm that gives this archive, and notes what it was asked for."""
    tools = tmp_path / "tools"
    tools.mkdir()
    program = tools / "npm"

    def gives(archive: bytes | None):
        given = tmp_path / "given.tgz"
        if archive is not None:
            given.write_bytes(archive)
        program.write_text(
            f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\n'
            f'for last; do :; done\ncp {given} "$last/aws-cdk.tgz"\n'
        )
        program.chmod(0o755)
        return tmp_path / "asked"

    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    return gives


def test_the_package_is_fetched_once_and_unpacked(npm, tmp_path):
    archive = packed(b"#!/usr/bin/env node")
    asked = npm(archive)

    first = fetched(tmp_path / "cdk", integrity_of(archive))
    again = fetched(tmp_path / "cdk", integrity_of(archive))

    assert first == again
    assert first.read_bytes() == b"#!/usr/bin/env node"
    assert asked.read_text().count(f"pack aws-cdk@{VERSION}") == 1


def test_another_package_than_the_one_that_was_tested_is_refused_and_not_kept(npm, tmp_path):
    npm(packed(b"steal credentials"))

    with pytest.raises(CommandError, match="is not the package that was tested"):
        fetched(tmp_path / "cdk")

    assert list((tmp_path / "cdk").rglob("*")) == []


def test_a_registry_that_does_not_answer_is_said_so(npm, tmp_path):
    npm(None)

    with pytest.raises(CommandError, match="npm does not give"):
        fetched(tmp_path / "cdk")


def test_an_archive_does_not_write_outside_of_its_folder(npm, tmp_path):
    archive = packed(b"x", name="../../outside")
    npm(archive)

    with pytest.raises(tarfile.OutsideDestinationError):
        fetched(tmp_path / "cdk", integrity_of(archive))

    assert not (tmp_path / "outside").exists()


def test_everything_that_runs_the_cdk_runs_this_one(pytestconfig):
    makefile = (pytestconfig.rootpath / "Makefile").read_text()

    assert INTEGRITY.startswith("sha512-")
    assert "npx" not in makefile
    assert "infra.cdk_command" in makefile
    for page in (pytestconfig.rootpath / "docs").rglob("*.md"):
        assert "npx" not in page.read_text(), page

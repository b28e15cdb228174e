"""The page to start with, done as it is written: each command, in order, in one shell."""

import csv
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from infra.local.parts import free_port

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = ROOT / "docs/start.md"
#: What reading and typing take is the reader's; this is what the machine may take, under tests too.
MOST_SECONDS: Final = 240
#: Words a minute that a reader of English takes in, at the slow end of what is reported of adults.
WORDS_A_MINUTE: Final = 180

#: The environment that the page makes first is there already, so these do what is left of it.
SHELL: Final = """
set -euxo pipefail
git() { mkdir -p "${@: -1}"; }
make() {
  case "$1" in
    demo) ;;
    up) "$PYTHON" -m infra.local up --state .crawlfleet ;;
    down) "$PYTHON" -m infra.local down --state .crawlfleet ;;
    *) false ;;
  esac
}
crawlfleet() { "$PYTHON" -m crawlfleet.cli "$@"; }
python() { "$PYTHON" "$@"; }
# A job is a group of processes: what serves the book is a child of a shell of its own.
set -m
trap 'make down >&2; for job in $(jobs -p); do kill -- "-$job"; done' EXIT
"""


class Done(NamedTuple):
    """The page, done: its exit code, what it printed, and the clone it was done in."""

    code: int
    said: str
    clone: Path


class Block(NamedTuple):
    """A block of the page: its language, its text, and all that stands before it."""

    language: str
    text: str
    before: str


def blocks() -> list[Block]:
    page = PAGE.read_text()
    found = re.finditer(r"^```(\w*)\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)
    return [Block(block[1], block[2], page[: block.start()]) for block in found]


def script(port: int) -> str:
    """The page as a script: its commands as they stand, its files written where it says."""
    done = [SHELL]
    for number, block in enumerate(blocks()):
        text = block.text.replace("8000", str(port))
        if block.language == "console":
            # The environment is the one of this test.
            done += [line for line in text.splitlines() if ".venv/bin/activate" not in line]
        elif block.language == "yaml":
            path = re.findall(r"`(\S+\.yaml)`", block.before)[-1]
            done.append(f"cat > {path} <<'END'\n{text}END")
        else:
            assert block.language == "python"
            done.append(f"cat > {number}.py <<'END'\n{text}END\npython {number}.py")
    return "\n".join(done)


@pytest.fixture(scope="module")
def done(tmp_path_factory) -> Done:
    folder = tmp_path_factory.mktemp("start")
    clone = folder / "crawlfleet"
    clone.mkdir()
    (clone / "samplesconfig").symlink_to(ROOT / "samplesconfig")
    settled = {"REDIS_URL", "MONGODB_URI", "CRAWLFLEET_API_URL", "CRAWLFLEET_API_KEY"}
    paths = [str(ROOT), str(ROOT / "layers/crawlfleet/python"), *sys.path]
    bash = shutil.which("bash")
    assert bash
    # A file: a pipe would be waited for until the servers have gone that the page leaves running.
    with (folder / "said").open("w+") as said:
        ended = subprocess.run(
            [bash, "-c", script(free_port())],
            cwd=folder,
            env={
                **{name: value for name, value in os.environ.items() if name not in settled},
                "PYTHON": sys.executable,
                "PYTHONPATH": os.pathsep.join(paths),
                "COLUMNS": "120",
            },
            stdout=said,
            stderr=subprocess.STDOUT,
            timeout=MOST_SECONDS,
            check=False,
        )
        said.seek(0)
        return Done(ended.returncode, said.read(), clone)


def test_each_command_of_the_page_succeeds(done):
    assert done.code == 0, done.said[-6_000:]


def test_the_page_ends_with_the_records_of_the_whole_book(done):
    with (done.clone / "chapters.csv").open() as file:
        rows = list(csv.DictReader(file))

    assert len(rows) == len(list((ROOT / "samplesconfig/local/pages/book").glob("chapter-*.html")))
    assert all(row["title"] and row["topic"] and float(row["words"]) > 0 for row in rows)


def test_the_page_is_read_in_ten_minutes():
    assert len(PAGE.read_text().split()) / WORDS_A_MINUTE < 10

"""What befell a fleet that harm was done to, for whoever reads of a failure."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

#: Of the last that was told so much is shown.
SHOWN: Final = 20_000


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Path]:
    """Where a run tells what befell it; shown with the test that has failed."""
    path = tmp_path / "log"
    path.touch()
    yield path
    sys.stdout.write(path.read_text()[-SHOWN:])

"""What this process takes: the system's own account, or what was known last."""

from pathlib import Path

import pytest

from crawlfleet.adapters.own_process import OwnProcess
from crawlfleet.model.usage import Remaining


def test_this_process_takes_memory_and_ever_more_processor_time() -> None:
    process = OwnProcess()
    first = process.taken()
    sum(n * n for n in range(300_000))

    second = process.taken()
    assert second.cpu_seconds >= first.cpu_seconds > 0
    assert second.memory_bytes > 1_000_000
    assert process.remaining() == Remaining()


def test_where_the_system_says_nothing_the_last_value_holds(tmp_path: Path) -> None:
    statm = tmp_path / "statm"
    process = OwnProcess(statm=statm)
    assert process.taken().memory_bytes == 0

    statm.write_text("900 300 20 1 0 50 0\n")
    known = process.taken().memory_bytes
    statm.write_text("what")
    assert process.taken().memory_bytes == known > 0


@pytest.mark.parametrize(
    ("text", "ghz"),
    [
        ("processor : 0\ncpu MHz\t\t: 2500.000\ncpu MHz : 3000\n", 2.5),
        ("processor : 0\nBogoMIPS : 50.00\n", 1.0),
        ("cpu MHz : a lot\n", 1.0),
        ("cpu MHz : 0.000\n", 1.0),
        (None, 1.0),
    ],
)
def test_a_second_of_the_processor_is_worth_its_frequency(
    tmp_path: Path, text: str | None, ghz: float
) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    if text is not None:
        cpuinfo.write_text(text)
    assert OwnProcess(cpuinfo=cpuinfo).ghz() == ghz

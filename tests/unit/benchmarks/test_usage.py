import subprocess
import sys

from benchmarks.usage import peak_kb


def test_a_small_process_of_a_large_one_is_small():
    held = bytearray(300_000_000)
    held[::4096] = b"x" * len(held[::4096])

    small = subprocess.run(
        [sys.executable, "-c", "from benchmarks.usage import peak_kb; print(peak_kb())"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert peak_kb() > 300_000
    assert int(small.stdout) < 100_000


def test_the_peak_is_read_where_the_system_reports_it(tmp_path):
    status = tmp_path / "status"
    status.write_text("Name:\tpython\nVmHWM:\t  93210 kB\nVmRSS:\t 1 kB\n")

    assert peak_kb(status) == 93_210
    assert peak_kb(tmp_path / "none") > 0

import subprocess
import sys

from benchmarks.usage import Started, cpu_seconds, peak_kb
from tests.waiting import eventually


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


def test_cpu_seconds_of_processes_count_once_they_have_ended():
    burn = "import time\nwhile time.process_time() < 0.1: pass"

    before = cpu_seconds()
    subprocess.run([sys.executable, "-c", burn], check=True)

    assert cpu_seconds() - before >= 0.1


def test_memory_of_processes_that_are_started_counts_while_they_live():
    filled = "held = b'x' * 60_000_000\nprint(flush=True)\ninput()"
    command = [
        sys.executable,
        "-c",
        f"import subprocess, sys; subprocess.run([sys.executable, '-c', {filled!r}])",
    ]

    with (
        Started(every_seconds=0.01) as others,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as started,
    ):
        started.stdout.readline()
        eventually(lambda: others.peak_kb > 60_000)
        started.stdin.close()

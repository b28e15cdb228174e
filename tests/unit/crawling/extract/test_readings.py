"""Readings of a worker's free resources: recorded and false /proc and cgroups, this machine."""

import os
import sys
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.kit.fleet import (
    DEFAULT_GHZ,
    SEEN_SECONDS,
    MachineFiles,
    MachineReadings,
    Remaining,
    function_memory_mb,
)

MB = 2**20
PAGE = os.sysconf("SC_PAGE_SIZE")

MEMINFO = "MemTotal:       16000000 kB\nMemFree:  1 kB\nMemAvailable:    8000000 kB\n"
AVAILABLE = 8_000_000 * 1024
STAT = "cpu  100 0 100 700 100 0 0 0 0 0\ncpu0 50 0 50 350 50 0 0 0\ncpu1 50 0 50 350 50 0 0 0\n"
NET = """Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop
    lo: 999999     10    0    0    0     0          0         0   999999      10    0    0
  eth0: {}     10    0    0    0     0          0         0   {}      10    0    0
"""
CPUINFO = "processor\t: 0\nmodel name\t: Some(R) CPU @ 2.90GHz\ncpu MHz\t\t: 2500.000\n"


def statm(mb):
    return f"9999999 {mb * MB // PAGE} 5 1 0 9 0\n"


V2 = {
    "proc/self/cgroup": "0::/box/pod\n",
    "sys/fs/cgroup/box/memory.max": f"{4000 * MB}\n",
    "sys/fs/cgroup/box/memory.current": f"{1000 * MB}\n",
    "sys/fs/cgroup/box/memory.stat": f"anon 5\ninactive_file {500 * MB}\n",
    "sys/fs/cgroup/box/pod/memory.max": "max\n",
    "sys/fs/cgroup/box/pod/memory.current": "77\n",
    "sys/fs/cgroup/box/cpu.max": "150000 100000\n",
    "sys/fs/cgroup/box/pod/cpu.max": "max 100000\n",
}
V1 = {
    "proc/self/cgroup": "4:memory:/docker/ab\n3:cpuset:/\n2:cpu,cpuacct:/docker/ab\n0::/\n",
    "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
    "sys/fs/cgroup/memory/docker/ab/memory.limit_in_bytes": f"{2000 * MB}\n",
    "sys/fs/cgroup/memory/docker/ab/memory.usage_in_bytes": f"{600 * MB}\n",
    "sys/fs/cgroup/memory/docker/ab/memory.stat": f"cache 9\ntotal_inactive_file {100 * MB}\n",
    "sys/fs/cgroup/cpu/docker/ab/cpu.cfs_quota_us": "50000\n",
    "sys/fs/cgroup/cpu/docker/ab/cpu.cfs_period_us": "100000\n",
}


class Machine:
    """A tree of files, a clock that is set, and a process that has spent what is said."""

    def __init__(self, root, **fields):
        self.root, self.now, self.spent = root, 1000.0, 5.0
        self.fields = {"processors": lambda: 2, **fields}
        self.write({"proc/self/statm": statm(200), "proc/meminfo": MEMINFO})

    def write(self, files):
        for path, text in files.items():
            place = self.root / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)

    def readings(self):
        return MachineReadings(
            root=self.root,
            steady=lambda: self.now,
            processor_seconds=lambda: self.spent,
            **self.fields,
        )


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


# ---- memory


def test_without_limits_memory_is_what_the_machine_could_give(machine):
    assert machine.readings().remaining().memory == AVAILABLE


@pytest.mark.parametrize(("files", "left"), [(V2, 3500 * MB), (V1, 1500 * MB)])
def test_a_control_group_bounds_memory_less_files_that_it_would_give_up(machine, files, left):
    machine.write(files)

    assert machine.readings().remaining().memory == left


def test_the_tightest_limit_counts(machine):
    machine.write({**V2, "proc/meminfo": "MemAvailable: 1024 kB\n"})

    assert machine.readings().remaining().memory == MB


def test_lambda_reports_its_memory_of_which_the_process_and_its_children_have_some(tmp_path):
    machine = Machine(tmp_path, lambda_mb=1024)
    machine.write({"proc/self/task/1/children": "", "proc/self/task/2/children": "70 71 "})
    machine.write({"proc/70/task/70/children": "80", "proc/71/task/71/children": "70"})
    machine.write({f"proc/{child}/statm": statm(100) for child in (70, 80)})

    readings = machine.readings()

    assert readings.remaining().memory == (1024 - 400) * MB
    assert readings.taken().memory_bytes == 400 * MB


@pytest.mark.parametrize(("reported", "left"), [(512, 312), (4096, 824)])
def test_what_infrastructure_says_of_the_pool_counts_where_it_is_less(tmp_path, reported, left):
    machine = Machine(tmp_path, lambda_mb=1024, reported_mb=reported)

    assert machine.readings().remaining().memory == left * MB


def test_limits_that_change_are_seen(machine):
    machine.write(V2)
    readings = machine.readings()
    machine.write({"sys/fs/cgroup/box/memory.max": f"{3000 * MB}\n"})
    machine.now += 5

    assert readings.remaining().memory == 2500 * MB


def test_who_has_more_than_the_limit_has_nothing_left(tmp_path):
    machine = Machine(tmp_path, lambda_mb=128)
    machine.write(V1 | {"sys/fs/cgroup/memory/docker/ab/memory.usage_in_bytes": f"{9000 * MB}"})

    assert machine.readings().remaining().memory == 0.0


# ---- processors


def after(machine, seconds=1.0, spent=0.0):
    readings = machine.readings()
    machine.now += seconds
    machine.spent += spent
    return readings


def test_the_index_is_the_clock_times_the_processors_times_what_is_idle(machine):
    machine.write({"proc/cpuinfo": CPUINFO})

    assert after(machine, 2.0, 1.0).remaining().cpu == pytest.approx(2.5 * 1.5)


def test_before_there_is_anything_to_compare_with_it_is_unknown(machine):
    readings = machine.readings()
    assert readings.remaining().cpu is None
    machine.now += 1
    first = readings.remaining().cpu
    machine.now += 0.1
    machine.spent += 0.1
    assert readings.remaining().cpu == first == 2 * DEFAULT_GHZ


def test_at_rest_all_of_the_processors_are_idle_at_once_whatever_is_seen_of_them_later(machine):
    machine.write({"proc/cpuinfo": CPUINFO, **V2})
    readings = machine.readings()

    assert readings.at_rest() == Remaining(memory=3500 * MB, cpu=2.5 * 1.5)

    machine.now += 1
    machine.spent += 1
    assert readings.remaining().cpu == pytest.approx(2.5 * 0.5)
    assert readings.at_rest().cpu == 2.5 * 1.5


def test_others_on_the_machine_take_what_is_nobodys_limit(machine):
    machine.write({"proc/stat": STAT})
    readings = machine.readings()
    machine.write({"proc/stat": STAT.replace("cpu  100 0 100 700", "cpu  190 0 100 710")})
    machine.now += 1

    assert readings.remaining().cpu == pytest.approx(DEFAULT_GHZ * 2 * 10 / 100)


@pytest.mark.parametrize(("files", "cores"), [(V2, 1.5), (V1, 0.5), ({}, 2.0)])
def test_a_control_group_bounds_processors(machine, files, cores):
    machine.write(files)

    assert after(machine).remaining().cpu == pytest.approx(DEFAULT_GHZ * cores)


@pytest.mark.parametrize(("mb", "cores"), [(1769, 1.0), (885, 885 / 1769), (10_240, 2.0)])
def test_lambda_gives_processors_by_memory_and_its_host_is_not_asked(tmp_path, mb, cores):
    machine = Machine(tmp_path, lambda_mb=mb)
    machine.write({"proc/stat": STAT})

    assert after(machine).remaining().cpu == pytest.approx(DEFAULT_GHZ * cores)


@pytest.mark.parametrize(
    ("files", "ghz"),
    [
        ({"proc/cpuinfo": CPUINFO}, 2.5),
        ({"proc/cpuinfo": "model name\t: Some(R) CPU @ 2.90GHz\n"}, 2.9),
        ({"sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq": "3100000\n"}, 3.1),
        ({"proc/cpuinfo": "BogoMIPS\t: 243.75\nFeatures\t: fp\n"}, DEFAULT_GHZ),
        ({"proc/cpuinfo": "cpu MHz : 0.000\n"}, DEFAULT_GHZ),
        ({"proc/cpuinfo": "cpu MHz : 99999999\nmodel name : x @ nanGHz"}, DEFAULT_GHZ),
    ],
)
def test_the_clock_is_read_wherever_it_is_reported(machine, files, ghz):
    machine.write(files)

    assert machine.readings().ghz() == pytest.approx(ghz)


def test_processor_seconds_only_grow(machine):
    readings = machine.readings()
    machine.spent = 7.5
    assert readings.taken().cpu_seconds == 7.5
    machine.spent = 6.0
    assert readings.taken().cpu_seconds == 7.5


# ---- bandwidth


def net(machine, received, sent=0):
    machine.write({"proc/net/dev": NET.format(received, sent)})


def test_bandwidth_is_unknown_until_something_was_moved(machine):
    net(machine, 500)
    readings = machine.readings()
    machine.now += 1
    assert readings.remaining().bandwidth is None
    machine.now += 1
    assert readings.remaining().bandwidth is None


def test_what_is_left_is_what_was_seen_at_best_less_what_is_moved_now(machine):
    net(machine, 0)
    readings = machine.readings()
    moved = 0
    left = []
    for each in (4_000_000, 3_000_000, 1_000_000, 0):
        moved += each
        net(machine, moved // 2, moved - moved // 2)
        machine.now += 1
        left.append(readings.remaining().bandwidth)

    # What it could is not known while it moves little, as polling is no work, nor at its best rate,
    # which may get better.
    assert left == [None, 1_000_000.0, None, None]


def test_a_trickle_says_nothing_of_what_a_link_could_carry(machine):
    net(machine, 0)
    readings = machine.readings()
    net(machine, 42)
    machine.now += 1

    assert readings.remaining().bandwidth is None


def test_what_was_seen_long_ago_is_forgotten(machine):
    net(machine, 0)
    readings = machine.readings()
    for moved, seconds in ((4_000_000, 1), (4_500_000, 1)):
        net(machine, moved)
        machine.now += seconds
        readings.remaining()
    machine.now += SEEN_SECONDS + 20
    net(machine, 4_500_000)

    assert readings.remaining().bandwidth is None


def test_a_counter_that_jumps_moves_nothing(machine):
    net(machine, 1_000_000)
    readings = machine.readings()
    for counted in (0, 2**63, 2**63 + 1_000_000, 2**63 + 1_750_000):
        net(machine, counted)
        machine.now += 1
        found = readings.remaining().bandwidth
    assert found == 250_000.0


def test_the_fetchers_own_count_replaces_the_machines(tmp_path):
    counts = iter([0, 300_000, 500_000])
    machine = Machine(tmp_path, moved=lambda: next(counts))
    net(machine, 0)
    readings = machine.readings()
    for expected in (None, 100_000.0):
        machine.now += 1
        assert readings.remaining().bandwidth == expected


# ---- lies


def test_an_empty_machine_reports_nothing(tmp_path):
    readings = MachineReadings(root=tmp_path / "nowhere")

    assert readings.remaining() == Remaining()
    assert readings.taken().memory_bytes == 0
    assert readings.ghz() == DEFAULT_GHZ


def test_a_process_that_cannot_be_read_any_more_is_as_large_as_it_was(machine):
    readings = machine.readings()
    assert readings.taken().memory_bytes == 200 * MB
    (machine.root / "proc/self/statm").unlink()
    assert readings.taken().memory_bytes == 200 * MB


FILES = [
    *("proc/self/statm", "proc/meminfo", "proc/self/cgroup", "proc/stat", "proc/net/dev"),
    *("proc/cpuinfo", "proc/self/task/1/children", "sys/fs/cgroup/memory.max"),
    *("sys/fs/cgroup/memory.current", "sys/fs/cgroup/memory.stat", "sys/fs/cgroup/cpu.max"),
]
LIES = st.one_of(
    st.binary(max_size=80),
    st.sampled_from(
        [
            *(b"-5\n", b"-1 -1 -1\n", b"9" * 30, b"max max", b"0 0", b"1 0", b"nan", b"1e9 1e9"),
            *(b"0::/../../etc\n", b"0::\n", b":::\n", b"MemAvailable:\n", b"MemAvailable: -4 kB"),
            *(b"cpu  1 2\n", b"cpu  -1 2 3 4\n", b"cpu  1 2 3 4\n", b"cpu MHz : -3\n", b"\n" * 99),
            *(b"a\nb\n eth0: 1 2\n", b"a\nb\n eth0: 9 1 1 1 1 1 1 1 9\n", b"1 1 1 1 1 1 1 1"),
        ]
    ),
)


@given(
    first=st.dictionaries(st.sampled_from(FILES), LIES),
    then=st.dictionaries(st.sampled_from(FILES), LIES),
    lambda_mb=st.sampled_from([None, 128]),
)
@example(first={}, then={"proc/self/statm": b"-1 -1 -1"}, lambda_mb=None)
def test_whatever_files_say_nothing_is_raised_nor_below_zero(
    tmp_path_factory, first, then, lambda_mb
):
    machine = Machine(tmp_path_factory.mktemp("root"), lambda_mb=lambda_mb)
    for path, lie in first.items():
        machine.write({path: ""})
        (machine.root / path).write_bytes(lie)
    readings = machine.readings()
    for path, lie in then.items():
        machine.write({path: ""})
        (machine.root / path).write_bytes(lie)
    machine.now += 6

    found, taken = readings.remaining(), readings.taken()

    for left in (found.memory, found.cpu, found.bandwidth):
        assert left is None or 0 <= left < 2**61
    assert taken.memory_bytes >= 0
    assert 0 < readings.ghz() <= 10


@pytest.mark.parametrize("said", ["", "-1", "0", "x", "99999999999", "1.5", "²"])
def test_a_memory_setting_that_is_none_says_nothing(said):
    assert function_memory_mb({"AWS_LAMBDA_FUNCTION_MEMORY_SIZE": said}) is None
    assert function_memory_mb({}) is None


def test_children_without_end_are_followed_some_dozens_far(machine):
    machine.write({"proc/self/task/1/children": " ".join(map(str, range(2, 300)))})

    assert len(MachineFiles(machine.root).descendants()) == 64


# ---- this machine


@pytest.mark.skipif(sys.platform != "linux", reason="what is read is Linux's")
def test_this_machine_reports_what_is_true_of_it():
    readings = MachineReadings()
    block = bytearray(os.urandom(1)) * (40 * MB)
    spent = time.process_time() + 0.6
    while time.process_time() < spent:
        sum(range(10_000))

    found, taken = readings.remaining(), readings.taken()

    assert found.memory is not None
    assert found.memory > 0
    assert found.cpu is not None
    assert 0 <= found.cpu <= 10 * (os.cpu_count() or 1)
    assert taken.memory_bytes > len(block)
    assert taken.cpu_seconds > 0.1


@pytest.mark.skipif(sys.platform != "linux", reason="what is read is Linux's")
def test_a_reading_costs_little():
    """Ten times what is claimed: machines that run tests are slower, and busy."""
    readings = MachineReadings()
    began = time.thread_time()
    for _ in range(200):
        readings.remaining()
        readings.taken()

    assert (time.thread_time() - began) / 400 < 0.002

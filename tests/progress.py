"""Progress of a run of tests: a line now and then, where no terminal shows pytest's dots.

``[ 40 %] 4,312 of 10,800 passed, 0 failed, 3:12`` comes after each tenth of the tests and after
each half minute, with the tests that have been running for as long. What fails is told at once;
why, with all that was logged, at the end.
"""

import json
import threading
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

#: A line comes after so many seconds at the latest, and after each such share of the tests, but
#: not at once after another.
EVERY_SECONDS: Final = 30.0
EVERY_SHARE: Final = 0.1
LEAST_SECONDS: Final = 5.0

#: How often the main process of xdist looks whether a line is due while no test ends.
_LOOK_SECONDS: Final = 1.0


def minutes(seconds: float) -> str:
    """Seconds as people read them.

    >>> minutes(192.4), minutes(4000)
    ('3:12', '66:40')
    """
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


@dataclass(slots=True)
class Tally:
    """The tests of a run that have begun, passed and failed, and when that was last told."""

    began_at: float
    total: int = 0
    passed: int = 0
    ended: int = 0
    failed: set[str] = field(default_factory=set)
    running: dict[str, float] = field(default_factory=dict)
    told_at: float = field(init=False)
    reported_ended: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.told_at = self.began_at

    def count(self, report: pytest.TestReport) -> bool:
        """Count a report; return True if it is the first that says that its test has failed."""
        if report.failed:
            is_first = report.nodeid not in self.failed
            self.failed.add(report.nodeid)
            return is_first
        self.passed += report.when == "call" and report.passed
        return False

    def is_due(self, now: float) -> bool:
        """True if a line is due: a tenth of the tests or half a minute after the last one."""
        silent = now - self.told_at
        more = self.ended - self.reported_ended
        is_further = self.ended < self.total and more >= max(1, EVERY_SHARE * self.total)
        return silent >= EVERY_SECONDS or (silent >= LEAST_SECONDS and is_further)

    def line(self, now: float) -> str:
        """The line; from here on the next one is due later."""
        self.told_at, self.reported_ended = now, self.ended
        share = self.ended / self.total if self.total else 0.0
        reported = (
            f"[{share:4.0%}] {self.passed:,} of {self.total:,} passed, "
            f"{len(self.failed)} failed, {minutes(now - self.began_at)}".replace("%", " %", 1)
        )
        for name, at in self.running.items():
            if now - at >= EVERY_SECONDS:
                reported += f"\n        still running after {minutes(now - at)}: {name}"
        return reported


class Progress:
    """The plugin of the process that collects the results, where its output is no terminal."""

    def __init__(self, write: Callable[[str], None], *, watch: bool) -> None:
        self._write = write
        self._tally = Tally(time.monotonic())
        self._lock = threading.Lock()
        self._over = threading.Event()
        # Where tests run in this very process its output is captured meanwhile, so that a line
        # from beside would end up with a test.
        self._watcher = threading.Thread(target=self._look, daemon=True) if watch else None

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._begin(len(session.items))

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        self._begin(len(ids))

    def _begin(self, total: int) -> None:
        self._tally.total = total
        if self._watcher is not None and total and not self._watcher.is_alive():
            self._watcher.start()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._tally.running[nodeid] = time.monotonic()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if self._tally.count(report):
            self._write(f"FAILED {report.nodeid}")

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._tally.running.pop(nodeid, None)
        self._tally.ended += 1
        self._report_if_due()

    def pytest_sessionfinish(self) -> None:
        self._over.set()

    @pytest.hookimpl(wrapper=True)
    def pytest_report_teststatus(self) -> Iterator[Any]:
        """Show no dots: lines are in their place, and what fails has one of its own."""
        category, _, word = yield
        return category, "", "" if category == "passed" else word

    def _look(self) -> None:
        while not self._over.wait(_LOOK_SECONDS):
            self._report_if_due()

    def _report_if_due(self) -> None:
        with self._lock:
            if self._tally.is_due(now := time.monotonic()):
                self._write(self._tally.line(now))


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Show lines in place of dots, unless this is a terminal or a process that only runs tests."""
    config = session.config
    reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or reporter.isatty or reporter.verbosity > 0 or config.option.collectonly:
        return
    reporter._show_progress_info = False
    is_shared = config.pluginmanager.has_plugin("dsession")
    config.pluginmanager.register(Progress(reporter.write_line, watch=is_shared), "progress")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show of a test that has failed what was logged, and not what functions have measured."""
    report = yield
    report.sections = [(name, without_metrics(text)) for name, text in report.sections]
    return report


def say(config: pytest.Config, line: str) -> None:
    """Tell how far a long test is; nobody hears it where other processes run the tests."""
    reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
    capture: Any = config.pluginmanager.get_plugin("capturemanager")
    if reporter is not None:
        with capture.global_and_fixture_disabled():
            reporter.write_line(line)


def without_metrics(text: str) -> str:
    """The lines of captured output that are no metrics of a function's, which nobody reads.

    >>> without_metrics('one\\n{"_aws": {"Timestamp": 1}}\\n{"a": 2}\\n')
    'one\\n{"a": 2}\\n'
    """
    return "".join(line for line in text.splitlines(keepends=True) if not _is_metric(line))


def _is_metric(line: str) -> bool:
    if '"_aws"' not in line:
        return False
    try:
        found = json.loads(line)
    except ValueError:
        return False
    return isinstance(found, dict) and "_aws" in found

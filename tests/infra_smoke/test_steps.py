"""Steps are shown with what was seen; what is awaited ends in time or says what to do."""

import io

import pytest
from rich.console import Console

from infra.steps import StepError, Steps, Warned, wait_for


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


def shown(do):
    out, clock = io.StringIO(), Clock()
    steps = Steps(Console(file=out, width=200), clock=clock)
    do(steps, clock)
    return out.getvalue(), steps


def test_a_step_is_a_line_with_its_seconds_and_what_was_seen():
    def do(steps, clock):
        with steps.step("the [door]") as step:
            clock.sleep(2.5)
            step.now("not for good")
            step.saw("403")
            step.saw("200")

    text, steps = shown(do)

    assert text == "ok        2.5 s  the [door]: 403, 200\n"
    assert steps.count == 1
    assert steps.seconds == 2.5


def test_what_somebody_should_mend_is_distinguished_from_what_is_well():
    def do(steps, clock):
        with steps.step("topics") as step:
            step.saw(Warned("nobody listens"))

    text, steps = shown(do)

    assert text == "warned    0.0 s  topics: nobody listens\n"
    assert steps.count == 1


def test_a_failed_step_says_so_and_what_it_raised_goes_on():
    def do(steps, _):
        with steps.step("first"):
            pass
        with pytest.raises(StepError), steps.step("second"):
            raise StepError("it is closed", "open it")

    text, steps = shown(do)

    assert "failed    0.0 s  second\n" in text
    assert steps.count == 1


def test_an_error_is_reported_with_the_log_and_with_what_to_do():
    error = StepError("[it] is closed", "open [it]", "/aws/lambda/a")
    error.quote = "first [line]\nlast"

    text, _ = shown(lambda steps, _: steps.report(error))

    assert text == (
        "\n[it] is closed\n\nthe latest of /aws/lambda/a:\nfirst [line]\nlast\n\nopen [it]\n"
    )


def test_what_comes_true_is_waited_for_no_longer():
    clock = Clock()

    wait_for(lambda: clock.now > 103, 60, "it", "wait", clock=clock, sleep=clock.sleep)

    assert 103 < clock.now < 104


def test_what_never_comes_true_is_an_error_in_time_that_says_what_to_do():
    clock = Clock()

    with pytest.raises(StepError, match="the door opens: not within 60 s") as caught:
        wait_for(
            lambda: False,
            60,
            "the door opens",
            "push it",
            log_group="/aws/lambda/a",
            clock=clock,
            sleep=clock.sleep,
        )

    assert clock.now <= 161
    assert (caught.value.do, caught.value.log_group) == ("push it", "/aws/lambda/a")

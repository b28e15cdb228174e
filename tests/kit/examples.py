"""A property is tried on a share of the examples that the profile gives.

A run has one of three profiles, chosen by ``pytest --hypothesis-profile=NAME``:

- ``quick`` (`make check`): a few examples, the same ones each time.
- ``test`` (`make test`, and whoever names none): others each time; what fails is kept below
  ``.hypothesis`` and tried first by the next run.
- ``night`` (`make proofs`): thousands, of the seed that is shown.

A test names no count of its own, as one that is right for `make test` is wrong for the others:
``@examples(0.5)`` in place of ``@settings(max_examples=20)``. A test without it has weight 1.
"""

from typing import Any, Final

from hypothesis import HealthCheck, Verbosity, settings

#: Profile to examples of a property of weight 1.
COUNTS: Final = {"quick": 8, "test": 40, "night": 2_000}


def register_profiles() -> None:
    """Make the profiles known to Hypothesis; ``test`` is in force until another is asked for."""
    for name, count in COUNTS.items():
        settings.register_profile(
            name,
            # Where CI is set Hypothesis has defaults of its own; ours are the same everywhere.
            settings.get_profile("default"),
            max_examples=count,
            # How long an example may take is no property of what it tries: machines are busy.
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow],
            derandomize=name == "quick",
            print_blob=True,
            verbosity=Verbosity.normal,
        )
    settings.load_profile("test")


def examples(
    weight: float = 1.0, *, steps: int | None = None, most: int | None = None, **others: Any
) -> settings:
    """Settings with the profile's number of examples, times ``weight``; at least three.

    A decorator for a test, or the settings of a state machine, which takes ``steps`` an example:
    ``run_state_machine_as_test(Machine, settings=examples(0.6, steps=40))``. ``others`` are further
    settings of Hypothesis. Weigh by cost: 1 for what takes milliseconds, 0.1 for tens of them;
    what takes a second names the ``most`` that a night is long enough for.
    """
    profile = settings()
    if steps is not None:
        others["stateful_step_count"] = steps
    others["suppress_health_check"] = [
        *profile.suppress_health_check,
        *others.get("suppress_health_check", ()),
    ]
    count = max(3, round(weight * profile.max_examples))
    return settings(max_examples=count if most is None else min(count, most), **others)

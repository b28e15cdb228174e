"""A function's wait for its first configuration, beside the time that Lambda gives it."""

from infra.fleet import FLEET
from infra.streams import StreamReaders, with_streams
from tests.kit.apps import START_SECONDS
from tests.kit.kernel import names


def test_each_function_that_reads_the_configuration_waits_for_it_and_can_still_answer():
    functions = with_streams(FLEET, StreamReaders()).functions
    readers = {spec.name: spec.timeout_seconds for spec in functions}

    assert START_SECONDS.keys() == {spec.package.replace("_", "-") for spec in functions}
    assert all(START_SECONDS[name] <= 0.6 * readers[name] for name in START_SECONDS)
    assert START_SECONDS[names.CONSUMER] >= 60, (
        "a consumer that could not start is not called again"
    )

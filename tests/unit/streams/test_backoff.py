"""Pauses between the connections of a stream."""

from tests.kit.streams import MOST_ASKED_SECONDS, MOST_NETWORK_SECONDS, Backoff, End


def pauses(*ends, **said):
    steps, found = Backoff(), []
    for end in ends:
        steps, pause = steps.after(end, **said)
        found.append(pause)
    return found


def test_a_stream_that_ends_again_and_again_is_not_asked_in_a_loop():
    assert pauses(*[End.ENDED] * 4) == [0.0, 0.25, 0.5, 0.75]
    assert pauses(*[End.ENDED] * 100)[-1] == MOST_NETWORK_SECONDS


def test_faults_of_the_network_wait_longer_each_time():
    assert pauses(End.NETWORK, End.NETWORK, End.ENDED, End.SILENT) == [0.25, 0.5, 0.75, 1.0]


def test_a_connection_that_stood_long_begins_anew():
    steps, _ = Backoff(network=9).after(End.NETWORK, stood_seconds=MOST_NETWORK_SECONDS + 1)

    assert steps.after(End.NETWORK)[1] == 0.5


def test_faults_of_http_and_too_many_requests_double_to_their_bounds():
    assert pauses(*[End.HTTP] * 8) == [5, 10, 20, 40, 80, 160, 320, 320]
    assert pauses(*[End.LIMITED] * 6) == [60, 120, 240, 480, 960, 960]
    assert pauses(*[End.HTTP] * 2_000)[-1] == 320


def test_what_a_server_asks_for_is_waited_within_bounds():
    assert pauses(End.HTTP, asked_seconds=30) == [30]
    assert pauses(End.LIMITED, asked_seconds=1e9) == [MOST_ASKED_SECONDS]


def test_an_answer_ends_what_was_counted_of_refusals_alone():
    steps = Backoff(network=3, http=3, limited=3).answered()

    assert steps == Backoff(network=3)

import math
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.kit.examples import examples
from tests.kit.frontier import BLOCK_BYTES, error_at, layers

EXPECTED = st.integers(1_000, 1_000_000_000)
RATES = st.floats(1e-9, 0.1)


def upto(expected, rate):
    """The layers for what is expected, and those beyond."""
    made, held = layers(expected, rate), 0
    for count, layer in enumerate(made, start=1):
        held += layer.keys
        if held >= expected:
            return made[:count], made[count:]
    return made, ()


def test_a_million_keys_at_one_in_a_thousand_take_less_than_two_megabytes():
    expected, _ = upto(1_000_000, 0.001)

    assert sum(layer.bytes for layer in expected) < 2_000_000
    assert expected[0].bytes < 16_000


def test_what_is_expected_fits_with_a_tenth_of_the_errors_to_spare():
    expected, further = upto(1_000_000, 0.001)

    assert sum(layer.keys for layer in expected) == 1_000_000
    assert [later.keys for later in further] == [1_000_000 * 2**step for step in range(6)]
    errors = [error_at(layer.bytes * 8 / layer.keys, layer.bits) for layer in layers(10**6, 0.001)]
    assert sum(errors[: len(expected)]) <= 0.0009
    assert sum(errors) <= 0.001


def test_a_filter_is_bounded_where_more_is_expected_than_there_is_place_for():
    made = layers(1_000_000_000, 1e-9)

    assert sum(layer.keys for layer in made) < 1_000_000_000
    assert sum(layer.bytes for layer in made) <= 4 * 1024**3
    assert sum(layer.parts for layer in made) <= 250


@pytest.mark.untraced
@examples(0.4)
@given(expected=EXPECTED, rate=RATES)
@example(expected=1_000_000_000, rate=1e-9)
def test_layers_grow_within_bounds_and_err_and_cost_no_more_than_stated(expected, rate):
    every, (made, _) = layers(expected, rate), upto(expected, rate)

    errors = [error_at(layer.bytes * 8 / layer.keys, layer.bits) for layer in every]
    assert sum(errors) <= rate * 1.001

    assert all(first.keys < second.keys for first, second in pairwise(made))
    assert made[0].keys <= 16_000
    for layer in every:
        assert layer.blocks >= 1
        assert 0 < layer.blocks_a_part * BLOCK_BYTES < 64 * 1024 * 1024
        assert (layer.parts - 1) * layer.blocks_a_part < layer.blocks
        assert layer.bits >= 1
    # As many names as a call of the script can have without being slowed by them.
    assert sum(layer.parts for layer in every) <= 250

    # A filter is bounded: where the largest layer has no place, the others alone cost more a key.
    keys = sum(layer.keys for layer in made)
    if keys >= expected:
        theory = -math.log(rate) / math.log(2) ** 2
        small = len(made) * BLOCK_BYTES * 8 / expected
        # Blocks fill unevenly, which costs the more the fewer errors are wanted.
        most = theory * (1.12 if rate >= 1e-4 else 1.4) + 1.5 + small
        assert sum(layer.bytes * 8 for layer in made) / keys <= most


@pytest.mark.parametrize(("bits_a_key", "bits"), [(14.4, 10), (20.0, 13), (8.0, 5)])
def test_blocks_cost_little(bits_a_key, bits):
    without = (1 - math.exp(-bits / bits_a_key)) ** bits

    assert without <= error_at(bits_a_key, bits) <= without * 1.3

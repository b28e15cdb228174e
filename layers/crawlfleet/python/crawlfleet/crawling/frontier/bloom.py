"""The layout of a segment's Bloom filter (SPEC.md F3).

A filter grows by layers. A few thousand keys need a few kilobytes; every further layer holds
sixteen times as many, and together they hold what is expected; layers as large as all before them
follow if more comes. A key is looked up in every layer in use, so their errors add up: each layer
may err as often as its share of the keys says, which costs the fewest bits (the sum of the shares'
logarithms is smallest), and a tenth of the whole is kept back for the layers beyond.

A layer is cut into blocks of 512 bytes, and all bits of a key lie in one of them: one read of Redis
a key and layer, whatever the number of bits (Putze, Sanders, Singler: Cache-, Hash- and
Space-Efficient Bloom Filters, 2007). Keys are spread over the blocks unevenly, which at this size
costs one bit in a hundred; the sizes below are computed for it.
"""

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

import msgspec

BLOCK_BYTES: Final = 512
_BLOCK_BITS: Final = BLOCK_BYTES * 8
#: Each layer holds so many times what the one before it holds.
_GROWTH: Final = 16
#: The first layer holds about so many keys at least.
_SMALLEST: Final = 1_000
#: What of the error rate is for what is expected; the rest is for what comes beyond that.
_EXPECTED_SHARE: Final = 0.9
#: Layers beyond what is expected. Each holds as much as all before it.
_FURTHER: Final = 6
#: A layer's strings are as large as this at least and at most, and where it can be 16 of them.
_SMALLEST_PART: Final = 512 * 1024
_LARGEST_PART: Final = 64 * 1024 * 1024
_PARTS: Final = 16
#: What an allocator adds to a string: with it, it fills a power of two.
_HEADER: Final = BLOCK_BYTES
#: A filter has no more than this in all: beyond, keys are not added any more.
_MOST_BYTES: Final = 4 * 1024**3


class Layer(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the filter that is filled before the next one is begun.

    It holds ``keys`` keys of ``bits`` bits each, in ``blocks`` blocks; the blocks lie in strings of
    ``blocks_a_part``, of which the last may be shorter.
    """

    keys: int
    bits: int
    blocks: int
    blocks_a_part: int

    @property
    def parts(self) -> int:
        """Count the strings it has."""
        return -(-self.blocks // self.blocks_a_part)

    @property
    def bytes(self) -> int:
        """Return its size in bytes."""
        return self.blocks * BLOCK_BYTES


@lru_cache(maxsize=256)
def layers(expected: int, error_rate: float) -> tuple[Layer, ...]:
    """Compute the layers of a filter for so many keys at that rate of false answers.

    >>> sum(layer.bytes for layer in layers(1_000_000, 0.001)[:3])
    1911296
    """
    made: list[Layer] = []
    used = 0
    for keys, error in _shares(expected, error_rate):
        layer = _layer(keys, error)
        used += layer.bytes
        if used > _MOST_BYTES and made:
            break
        made.append(layer)
    return tuple(made)


def error_at(bits_a_key: float, bits: int) -> float:
    """Compute how often a full layer takes a strange key for its own.

    A block's number of keys is Poisson's; for each number the chance that all bits are set.
    """
    mean = _BLOCK_BITS / bits_a_key
    around = 12 * math.sqrt(mean) + 20
    log, exp, lgamma, clear = math.log(mean), math.exp, math.lgamma, 1 - 1 / _BLOCK_BITS
    total = 0.0
    # Added one by one: `sum` rounds otherwise from Python 3.12, and where keys lie follows from it.
    for keys in range(max(1, int(mean - around)), int(mean + around)):
        total += exp(keys * log - mean - lgamma(keys + 1)) * (1 - clear ** (bits * keys)) ** bits
    return total


def _shares(expected: int, error_rate: float) -> Iterator[tuple[int, float]]:
    """Give the keys that each layer holds, and how often it may err."""
    sizes: list[int] = []
    left = expected
    while left > _GROWTH * _SMALLEST:
        sizes.append(left - left // _GROWTH)
        left //= _GROWTH
    sizes.append(left)
    for keys in reversed(sizes):
        yield keys, error_rate * _EXPECTED_SHARE * keys / expected
    for step in range(_FURTHER):
        yield expected * 2**step, error_rate * (1 - _EXPECTED_SHARE) / 2 ** (step + 1)


def _layer(keys: int, error: float) -> Layer:
    # The best number of bits without blocks; around it lies the best one with them.
    about = -math.log2(error)
    least, bits = min(
        (_bits_a_key(error, bits), bits) for bits in range(int(about), int(about) + 3)
    )
    blocks = math.ceil(keys * least / _BLOCK_BITS)
    part = _SMALLEST_PART
    while part < _LARGEST_PART and part * _PARTS < blocks * BLOCK_BYTES:
        part *= 2
    return Layer(keys=keys, bits=bits, blocks=blocks, blocks_a_part=(part - _HEADER) // BLOCK_BYTES)


def _bits_a_key(error: float, bits: int) -> float:
    """Find the fewest bits a key at which a layer errs no more often than that."""
    low, high = 1.0, 400.0
    while high - low > 0.005:
        middle = (low + high) / 2
        low, high = (low, middle) if error_at(middle, bits) <= error else (middle, high)
    return high

"""Prices of items are shared to the last nano-dollar, and items allotted within limits."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from tests.kit.examples import examples
from tests.kit.quotas import Account, Limit, Quota, QuotaPeriod, QuotaUnit, Scope
from tests.kit.streams import allot, shares_of

NAMES = st.text("abcdefgh", min_size=1, max_size=3)
TAKERS = st.lists(NAMES, min_size=1, max_size=12, unique=True)
PRICES = st.integers(0, 10_000_000)


def limit(number: int, unit: QuotaUnit) -> Limit:
    account = Account("acme", Scope.USER, f"u{number}", unit, QuotaPeriod.DAY)
    return Limit(account, Quota(unit=unit, most=100, per=QuotaPeriod.DAY), "quotas[0]")


LIMITS = [limit(number, unit) for number in range(3) for unit in (QuotaUnit.ITEMS, QuotaUnit.USD)]


@given(PRICES, TAKERS, st.text(max_size=5))
@examples(1)
def test_shares_of_a_price_sum_to_it_and_differ_by_one_nano_dollar_at_most(
    price: int, takers: list[str], item: str
) -> None:
    shares = shares_of(price, takers, item)

    assert set(shares) == set(takers)
    assert sum(shares.values()) == price
    assert max(shares.values()) - min(shares.values()) <= 1


@given(PRICES, st.lists(NAMES, min_size=1, max_size=6, unique=True), st.text(max_size=5))
@examples(0.5)
def test_shares_do_not_depend_on_the_order_of_takers(
    price: int, takers: list[str], item: str
) -> None:
    assert shares_of(price, takers, item) == shares_of(price, takers[::-1], item)


def test_what_does_not_divide_is_paid_by_others_for_each_item() -> None:
    takers = ["a", "b", "c"]
    paid: Counter[str] = Counter()
    for number in range(3_000):
        paid.update(shares_of(10, takers, str(number)))

    assert sum(paid.values()) == 30_000
    assert max(paid.values()) - min(paid.values()) < 300


@given(
    PRICES,
    st.dictionaries(NAMES, st.lists(st.sampled_from(LIMITS), unique=True, max_size=4), min_size=1),
    st.lists(st.integers(0, 12_000_000), min_size=len(LIMITS), max_size=len(LIMITS)),
    st.text(max_size=3),
)
@examples(1)
def test_an_item_goes_to_those_whose_limits_have_room_and_no_limit_is_exceeded(
    price: int, takers: dict[str, list[Limit]], left: list[int], item: str
) -> None:
    room = dict(zip(LIMITS, left, strict=True))
    room |= {one: amount % 4 for one, amount in room.items() if one.quota.unit == "items"}

    found = allot(item, takers, price, room.__getitem__)

    used: Counter[Limit] = Counter()
    for uses in found.uses.values():
        used.update(uses)
    assert all(amount <= room[one] for one, amount in used.items())
    assert set(found.uses) == set(found.takers) <= set(takers)
    # Who is under no limit, and whose limits have room for everybody, has it.
    every: Counter[Limit] = Counter()
    for own in takers.values():
        every.update(own)
    for name, own in takers.items():
        if all(room[one] >= (every[one] if one.quota.unit == "items" else price) for one in own):
            assert name in found.takers
    if found.takers:
        paid = sum(shares_of(price, found.takers, item).values())
        assert paid == price


def test_of_those_under_one_limit_as_many_have_the_item_as_it_leaves_room_for() -> None:
    one = limit(0, QuotaUnit.ITEMS)
    takers = dict.fromkeys("abcdefgh", (one,))

    counts = Counter(
        name for number in range(400) for name in allot(str(number), takers, 0, lambda _: 3).takers
    )

    assert sum(counts.values()) == 1_200
    # In turn: nobody is always the one that goes without.
    assert min(counts.values()) > 50

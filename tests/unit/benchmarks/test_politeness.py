from benchmarks.politeness import LARGE, LIMITS, Plan, plain_queue, slots_and_deferral

PLAN = Plan(small_hosts=40, each=10, large=600)


def test_small_hosts_do_not_wait_for_a_large_one_nor_it_for_them():
    ours, plain = slots_and_deferral(PLAN), plain_queue(PLAN)

    assert (len(ours.small), len(ours.large)) == (400, 600)
    assert (len(plain.small), len(plain.large)) == (400, 600)
    assert max(ours.small) < max(plain.small) / 5
    assert max(ours.large) < PLAN.least_seconds * 1.05 + 1


def test_neither_way_asks_a_host_for_more_than_its_rate():
    for way in (slots_and_deferral, plain_queue):
        moments = sorted(way(PLAN).large)

        assert moments[-1] >= PLAN.least_seconds
        # One that is late for want of a permit may come right before the next one.
        for first, last in zip(moments, moments[round(LIMITS.per_second) + 2 :], strict=False):
            assert last - first > 1


def test_a_curve_begins_with_its_first_request_and_ends_with_all():
    points = plain_queue(PLAN).points()

    for curve in points.values():
        seconds, parts = zip(*curve, strict=True)
        assert list(seconds) == sorted(seconds)
        assert (parts[0] <= 0.01, parts[-1]) == (True, 1.0)
        assert len(curve) <= 301


def test_the_order_of_requests_is_mixed_and_always_the_same():
    hosts = PLAN.hosts()

    assert hosts == PLAN.hosts()
    assert 200 < sum(host == LARGE for host in hosts[:500]) < 400

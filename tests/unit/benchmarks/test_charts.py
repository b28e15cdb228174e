import pytest

from benchmarks.charts import bars, charts, curves, main, part_at

CURVE = [[0.0, 0.0], [60.0, 0.5], [400.0, 1.0]]


def test_the_median_of_each_side_is_a_bar_and_the_largest_is_first():
    chart = bars("pages", {"scrapy_redis": [10, 30, 20], "ours": [90.0, 100.4, 200], "none": []})

    assert 'x-axis ["ours", "scrapy-redis"]' in chart
    assert "bar [100, 20]" in chart
    assert chart.startswith("```mermaid\nxychart-beta\n")
    assert chart.endswith("```")


@pytest.mark.parametrize(("moment", "part"), [(-1, 0.0), (0, 0.0), (60, 0.5), (399, 0.5), (1e9, 1)])
def test_a_curve_stays_until_its_next_point(moment, part):
    assert part_at(CURVE, moment) == part


def test_each_curve_is_a_line_and_is_reported():
    chart = curves("done", {"turns": {"small hosts": CURVE}, "queue": {"small hosts": CURVE}})

    assert chart.count("line [0, 0, 50, 50, 50, 50, 100, 100, 100, 100, 100]") == 2
    assert chart.endswith("Lines: small hosts, turns; small hosts, queue.")


def test_a_run_of_one_part_has_the_charts_of_that_part():
    assert len(list(charts({"pages per CPU second": {"ours": [1.0]}, "crawls": []}))) == 1


def test_they_are_printed_for_a_page(tmp_path, capsys):
    details = '{"pages per CPU second": {"ours": [650], "floor": [1000]}}'
    (tmp_path / "latest-details.json").write_text(details)

    main([str(tmp_path)])

    assert 'x-axis ["floor", "ours"]' in capsys.readouterr().out

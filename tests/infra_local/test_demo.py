"""`make demo` refuses a site that it cannot crawl before it starts anything, and shows streams."""

import json
import socket

import pytest

from infra.local import demo, demo_streams


@pytest.mark.parametrize("url", ["example.org", "ftp://example.org/", "http://", "http://x:y/"])
def test_what_is_no_url_is_refused(url, capsys):
    with pytest.raises(SystemExit) as ended:
        demo.main(["--url", url])

    assert ended.value.code == 2
    assert "--url: " in capsys.readouterr().err


def test_a_site_where_nobody_listens_is_refused(capsys):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

    with pytest.raises(SystemExit) as ended:
        demo.main(["--url", f"http://127.0.0.1:{port}/"])

    assert ended.value.code == 2
    assert f"port {port}: " in capsys.readouterr().err


def test_a_demo_of_no_pages_is_refused(capsys):
    with pytest.raises(SystemExit):
        demo.main(["--pages", "0"])

    assert "at least 1" in capsys.readouterr().err


def test_a_stream_has_no_site(capsys):
    with pytest.raises(SystemExit):
        demo.main(["--stream", "--url", "http://127.0.0.1/"])

    assert "leave out --url" in capsys.readouterr().err


def test_two_subscribers_share_a_stream_whose_reader_changes(capsys, monkeypatch):
    monkeypatch.delenv("REDIS_URL", raising=False)
    monkeypatch.delenv("MONGODB_URI", raising=False)

    code = demo_streams.run(as_json=True)

    said = capsys.readouterr()
    summary = json.loads(said.out)
    assert summary["items"] == demo_streams.ITEMS
    assert summary["connections"] >= 2
    for desk in summary["desks"].values():
        assert desk["got"] - desk["repeated"] == desk["wanted"] > summary["wanted_by_both"] > 0
        assert desk["lost"] == 0
    # Where the machine stands still for a lease a reader is followed before it can hang up, and
    # where a call times out its messages are pushed again: then the demo says that it is not right.
    repeated = sum(desk["repeated"] for desk in summary["desks"].values())
    assert (code == 0) is (summary["most_at_once"] == 1 and not repeated), said.err
    assert "is ended; " in said.err
    assert "docs/guides/streams.md" in said.err

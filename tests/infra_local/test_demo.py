"""`make demo` refuses a site that it cannot crawl before it starts anything."""

import socket

import pytest

from infra.local import demo


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

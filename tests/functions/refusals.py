"""Assertions on a client's response while a part is unavailable."""

SECRETS = ("mongodb://", "redis://", "127.0.0.1", "crawlfleet/test")


def refused_for_now(answer) -> None:
    assert answer.status == 503, answer.text
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert int(answer.headers["Retry-After"]) > 0
    assert not any(secret in answer.text for secret in SECRETS), answer.text

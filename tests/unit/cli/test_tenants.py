"""``crawlfleet tenant``: what options become settings, and what is refused before a call."""

import pytest

from tests.kit.cli import settings_of


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        ({}, {}),
        ({"share": 2, "description": "Ours."}, {"description": "Ours.", "share": 2}),
        ({"workers": 3}, {"needs": {"workers": 3, "requests_per_hour": None}}),
        ({"unlimited": True}, {"quotas": []}),
        (
            {"ceilings": ["in_flight=1_000", "leases_per_second=2.5", "trials="]},
            {"ceilings": {"in_flight": 1_000, "leases_per_second": 2.5, "trials": None}},
        ),
        (
            {"quotas": ["requests=5", "bytes=7/day"]},
            {
                "quotas": [
                    {"unit": "requests", "most": 5},
                    {"unit": "bytes", "most": 7, "per": "day"},
                ]
            },
        ),
    ],
)
def test_options_are_settings(options, settings):
    assert settings_of(**options) == settings


def test_options_go_before_the_file(tmp_path):
    file = tmp_path / "acme.yaml"
    file.write_text("share: 2\nusers: {ann: []}\n")

    assert settings_of(file=file, share=5) == {"share": 5, "users": {"ann": []}}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--ceiling", "in_flight"], "in_flight=500"),
        (["--ceiling", "in_flight=many"], "in_flight=500"),
        (["--quota", "pages=5"], "is requests, records, bytes or items"),
        (["--quota", "requests=5", "--unlimited"], "contradict"),
        ([], "say what is to change"),
    ],
)
def test_what_cannot_be_meant_is_told_before_anything_is_asked(crawlfleet, api, arguments, said):
    done = crawlfleet("tenant", "set", "acme", *arguments)

    assert done.code == 2
    assert said in done.err
    assert not [call for call in api.calls if "tenants" in call.path]


def test_a_name_that_is_no_part_of_an_address_is_refused(crawlfleet, api):
    done = crawlfleet("tenant", "show", "..")

    assert done.code == 2
    assert "cannot be a part of an address" in done.err

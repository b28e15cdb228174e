import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.cli import parse, read_folder, render, scan_folder, write_folder
from tests.kit.kernel import ConfigError

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=12)
    | st.sampled_from(["yes", "no", "on", "1:30", "010", "0x1F", "1e3", "2026-01-01", "~", ".inf"]),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=15,
)


@given(value=json_values)
def test_any_json_survives_the_spelling_that_people_write(value):
    text = msgspec.json.encode(value).decode()

    assert json.loads(parse(render(text))) == json.loads(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", "yes"),
        ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"),
        ("010", "010"),
        ("1:30", "1:30"),
        ("0x1F", "0x1F"),
        ("-12", -12),
        ("1.5e3", 1500.0),
        ("~", None),
        ("null", None),
        ("true", True),
        (".inf", ".inf"),
        ("{on: off}", {"on": "off"}),
        ('"\\u20ac"', "\N{EURO SIGN}"),
    ],
)
def test_yaml_has_the_values_of_json_and_no_others(text, value):
    assert json.loads(parse(text)) == value


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: 1\nb: 2\na: 3", "line 3, column 1: the key 'a'"),
        ("{1: x}", "line 1, column 2: the key 1"),
        ("{[a]: x}", "is no string"),
        ("a: &x [1]\nb: *x", "line 2, column 4: "),
        ("!!python/object/apply:os.system [ls]", "could not determine a constructor"),
        ("a: !!binary aGk=", "could not determine a constructor"),
        ("a: !!timestamp 2026-01-01", "could not determine a constructor"),
        ("a: !!int 0x1F", "invalid literal"),
        ("a: [", "line 1"),
        ("a: 1e999", "a number is too large"),
        ("--- 1\n--- 2", "found another document"),
        ("a: \x07", "special characters"),
        ("[" * 3000, "nested too deeply"),
    ],
)
def test_what_json_cannot_hold_is_refused_with_its_place(text, problem):
    with pytest.raises(ValueError, match=r".") as caught:
        parse(text)

    assert problem in str(caught.value)


def test_a_folder_is_read_in_yaml_and_json_alike(tmp_path):
    (tmp_path / "tenants").mkdir()
    (tmp_path / "bizs" / "acme").mkdir(parents=True)
    (tmp_path / "schedules" / "acme").mkdir(parents=True)
    (tmp_path / "stage.yaml").write_text("nodes: [main]  # one\n")
    (tmp_path / "tenants" / "acme.json").write_text('{ "api_keys": [] }')
    (tmp_path / "bizs" / "acme" / "shop.yml").write_text("queue: main")
    (tmp_path / "schedules" / "acme" / "x.yaml").write_text("cron: x")
    (tmp_path / "README.md").write_text("words")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_text("words")

    assert read_folder(tmp_path) == {
        "stage": '{"nodes":["main"]}',
        "tenants/acme": '{"api_keys":[]}',
        "bizs/acme/shop": '{"queue":"main"}',
    }


def test_every_file_that_is_no_document_is_named(tmp_path):
    (tmp_path / "biz" / "acme").mkdir(parents=True)
    (tmp_path / "stage.yaml").write_text("nodes: [")
    (tmp_path / "stage.json").write_text("{}")
    (tmp_path / "biz" / "acme" / "shop.yaml").write_text("{}")
    (tmp_path / "stage.toml").write_text("")

    documents, problems = scan_folder(tmp_path)

    assert documents == {"stage": "{}"}
    assert [problem.field for problem in problems] == [
        "biz/acme/shop.yaml",
        "stage.toml",
        "stage.yaml",
    ]
    with pytest.raises(ConfigError):
        read_folder(tmp_path)


def test_a_name_with_capitals_is_reported_what_names_are(tmp_path):
    (tmp_path / "bizs" / "acme").mkdir(parents=True)
    (tmp_path / "bizs" / "acme" / "Shop.yaml").write_text("{}")

    [problem] = scan_folder(tmp_path)[1]

    assert problem.field == "bizs/acme/Shop.yaml"
    assert "'Shop'" in problem.message
    assert "up to 32 of a-z, 0-9 and -" in problem.message


def test_a_folder_without_a_document_offers_those_of_its_folders_that_are_stages(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "stage.yaml").write_text("{}")
    (tmp_path / "three").mkdir()

    documents, [problem] = scan_folder(tmp_path)

    assert documents == {}
    assert problem.message.endswith(f"; did you mean {tmp_path / 'one'} or {tmp_path / 'two'}?")
    assert scan_folder(tmp_path / "three") == ({}, [])


def test_files_that_cannot_be_read_are_named(tmp_path):
    (tmp_path / "stage.yaml").write_bytes(b"a: \xff")

    documents, problems = scan_folder(tmp_path)

    assert documents == {"stage": ""}
    assert problems[0].field == "stage"
    assert "stage.yaml: " in problems[0].message


def test_a_file_of_comments_alone_is_said_to_have_nothing_in_it(tmp_path):
    (tmp_path / "stage.yaml").write_text("# rules:\n")

    [problem] = scan_folder(tmp_path)[1]

    assert "stage.yaml: has nothing in it but comments" in problem.message


def test_a_folder_that_is_none_is_a_error(tmp_path):
    with pytest.raises(ConfigError, match="is no folder"):
        read_folder(tmp_path / "nowhere")


def test_a_file_beyond_any_document_is_not_even_read(tmp_path):
    (tmp_path / "stage.yaml").write_text("#" * 2_000_001)

    assert "larger than" in scan_folder(tmp_path)[1][0].message


def test_what_is_written_is_read_again_and_a_json_file_stays_one(tmp_path):
    (tmp_path / "stage.json").write_text("{}")
    documents = {"stage": '{"nodes":["main"]}', "bizs/acme/shop": '{"queue":"yes"}'}

    files = list(write_folder(tmp_path, documents))

    assert files == [tmp_path / "stage.json", tmp_path / "bizs/acme/shop.yaml"]
    assert read_folder(tmp_path) == documents

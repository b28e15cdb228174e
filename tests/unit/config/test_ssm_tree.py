import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.config import MAX_PARAMETER_BYTES, assemble, encode

paths = st.sampled_from(
    ["stage", "tenants/acme", "bizs/acme/shop", "bizs/acme/parts", "bizs/parts/x"]
)
contents = st.text(max_size=300) | st.text(min_size=1400, max_size=1500).map(lambda text: text * 9)
trees = st.dictionaries(paths, contents.map(lambda text: msgspec.json.encode(text).decode()))


def stored(tree):
    values = {}
    for path, text in tree.items():
        encoded = encode(path, text)
        values |= {path: encoded.head, **encoded.parts}
    return values


@given(tree=trees)
def test_any_tree_comes_back_from_its_parameters(tree):
    values = stored(tree)

    read = assemble(values)

    assert read.documents == tree
    assert read.problems == ()
    assert read.parts == frozenset(values) - frozenset(tree)


@given(tree=trees)
def test_every_parameter_is_one_that_ssm_takes(tree):
    for value in stored(tree).values():
        assert 0 < len(value.encode()) <= MAX_PARAMETER_BYTES
        assert "{{" not in value


def test_size_is_measured_in_bytes():
    fits, exceeds = '"' + "x" * 4094 + '"', '"' + "\N{EURO SIGN}" * 1400 + '"'

    assert encode("stage", fits).parts == {}
    assert len(exceeds) < MAX_PARAMETER_BYTES
    assert encode("stage", exceeds).parts != {}


def test_what_ssm_would_take_for_a_reference_goes_into_parts():
    assert encode("stage", '{"a":"{{ssm:x}}"}').parts != {}


@given(data=st.data())
def test_a_lost_or_damaged_part_is_noticed(data):
    text = '"' + data.draw(st.text(min_size=2000, max_size=2500)) * 4 + '"'
    encoded = encode("bizs/acme/shop", text)
    values = {"bizs/acme/shop": encoded.head, **encoded.parts}
    part = data.draw(st.sampled_from(sorted(encoded.parts)))
    damaged = data.draw(st.sampled_from([None, "", "AAAA", "not base64!", values[part][:-4]]))
    if damaged is None:
        del values[part]
    else:
        values[part] = damaged

    read = assemble(values)

    assert read.documents == {}
    assert [problem.field for problem in read.problems] == ["bizs/acme/shop"]


def test_a_part_that_unpacks_to_gigabytes_is_refused():
    import base64
    import zlib

    bomb = base64.b64encode(zlib.compress(b"0" * 50_000_000, 9)).decode()
    head = msgspec.json.encode({"digest": "d", "parts": 1}).decode()

    read = assemble({"stage": head, "stage/parts/d/0": bomb})

    assert [problem.field for problem in read.problems] == ["stage"]


def test_parts_of_an_older_version_are_left_over():
    encoded = encode("stage", '"' + "\N{SNOWMAN}" * 3000 + '"')
    values = {"stage": encoded.head, **encoded.parts, "stage/parts/0ld/0": "x", "revision": "r"}

    read = assemble(values)

    assert list(read.documents) == ["stage"]
    assert "stage/parts/0ld/0" in read.parts


def test_a_head_that_promises_too_many_parts_is_a_document_of_its_own():
    read = assemble({"stage": '{"digest":"d","parts":1000000000}'})

    assert read.documents == {"stage": '{"digest":"d","parts":1000000000}'}

"""The reader of pickles: plain data and nothing else, whatever the pickle asks for."""

import codecs
import os
import pickle
import pickletools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.scrapy import UnreadablePickleError, loads, unpickling

plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text() | st.binary(), inner, max_size=4)
        | st.frozensets(st.text(), max_size=3)
        | st.sets(st.integers(), max_size=3)
    ),
    max_leaves=20,
)


class Runs:
    """An object of which the pickle makes a call when it is loaded as it is."""

    def __init__(self, *call):
        self._call = call

    def __reduce__(self):
        return self._call[0], self._call[1:]


@given(plain, st.sampled_from([2, 3, 4, 5]))
def test_plain_data_is_read_whatever_the_protocol(value, protocol):
    assert loads(pickle.dumps(value, protocol=protocol)) == value


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("inside", [lambda evil: evil, lambda evil: {"meta": [evil]}], ids="ab")
def test_a_malicious_pickle_does_nothing_and_is_reported(tmp_path, protocol, inside):
    trace = tmp_path / "trace"
    content = pickle.dumps(inside(Runs(os.system, f"touch {trace}")), protocol=protocol)

    with pytest.raises(UnreadablePickleError, match=r"asks for (posix|nt)\.system"):
        loads(content)

    assert not trace.exists()
    pickle.loads(content)
    assert trace.exists()  # it would have


@pytest.mark.parametrize(
    "call",
    [
        (eval, "1"),
        (getattr, {}, "keys"),
        (__import__, "os"),
        (codecs.decode, "x", "rot13"),
        (codecs.encode, "x", "rot13"),
        (Runs, 1),
    ],
    ids=str,
)
def test_no_function_is_found(call):
    with pytest.raises(UnreadablePickleError, match="asks for"):
        loads(pickle.dumps(Runs(*call)))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"junk",
        b"\x80\x04",
        b"\x80\x04K\x01",
        b"cos\nsystem\n(S'true'\ntR.",
        b"(ios\nsystem\nS'true'\no.",
        b"\x80\x02\x82\x01.",  # an extension
        b"Pname\n.",  # a persistent id
        b"\x80\x04r\xff\xff\xff\x7f.",  # would have the reader in C make room for 2**31 values
        b"\x80\x05\x96\xff\xff\xff\xff\xff\xff\xff\x7f.",
        b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\x7f.",
        pickle.dumps(bytearray(b"x"), protocol=5),
        pickle.dumps(Runs(bytes, 10**12)),
        pickle.dumps(1j),
        pickle.dumps(2**5000),
    ],
)
def test_what_is_broken_or_more_than_plain_is_refused(content):
    with pytest.raises(UnreadablePickleError):
        loads(content)


def test_references_that_multiply_are_refused():
    value = ["x"]
    for _ in range(40):
        value = [value, value]

    assert len(pickle.dumps(value)) < 500
    with pytest.raises(UnreadablePickleError, match="more values"):
        loads(pickle.dumps(value))


@pytest.mark.parametrize(
    "content",
    [
        b"\x80\x02}%bK\x01s.",
        b"\x80\x02}(%bK\x01u.",
        b"(%bK\x01d.",
        b"\x80\x04\x8f(%b\x90.",
        b"\x80\x04(%b\x91.",
        b"\x80\x02c__builtin__\nset\n](%be\x85R.",
        b"\x80\x02cbuiltins\nfrozenset\n](%be\x85R.",
    ],
)
def test_a_key_whose_parts_multiply_is_refused_before_it_is_looked_for(content):
    # A tuple's hash is made of those of its parts, each time anew: of this one for years.
    deep = b")" + b"2\x86" * 60

    assert loads(content % b"K\x07") in ({7: 1}, {7})
    assert loads(content % b"K\x07K\x08\x86") in ({(7, 8): 1}, {(7, 8)})
    with pytest.raises(UnreadablePickleError, match="more parts than keys have"):
        loads(content % deep)


def test_a_list_that_holds_itself_is_refused():
    value = []
    value.append(value)

    with pytest.raises(UnreadablePickleError, match="deeper"):
        loads(pickle.dumps(value))


def test_the_function_that_makes_bytes_cannot_be_changed_for_the_next_pickle():
    # BUILD sets attributes of whatever is on the stack: here, of the function.
    change = b"\x80\x02c_codecs\nencode\nN}U\x0c__defaults__U\x05utf-7\x85s\x86b."
    assert [opcode.name for opcode, *_ in pickletools.genops(change)][-2:] == ["BUILD", "STOP"]
    with pytest.raises(UnreadablePickleError, match="holds a function"):
        loads(change)

    assert loads(pickle.dumps(b"\xe9", protocol=2)) == b"\xe9"


def test_what_is_too_large_is_not_begun():
    with pytest.raises(UnreadablePickleError, match="bytes"):
        loads(pickle.dumps(b"x" * unpickling.LARGEST))

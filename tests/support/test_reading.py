"""Bytes from outside: each limit refuses larger input, and a limit ten times as large would not."""

import ast
import json
import os
import re
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from corrnoise.support import reading
from corrnoise.support.reading import archive, array, guarded, json_value, read_bytes


def zipped(members: dict[str, bytes], method: int = ZIP_STORED, comment: bytes = b"") -> bytes:
    file = BytesIO()
    with ZipFile(file, "w", method) as made:
        for name, data in members.items():
            made.writestr(name, data)
        made.comment = comment
    return file.getvalue()


def npy(value: Any, **options: Any) -> bytes:
    file = BytesIO()
    np.lib.format.write_array(file, np.asanyarray(value), **options)
    return file.getvalue()


# -- files -------------------------------------------------------------------------------------------------------------


def test_regular_files_of_the_right_size_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"0123456789")
    assert read_bytes(path) == read_bytes(path, 10) == b"0123456789"
    with pytest.raises(ValueError, match=r"a is damaged or foreign: it has 10 bytes, more than 9"):
        read_bytes(path, 9)
    with pytest.raises(FileNotFoundError):
        read_bytes(tmp_path / "b")
    with pytest.raises(OSError, match=re.escape(str(tmp_path))):
        read_bytes(tmp_path)


def test_a_file_that_grows_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"0123")
    real = os.fstat

    def growing(descriptor: int) -> os.stat_result:
        found = real(descriptor)
        with path.open("ab") as file:
            file.write(b"x" * 100)
        return found

    monkeypatch.setattr(os, "fstat", growing)
    with pytest.raises(ValueError, match="it had 4 bytes and then 5"):
        read_bytes(path)


def test_every_failure_is_one_kind_of_error_with_the_name() -> None:
    for error in (RecursionError("deep"), AttributeError("a"), KeyError("k"), MemoryError(), TypeError("t")):
        with pytest.raises(ValueError, match=f"a is damaged or foreign: {type(error).__name__}: "), guarded("a"):
            raise error
    with pytest.raises(ValueError, match=r"a is damaged or foreign: its reason$"), guarded("a"):
        raise ValueError("its reason")
    for kept in (OSError(28, "full"), KeyboardInterrupt()):
        with pytest.raises(type(kept)), guarded("the file"):
            raise kept


# -- JSON --------------------------------------------------------------------------------------------------------------

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


@given(values, st.booleans())
def test_json_is_read_as_it_was_written(value: Any, escaped: bool) -> None:
    text = json.dumps(value, ensure_ascii=escaped)
    try:
        data = text.encode()
    except UnicodeEncodeError:  # half of a pair
        return
    assert json_value(data) == value


def test_brackets_in_strings_have_no_depth() -> None:
    assert json_value(b'"' + b"[" * 100 + b'\\"' + b"{" * 100 + b'\\\\"') == "[" * 100 + '"' + "{" * 100 + "\\"
    assert json_value(b'["' + b"]" * 100 + b'"]') == ["]" * 100]


def test_limits_of_json(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each refuses what the mutant, ten times as large, lets pass."""
    monkeypatch.setattr(reading, "MOST_COMMAS", 100)
    monkeypatch.setattr(reading, "MAX_JSON_BYTES", 1000)
    for limit, good, bad, reason in (
        ("MAX_JSON_DEPTH", b"[" * 32 + b"]" * 32, b"[" * 33 + b"]" * 33, "nested more than 32 levels"),
        ("MAX_JSON_DEPTH", b'{"a":' * 32 + b"1" + b"}" * 32, b'{"a":' * 33 + b"1" + b"}" * 33, "more than 32 levels"),
        ("MAX_DIGITS", b"1" * 64, b"1" * 65, "a number of more than 64 digits"),
        ("MAX_DIGITS", b"[-0." + b"1" * 64 + b"]", b"[-0." + b"1" * 65 + b"]", "a number of more than 64 digits"),
        ("MAX_JSON_BYTES", b'"' + b"1a" * 499 + b'"', b'"' + b"1a" * 500 + b'"', "has 1002 bytes, more than 1000"),
        ("MOST_COMMAS", b"[" + b"0," * 100 + b"0]", b"[" + b"0," * 101 + b"0]", "more than 100 commas or brackets"),
        ("MOST_COMMAS", b"[]" * 100, b"[]" * 101, "more than 100 commas or brackets"),
        ("MOST_COMMAS", b'""' * 200, b'""' * 203, "more than 100 commas or brackets"),
    ):
        reading.check_json(good)
        with pytest.raises(ValueError, match=reason):
            json_value(bad)
        with monkeypatch.context() as mutant:
            mutant.setattr(reading, limit, 10 * getattr(reading, limit))
            reading.check_json(bad)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b'{"a": 1, "a": 1}', "a name twice"),
        (b'[{"b": {"a": 1, "a": 1}}]', "a name twice"),
        (b"[NaN]", "NaN is not a number"),
        (b"[Infinity]", "Infinity is not a number"),
        (b"[-1e400]", "-1e400 is too large for a float"),
        (b"\xff", "can't decode"),
        (b"[1", "Expecting"),
        (b"", "Expecting"),
    ],
)
def test_what_json_does_not_have(text: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        json_value(text)


# -- archives ----------------------------------------------------------------------------------------------------------


def test_archives_are_read_as_they_were_written() -> None:
    members = {"b.npy": b"1", "a-0_B.json": b"", "c.npy": bytes(1000)}
    assert archive(zipped(members, comment=b"any")) == members
    assert list(archive(zipped(members))) == list(members)
    assert archive(zipped({})) == {}


@pytest.mark.parametrize(
    "name", ["../a.npy", "/a.npy", "a/b.npy", "a\\b.npy", "a", ".npy", "a.txt", "a.npy.npy", "ä.npy"]
)
def test_names_that_are_not_plain(name: str) -> None:
    with pytest.raises(ValueError, match="plain names"):
        archive(zipped({name: b""}))


def encrypted(data: bytes) -> bytes:
    """The archive with the flag of encryption in the directory of its only member."""
    place = data.index(b"PK\1\2") + 8
    return data[:place] + b"\1" + data[place + 1 :]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "not a whole zip archive"),
        (b"PK\5\6", "not a whole zip archive"),
        (b"x" + zipped({"a.npy": b""}), "not a plain zip archive"),
        (zipped({"a.npy": b""}) + b"x", "not a plain zip archive"),
        (zipped({"a.npy": bytes(99)}, ZIP_DEFLATED), "compressed or encrypted"),
        (encrypted(zipped({"a.npy": bytes(99)})), "compressed or encrypted"),
        (zipped({"a.npy": bytes(10**6)}, ZIP_DEFLATED), r"its 1 members declare 1000000 bytes, more than it has"),
    ],
)
def test_archives_that_are_refused(data: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        archive(data)


def test_a_member_that_is_not_what_it_declares() -> None:
    """The size of 15 is cut to 1 in both headers, and raised to 20."""
    data = zipped({"a.npy": bytes(15)})
    for size in (1, 20):
        forged = data.replace((15).to_bytes(4, "little") * 2, size.to_bytes(4, "little") * 2)
        assert forged != data
        with pytest.raises(ValueError, match="the archive is damaged or foreign"), guarded("the archive"):
            archive(forged)


def test_members_that_lie_on_each_other_declare_more_than_there_is() -> None:
    data = zipped({"a.npy": bytes(1000)})
    start = data.index(b"PK\1\2")
    entry = data[start : data.index(b"PK\5\6")]
    many = b"".join(entry.replace(b"a.npy", f"{k}.npy".encode()) for k in range(9))
    end = bytearray(data[data.index(b"PK\5\6") :])
    end[8:12] = b"\x09\0\x09\0"
    end[12:16] = len(many).to_bytes(4, "little")
    with pytest.raises(ValueError, match=r"its 9 members declare 9000 bytes"):
        archive(data[:start] + many + bytes(end))


def test_the_number_of_members_is_known_before_the_archive_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MOST_MEMBERS", 9)
    data = zipped({f"{k}.npy": b"" for k in range(10)})

    def opened(_: Any) -> None:
        raise AssertionError("opened")

    with monkeypatch.context() as closed:
        closed.setattr(reading, "ZipFile", opened)
        with pytest.raises(ValueError, match="it has 10 members, more than 9"):
            archive(data)
    monkeypatch.setattr(reading, "MOST_MEMBERS", 90)  # the mutant
    assert len(archive(data)) == 10


# -- arrays ------------------------------------------------------------------------------------------------------------

DTYPES = [np.dtype(order + name) for name in ("?", "i1", "i4", "u2", "u8", "f2", "f4", "f8") for order in "<>"]
SHAPES = st.one_of(
    arrays.array_shapes(min_dims=0, max_dims=4, min_side=0), arrays.array_shapes(min_dims=5, max_dims=8, max_side=2)
)


@given(st.sampled_from(DTYPES).flatmap(lambda kind: arrays.arrays(kind, SHAPES)))
def test_arrays_are_read_as_they_were_written(value: np.ndarray) -> None:
    for layout in (value, np.asfortranarray(value)):
        found = array(npy(layout))
        assert found.dtype == layout.dtype
        assert found.shape == layout.shape
        assert found.tobytes() == layout.tobytes()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "not an array of NumPy's format 1.0"),
        (b"\x93NUMPY\x01\x00\xff", "not an array of NumPy's format 1.0"),
        (npy([1.0], version=(2, 0)), "not an array of NumPy's format 1.0"),
        (npy([1.0])[:60], "header does not describe a plain array"),
        (npy([None]), "header does not describe a plain array"),
        (npy(["a"]), "header does not describe a plain array"),
        (npy([1j]), "header does not describe a plain array"),
        (npy(np.zeros(1, "M8[s]")), "header does not describe a plain array"),
        (npy(np.zeros(1, [("a", "f8")])), "header does not describe a plain array"),
        (npy(np.zeros((1,) * 9)), "header does not describe a plain array"),
        (npy([1.0, 2.0])[:-1], r"its shape \(2,\) of float64 does not fit to 15 bytes"),
        (npy([1.0]) + b"x", r"its shape \(1,\) of float64 does not fit to 9 bytes"),
        (npy([True])[:-1] + b"\2", "booleans are other bytes"),
    ],
)
def test_what_is_no_plain_array(data: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        array(data)


def test_headers_are_not_evaluated() -> None:
    """The mutant reads the header as a literal of Python, and takes one that no file of numbers has."""
    whole = npy([1.0, 2.0])
    header = whole[10:128].replace(b"(2,), }", b"(2,),\t}")
    assert ast.literal_eval(header.decode()) == {"descr": "<f8", "fortran_order": False, "shape": (2,)}
    with pytest.raises(ValueError, match="header does not describe a plain array"):
        array(whole[:10] + header + whole[128:])


def test_nothing_is_allocated_for_a_shape_that_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    data = npy(np.zeros(10))
    monkeypatch.setattr(np, "frombuffer", None)
    with pytest.raises(ValueError, match="does not fit"):
        array(data.replace(b"(10,), }" + b" " * 10, b"(999999999999,), }"))


# -- arrays within files -----------------------------------------------------------------------------------------------


@given(arrays.arrays(st.sampled_from(reading.DTYPES), arrays.array_shapes(min_dims=0, max_dims=5, min_side=0)))
def test_arrays_within_files_come_back(value: Any) -> None:
    data = value.tobytes()
    found = reading.array_here(BytesIO(data + b"more"), value.dtype.newbyteorder("<").str, [*value.shape], len(data))
    assert found.tobytes() == data
    assert (found.shape, found.dtype) == (value.shape, value.dtype.newbyteorder("="))
    found[...] = 0  # it is no view of what was read


@pytest.mark.parametrize(
    ("data", "dtype", "shape", "sentence"),
    [
        (bytes(16), "<f8", [3], r"its shape \[3\] of <f8 needs 24 bytes, more than it has"),
        (bytes(16), "<f8", [10**15], "more than it has"),
        (bytes(8), "<f8", [2], "it ends within an array"),
        (bytes(16), "|O", [2], "an array of a plain type and shape"),
        (bytes(16), ["<f8"], [2], "an array of a plain type and shape"),
        (bytes(16), "<f8", [-2], "an array of a plain type and shape"),
        (bytes(16), "<f8", [2.0], "an array of a plain type and shape"),
        (bytes(16), "<f8", 2, "an array of a plain type and shape"),
        (b"\2", "|b1", [1], "its booleans are other bytes than 0 and 1"),
    ],
)
def test_arrays_within_files_that_are_not_there(data: bytes, dtype: Any, shape: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        reading.array_here(BytesIO(data), dtype, shape, 16)

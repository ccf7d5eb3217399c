"""Records as plain data and back, and files that give back the saved object or are refused."""

import hashlib
import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZIP_STORED, ZipFile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from corrnoise.support.serialise import by_name, digest, load, packed, plain, rebuilt, save, unpacked
from corrnoise.theory.mechanisms.kinds import KINDS
from corrnoise.theory.mechanisms.product import NuFTRL
from tests.strategies import noises

# -- plain data --------------------------------------------------------------------------------------------------------


@given(noises())
def test_a_record_is_rebuilt_from_its_description(noise):
    described = json.loads(json.dumps(plain(noise)))
    assert rebuilt(described, KINDS) == noise
    assert digest(described) == digest(plain(noise))
    assert unpacked(packed(noise, KINDS), KINDS) == noise


def test_numbers_that_are_not_finite_are_strings_that_float_understands():
    described = plain([math.inf, -math.inf, math.nan, np.float64(0.1), np.int64(3), np.array([1.0, math.inf])])
    assert described == ["inf", "-inf", "nan", 0.1, 3, [1.0, "inf"]]
    assert [float(text) for text in described[:2]] == [math.inf, -math.inf]


def test_the_digest_knows_values_and_not_the_order_of_keys():
    assert digest({"a": 1, "b": [2, 3]}) == digest({"b": [2, 3], "a": 1})
    assert digest({"a": 1}) != digest({"a": 1.5})


def test_the_digest_of_an_array_is_that_of_its_bytes_on_every_platform():
    numbers = np.array([[1.0, -0.0, math.inf], [0.5, math.nan, 2.0**-1074]])
    found = digest({"a": numbers})
    own = {"array": digest(numbers.astype("<f8").tobytes()), "dtype": "<f8", "shape": [2, 3]}
    assert found == digest({"a": own})
    same = [np.asfortranarray(numbers), numbers.astype(">f8"), np.repeat(numbers, 2, axis=0)[::2]]
    assert {digest({"a": each}) for each in same} == {found}
    assert digest(np.array([1, 2], np.int32)) == digest(np.array([1, 2])) != digest(np.array([1.0, 2.0]))
    assert digest(np.float32([0.5])) == digest(np.array([0.5]))
    changed = [numbers.T, numbers.ravel(), np.abs(numbers), np.nextafter(numbers, 1), numbers + 2.0**-52]
    assert len({found, *(digest({"a": each}) for each in changed)}) == 6


@given(noises())
def test_the_digest_of_a_record_knows_its_class_and_arguments(noise):
    same = unpacked(packed(noise, KINDS), KINDS)
    assert digest(noise) == digest(same)
    assert digest(NuFTRL(0.25)) != digest(NuFTRL(np.nextafter(0.25, 1)))
    assert digest(NuFTRL(0.25)) == digest({"kind": "NuFTRL", "nu": 0.25}) != digest({"kind": "Other", "nu": 0.25})
    with pytest.raises(TypeError, match="made of numbers"):
        digest({"x": object()})


def test_classes_have_different_names():
    class NuFTRL(Pair):
        pass

    assert by_name(Pair) == {"Pair": Pair}
    with pytest.raises(ValueError, match="different names"):
        by_name(KINDS["NuFTRL"], NuFTRL)
    with pytest.raises(TypeError, match="thing must be made of"):  # another class of a known name
        packed(NuFTRL(1), KINDS)


def test_what_cannot_be_described_or_rebuilt_is_refused():
    with pytest.raises(TypeError, match="made of numbers"):
        plain({"x": object()})
    with pytest.raises(ValueError, match="kind must be one of"):
        rebuilt({"kind": "Nonsense"}, KINDS)
    with pytest.raises(ValueError, match="kind must be one of"):
        rebuilt({"nu": 0.5}, KINDS)


# -- round trips -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pair:
    """Two things; the first must not be negative."""

    first: Any
    second: Any = None

    def __post_init__(self) -> None:
        if isinstance(self.first, int) and self.first < 0:
            raise ValueError(f"first must be >= 0, got {self.first}")


TABLE = by_name(Pair, NuFTRL)
DTYPES = ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8")


def same(a: Any, b: Any) -> bool:
    """Equal in types and bits."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, Pair):
        return same((a.first, a.second), (b.first, b.second))
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and same([*a.values()], [*b.values()])
    if isinstance(a, float):
        return np.float64(a).tobytes() == np.float64(b).tobytes()
    return bool(a == b)


numbers = st.floats(allow_nan=False)
leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(2**127, 2**128)
    | numbers
    | st.text()
    | st.sampled_from(DTYPES).flatmap(
        lambda name: arrays.arrays(name, arrays.array_shapes(min_dims=0, max_side=3, min_side=0)).map(
            lambda found: np.where(np.isnan(found), np.zeros_like(found), found) if found.dtype.kind == "f" else found
        )
    )
)
things = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text().filter(lambda key: key != "$kind"), inner, max_size=3)
        | st.builds(lambda a, b: Pair(abs(a) if isinstance(a, int) else a, b), inner, inner)
        | noises()
    ),
    max_leaves=6,
)


@pytest.mark.slow
@given(things, st.booleans())
def test_what_comes_back_is_the_same_bit_for_bit(thing, text_only):
    kinds = TABLE | KINDS
    assert same(unpacked(packed(thing, kinds, text_only=text_only), kinds), thing)


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("size", [0, 4096, 4097])
def test_arrays_of_every_type(name, size, tmp_path):
    rng = np.random.default_rng(size)
    array = rng.integers(0, 120, size).astype(name)
    if name[0] == "f" and size:
        array[0] = -np.inf
        array[1] = 1 / 3
        array[2] = -0.0
    path = save({"a": array, "b": array[:2]}, tmp_path / "a.npz")
    found = load(path)
    assert same(found, {"a": array, "b": array[:2]})
    assert found["a"].flags.writeable
    with np.load(path, allow_pickle=False) as entries:  # NumPy reads them
        assert same(entries["array-0"], array)
    assert same(load(save(array, tmp_path / "a.json")), array)


def test_layouts_and_byte_orders_of_other_machines(tmp_path):
    for array in (np.arange(6.0).reshape(2, 3).T, np.arange(5, dtype=">i4"), np.arange(9.0)[::2], np.array(2.5)):
        found = load(save(array, tmp_path / "a.npz"))
        assert (found == array).all()
        assert (found.shape, found.dtype) == (array.shape, array.dtype.newbyteorder("="))
    assert same(unpacked(packed([np.float32(0.1), np.int8(3), np.True_])), [float(np.float32(0.1)), 3, True])


def test_equal_things_have_equal_bytes_and_nothing_is_left_behind(tmp_path):
    thing = {"pair": Pair(np.arange(5000), NuFTRL(0.5))}
    assert packed(thing, TABLE) == packed(thing, TABLE)
    path = save([1], tmp_path / "a.json")
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"a\.json cannot be saved: a number is NaN"):
        save([2, math.nan], path)
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == ["a.json"]


# -- refusals ----------------------------------------------------------------------------------------------------------


def nested(depth: int) -> list[Any]:
    """Lists in each other, so many levels."""
    made: list[Any] = []
    for _ in range(depth - 1):
        made = [made]
    return made


@pytest.mark.parametrize(
    ("thing", "error", "reason"),
    [
        (math.nan, ValueError, "a number is NaN"),
        (np.array([0.0, math.nan]), ValueError, "a number is NaN"),
        (1j, TypeError, "thing must be made of numbers"),
        (np.array([1j]), TypeError, "arrays must be of the types"),
        (nested(9), ValueError, "nested more than 8 levels deep"),
        (object(), TypeError, "thing must be made of numbers"),
        (np.array(["a"]), TypeError, "arrays must be of the types"),
        (np.array([object()]), TypeError, "arrays must be of the types"),
        (np.zeros(3, np.longdouble), TypeError, "arrays must be of the types"),
        ({1: 2}, ValueError, "keys of mappings must be strings"),
        ({"$kind": "NuFTRL"}, ValueError, "keys of mappings must be strings"),
        (KINDS["DPSGD"](), TypeError, "thing must be made of"),
        ([0] * (10**6 + 1), ValueError, "a list has 1000001 items, more than 1000000"),
        ([np.zeros(0)] * 4096, ValueError, "it has 4097 arrays, more than 4096"),
    ],
)
def test_what_is_not_saved(thing, error, reason):
    with pytest.raises(error, match=reason):
        packed(thing, TABLE)


def test_limits_can_be_moved(tmp_path):
    array = np.zeros(1000, np.int8)
    path = save([array], tmp_path / "a.npz")
    with pytest.raises(ValueError, match=r"a\.npz is damaged or foreign: it has \d+ bytes, more than 1000"):
        load(path, most_bytes=1000)
    with pytest.raises(ValueError, match=r"a\.npz cannot be saved: it takes \d+ bytes, more than 1000"):
        save([array], path, most_bytes=1000)
    with pytest.raises(ValueError, match=r"path must end with '\.json' or '\.npz'"):
        save([1], tmp_path / "a.txt")
    with pytest.raises(ValueError, match="kinds must have the names of their classes"):
        packed(1, {"Other": Pair})
    assert same(unpacked(packed(nested(8))), nested(8))


@pytest.mark.parametrize("text_only", [True, False])
def test_every_flipped_byte_and_every_truncation_is_refused(text_only):
    data = packed({"pair": Pair(3, NuFTRL(0.25)), "a": np.array([1.5, np.inf])}, TABLE, text_only=text_only)
    for k in range(len(data)):
        for other in {data[k] ^ 1, data[k] ^ 32, data[k] ^ 7, ord(" "), ord("\r")} - {data[k]}:
            with pytest.raises(ValueError, match=r"state is damaged or foreign: its digest is wrong"):
                unpacked(data[:k] + bytes([other]) + data[k + 1 :], TABLE, name="state")
        with pytest.raises(ValueError, match="is damaged or foreign"):
            unpacked(data[:k], TABLE)
    with pytest.raises(ValueError, match="is damaged or foreign"):
        unpacked(data + b"\n", TABLE)


def test_every_flipped_byte_of_a_member_is_refused():
    data = packed(np.arange(4097, dtype=np.uint8))
    for k in range(0, len(data), 3):
        with pytest.raises(ValueError, match="digest is wrong"):
            unpacked(data[:k] + bytes([data[k] ^ 1]) + data[k + 1 :])


def text(thing: str, **changed: str) -> bytes:
    """A file with this description of a thing, and with the right digest."""
    parts = {"format": '"corrnoise 1"', "version": '"0"', "thing": thing} | changed
    head = ("{" + "".join(f'\n "{name}": {value},' for name, value in parts.items())).encode()
    return head + f'\n "digest": "{hashlib.sha256(head).hexdigest()}"\n}}\n'.encode()


def archive(members: list[tuple[str, bytes]], method: int = ZIP_STORED) -> bytes:
    """An archive with these members, and with the right digest."""
    file = BytesIO()
    with ZipFile(file, "w", method) as made:
        for name, data in members:
            made.writestr(name, data)
        made.comment = b"0" * 64
    data = file.getvalue()[:-64]
    return data + hashlib.sha256(data).hexdigest().encode()


def thing_json(thing: str) -> tuple[str, bytes]:
    return "thing.json", f'{{"format": "corrnoise 1", "version": "0", "thing": {thing}}}'.encode()


def npy(array: np.ndarray, **options: Any) -> bytes:
    file = BytesIO()
    np.lib.format.write_array(file, array, **options)
    return file.getvalue()


def test_forged_files_are_only_refused_for_their_reason():
    assert unpacked(text("[1, 2.5]")) == [1, 2.5]
    assert unpacked(archive([thing_json("[1, 2.5]")])) == [1, 2.5]


LONG = '{"$kind": "array", "member": "array-0.npy"}'


@pytest.mark.parametrize(
    ("thing", "reason"),
    [
        ('{"$kind": "Nonsense"}', "kind must be one of Pair, NuFTRL, got 'Nonsense'"),
        ('{"$kind": ["Pair"]}', "kind must be one of"),
        ('{"$kind": "NuFTRL", "mu": 1}', "TypeError: .*unexpected keyword argument 'mu'"),
        ('{"$kind": "NuFTRL", "nu": -1.0}', r"nu must lie in"),
        ('{"$kind": "Pair", "first": -1}', "first must be >= 0, got -1"),
        ("[" * 100 + "]" * 100, "nested more than 32 levels deep"),
        ("[" * 20 + "]" * 20, "nested more than 8 levels deep"),
        ("[" * 200_000 + "]" * 200_000, "nested more than 32 levels deep"),
        ('{"a": 1, "b": 2, "a": 1}', "its JSON has a name twice"),
        ("NaN", "NaN is not a number of JSON"),
        ("-Infinity", "-Infinity is not a number of JSON"),
        ("1e999", "1e999 is too large for a float"),
        ("1" * 5000, "a number of more than 64 digits"),
        ('{"$kind": "float", "value": "nan"}', "must be 'inf' or '-inf'"),
        ('{"$kind": "float", "parts": [0.0, 1.0]}', "unexpected keyword argument 'parts'"),
        ('{"$kind": "complex", "parts": [1, 2]}', "kind must be one of"),
        ("0," * 10**6 + "0", "more than 1000000 commas"),
        ('{"$kind": "tuple", "items": "ab"}', "items must be a list"),
        ('{"$kind": "array", "dtype": "|O", "shape": [1], "values": [1]}', r"dtype must be one of"),
        ('{"$kind": "array", "dtype": "<f8", "shape": [2], "values": [1.0]}', "must be a list of 2 numbers"),
        (
            '{"$kind": "array", "dtype": "<f8", "shape": [-1], "values": [1.0]}',
            "a list of at most four integers >= 0",
        ),
        (
            '{"$kind": "array", "dtype": "<f8", "shape": [1000000000000], "values": []}',
            "a list of 1000000000000 numbers",
        ),
        ('{"$kind": "array", "dtype": "<f8", "shape": [1], "values": ["nan"]}', "a number is NaN"),
        ('{"$kind": "array", "dtype": "<i8", "shape": [1], "values": [1.5]}', "must be numbers of type int64"),
        ('{"$kind": "array", "dtype": "|u1", "shape": [1], "values": [256]}', "OverflowError"),
        ('{"$kind": "array", "dtype": "<f4", "shape": [1], "values": [1e300]}', "must be numbers of type float32"),
        ('{"$kind": "array", "dtype": "<f8", "shape": [1], "values": [1.0], "x": 1}', "unexpected keyword argument"),
    ],
)
def test_forged_texts_are_refused(thing, reason):
    archives = [] if "values" in thing else [archive([thing_json(thing)])]
    for data in (text(thing), *archives):
        with pytest.raises(ValueError, match=f"forged is damaged or foreign: .*({reason})"):
            unpacked(data, TABLE, name="forged")


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"format": '"corrnoise 2"'}, "its format must be 'corrnoise 1', got 'corrnoise 2'"),
        ({"other": "1"}, "it has no format, version and thing"),
    ],
)
def test_other_formats_are_refused(changed, reason):
    with pytest.raises(ValueError, match=reason):
        unpacked(text("1", **changed))
    with pytest.raises(ValueError, match="its digest is wrong"):
        unpacked(json.dumps({"format": "corrnoise 1", "version": "0", "thing": 1}).encode())


PAIR = np.array([1.0, 2.0])


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ([thing_json(LONG)], "no other one names, got 'array-0.npy'"),
        ([thing_json(f"[{LONG}, {LONG}]"), ("array-0.npy", npy(PAIR))], "no other one names"),
        ([thing_json("1"), ("array-0.npy", npy(PAIR))], "members that nothing names: array-0.npy"),
        ([thing_json("1"), thing_json("1")], "plain names, each another one, got 'thing.json'"),
        ([thing_json("1"), ("../a.npy", npy(PAIR))], "plain names, each another one, got '../a.npy'"),
        ([("array-0.npy", npy(PAIR))], "it has no format, version and thing"),
        ([thing_json(LONG), ("array-0.npy", npy(PAIR.astype(object)))], "its header does not describe a plain array"),
        ([thing_json(LONG), ("array-0.npy", npy(PAIR.astype(complex)))], "its header does not describe a plain array"),
        ([thing_json(LONG), ("array-0.npy", npy(PAIR)[:-1])], r"shape \(2,\) of float64 does not fit to 15 bytes"),
        ([thing_json('{"$kind": "array", "dtype": "<f8"}')], "no other one names, got None"),
        ([thing_json(LONG), ("array-0.npy", npy(PAIR, version=(2, 0)))], "NumPy's format 1.0"),
        ([thing_json(LONG), ("array-0.npy", b"nothing")], "NumPy's format 1.0"),
        ([thing_json(LONG), ("array-0.npy", npy(np.array([1.0, math.nan])))], "a number is NaN"),
    ],
)
def test_forged_archives_are_refused(members, reason):
    if len({name for name, _ in members}) < len(members):
        with pytest.warns(UserWarning, match="Duplicate name"):
            data = archive(members)
    else:
        data = archive(members)
    with pytest.raises(ValueError, match=reason):
        unpacked(data)


def test_pickles_are_not_opened(tmp_path):
    np.savez(tmp_path / "a.npz", thing=np.array([object()]))
    with pytest.raises(ValueError, match=r"a\.npz is damaged or foreign: its digest is wrong"):
        load(tmp_path / "a.npz")


@pytest.mark.parametrize("change", [lambda path: path.write_bytes(b""), lambda path: path.unlink()])
def test_a_file_that_is_empty_or_missing(change: Callable[[Path], object], tmp_path):
    path = save([1], tmp_path / "a.json")
    change(path)
    with pytest.raises((ValueError, FileNotFoundError), match=re.escape(str(path))):
        load(path)

"""Files of graphs: what save writes and ft.load_graph runs, and what it refuses."""

from __future__ import annotations

import copy
import json
import os
import random
import struct
import subprocess
import sys
import zlib

import numpy as np
import pytest

import fl_tensor as ft

BACKENDS = [name for name in ft.available_backends() if name in ("numpy", "jit")]
START = struct.Struct("<8sQI4x")


@pytest.fixture(autouse=True, params=BACKENDS)
def backend(request):
    with ft.use(request.param):
        yield request.param


def array(*shape, seed=0):
    return ft.Generator(seed).normal(shape)


def bits(x):
    return x.numpy().tobytes()


class Layer:
    """A function with two arrays and a random stream around it."""

    def __init__(self, rows=4, columns=3):
        self.weight, self.offset = array(rows, columns, seed=1), array(columns, seed=2)
        self.generator = ft.Generator(5)

    def __call__(self, x):
        noise = self.generator.uniform((1, 3))
        return ft.tanh(x @ self.weight + self.offset) * noise


@pytest.fixture
def saved(tmp_path):
    layer = Layer()
    compiled = ft.compile(layer, strict=True)
    for _ in range(3):
        compiled(array(2, 4))
    path = tmp_path / "layer.flgraph"
    compiled.save(path, array(2, 4))
    return path, compiled


# ---- what a file holds ---------------------------------------------------------------------------


def test_a_loaded_graph_goes_on_where_the_function_was(saved):
    path, compiled = saved
    loaded = ft.load_graph(path)
    for seed in range(4):
        x = array(2, 4, seed=seed)
        wanted = compiled(x)
        assert bits(loaded(x)) == bits(wanted)
        assert bits(ft.load_graph(path)(x)) != bits(wanted) or seed == 0  # the file stays as it is


def test_state_and_numbers_have_names(saved):
    loaded = ft.load_graph(saved[0])
    assert {name: tuple(x.shape) for name, x in loaded.state.items()} == {
        "weight": (4, 3), "offset": (3,),
    }  # fmt: skip
    assert loaded.numbers["generator0.seed"] == 5
    before = loaded.numbers["generator0.offset"]
    first = loaded(array(2, 4))
    assert loaded.numbers["generator0.offset"] == before + 3
    loaded.numbers["generator0.offset"] = before
    assert bits(loaded(array(2, 4))) == bits(first)
    with pytest.raises(ft.ArgumentError, match="no number 'lr'; there are: generator0.seed"):
        loaded.numbers["lr"] = 1.0
    with pytest.raises(TypeError):
        loaded.state["weight"] = array(4, 3)


def test_shapes_and_sizes_are_shown(saved):
    loaded = ft.load_graph(saved[0], "numpy")
    assert "Layer, 1 arrays in" in repr(loaded) and "on numpy" in repr(loaded)
    lines = loaded.explain().splitlines()
    assert "argument 0: float32(2, 4)" in lines and "result 0: float32(2, 3)" in lines
    assert "state weight: float32(4, 3), 48 bytes, read" in lines
    assert any(line.endswith("then (n1 + 3)") for line in lines)
    assert len(loaded.graph.inputs) == 3


def test_numpy_arrays_and_other_backends(saved):
    path, compiled = saved
    x = array(2, 4)
    wanted = compiled(x)
    assert bits(ft.load_graph(path)(x.numpy())) == bits(wanted)
    with ft.use("numpy"):
        other = ft.load_graph(path)
    assert ft.allclose(other(x.numpy()), wanted.to("numpy"), rtol=1e-5, atol=1e-6)
    with pytest.raises(ft.FlError, match="nowhere"):
        ft.load_graph(path, "nowhere")


def test_trees_floats_and_plain_arguments(tmp_path):
    def f(pair, scale, *, options):
        rate = options["rate"] * 2
        return {"y": pair[0] * scale + pair[1], "rest": [rate, None, "text", pair[0]]}

    compiled = ft.compile(f, strict=True)
    x, y = array(3), array(3, seed=1)
    path = tmp_path / "f.flgraph"
    compiled.save(path, (x, y), 2.0, options={"rate": 0.5, "mode": "fast"})
    loaded = ft.load_graph(path)
    for scale in (2.0, 3):
        got = loaded((x, y), scale, options={"rate": 0.25, "mode": "fast"})
        assert list(got) == ["y", "rest"] and got["rest"][:3] == [0.5, None, "text"]
        assert ft.allclose(got["y"], x * scale + y)
    refused = {
        "argument 0: a tuple of 1; the graph was saved for a tuple of 2": ((x,), 2.0, "fast"),
        "argument 1: 'no'; the graph was saved for a float": ((x, y), "no", "fast"),
        r"options\['mode'\]: 'slow'; the graph was saved for 'fast'": ((x, y), 2.0, "slow"),
        r"argument 0\[1\] is float32\(4,\), the graph was saved for float32\(3,\)": (
            (x, array(4)), 2.0, "fast",
        ),
    }  # fmt: skip
    for message, (pair, scale, mode) in refused.items():
        with pytest.raises(ft.ArgumentError, match=message):
            loaded(pair, scale, options={"rate": 0.5, "mode": mode})
    with pytest.raises(ft.ArgumentError, match="arguments given: 0"):
        loaded()


def test_a_pair_and_a_number_are_not_two_arrays(tmp_path):
    compiled = ft.compile(lambda pair, n: pair[0] * n + pair[1], strict=True)
    x, y = array(3), array(3, seed=1)
    compiled.save(tmp_path / "f.flgraph", (x, y), 3)
    loaded = ft.load_graph(tmp_path / "f.flgraph")
    assert ft.allclose(loaded((x, y), 3), x * 3 + y)
    for args in ((x, y), ((x, y), 4), ((x, y), x)):
        with pytest.raises(ft.ArgumentError, match="the graph was saved for"):
            loaded(*args)


def test_guards_are_checked_at_each_call(tmp_path):
    compiled = ft.compile(lambda x, p: x * p if p > 0.5 else x - p, strict=True)
    compiled.save(tmp_path / "f.flgraph", array(3), 0.75)
    loaded = ft.load_graph(tmp_path / "f.flgraph")
    assert ft.allclose(loaded(array(3), 0.625), array(3) * 0.625)
    with pytest.raises(ft.ArgumentError, match=r"\(n0 > 0.5\) is False, and was True"):
        loaded(array(3), 0.25)


def test_without_arguments_the_one_graph_is_saved(tmp_path):
    compiled = ft.compile(lambda x: x + 1)
    path = tmp_path / "f.flgraph"
    with pytest.raises(ft.ArgumentError, match=r"no graphs yet: give the arguments"):
        compiled.save(path)
    for _ in range(2):
        compiled(array(3))
    compiled.save(path)
    assert bits(ft.load_graph(path)(array(3))) == bits(compiled(array(3)))
    for _ in range(2):
        compiled(array(4))
    with pytest.raises(ft.ArgumentError, match="it has 2 graphs"):
        compiled.save(path)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: x,
        lambda x, y: (y, y, x),
        lambda x, y: (),
        lambda x, y: ft.zeros((2, 2)),
        lambda x, y: ft.asarray([1.0, 2.0, 4.0]) + x,
        lambda x, y: ft.topk(x, 2),
        lambda x, y: ft.concatenate([x, y, x]),
        lambda x, y: ft.softmax(x.reshape((1, 3)), axis=-1) > 0.25,
        lambda x, y: ft.asarray(list(range(2000))) * 2,  # a constant that stays in the file
    ],
)
def test_results_of_every_kind(function, tmp_path):
    compiled = ft.compile(function, strict=True)
    x, y = array(3), array(3, seed=1)
    compiled.save(tmp_path / "f.flgraph", x, y)
    loaded = ft.load_graph(tmp_path / "f.flgraph")
    compiled(x, y)
    for _ in range(2):
        got, wanted = loaded(x, y), compiled(x, y)
        pairs = zip(got, wanted, strict=True) if isinstance(wanted, tuple) else [(got, wanted)]
        assert all(bits(a) == bits(b) for a, b in pairs)


@pytest.mark.parametrize("dtype", ["bool", "int8", "float16", "bfloat16", "complex64", "float64"])
def test_state_of_every_dtype_and_order_of_axes(dtype, tmp_path):
    if np.dtype("float32") and dtype == "bfloat16" and "bfloat16" not in map(
        str, ft.current_backend().dtypes
    ):  # fmt: skip
        pytest.skip("the backend has no bfloat16")
    held = {"t": ft.permute(array(2, 3, 4).astype(dtype), (2, 0, 1)), "none": ft.zeros((0, 3))}
    compiled = ft.compile(lambda: (held["t"], held["none"], ft.permute(held["t"], (1, 2, 0))))
    compiled._function()
    for _ in range(2):
        compiled()
    compiled.save(tmp_path / "f.flgraph")
    for name in BACKENDS:
        got = ft.load_graph(tmp_path / "f.flgraph", name)()
        assert [bits(x) for x in got] == [bits(x) for x in compiled()]


def test_tensors_are_aligned_and_mapped(saved, tmp_path):
    held = ft.ones((1 << 18,))
    compiled = ft.compile(lambda x: x + held, strict=True)
    compiled.save(tmp_path / "f.flgraph", array(1))
    loaded = ft.load_graph(tmp_path / "f.flgraph", "numpy")
    address = loaded.state["held"].adapter.__array__().ctypes.data
    assert address % 64 == 0
    assert not loaded.state["held"].adapter.__array__().flags.writeable
    with open("/proc/self/maps") as maps:
        (line,) = [x for x in maps if x.strip().endswith("f.flgraph")]
    first, last = (int(part, 16) for part in line.split()[0].split("-"))
    assert first <= address < last


def test_layers_see_every_operation(saved):
    loaded = ft.load_graph(saved[0])
    want = bits(ft.load_graph(saved[0])(array(2, 4)))
    with ft.count() as counted:
        got = loaded(array(2, 4))
    assert counted["matmul"] == 1 and ft.allclose(got, ft.frombytes(want, (2, 3), "float32"))


def test_a_file_is_replaced_as_a_whole(saved, tmp_path):
    path, _ = saved
    loaded = ft.load_graph(path, "numpy")
    before = bits(loaded.state["weight"])
    ft.compile(lambda x: x + 1).save(path, array(3))
    assert bits(loaded.state["weight"]) == before
    assert not loaded.state.keys() & ft.load_graph(path).state.keys()
    with pytest.raises(ft.ArgumentError, match="which JSON cannot hold"):
        ft.compile(lambda x, y: x).save(path, array(3), object())
    assert ft.load_graph(path)(array(3)) is not None
    assert sorted(os.listdir(tmp_path)) == ["layer.flgraph"]
    with pytest.raises(ft.FileError, match="cannot be read"):
        ft.load_graph(tmp_path / "missing")
    with pytest.raises(ft.FileError, match="a folder, not a regular file"):
        ft.load_graph(tmp_path)


def test_the_process_that_loads_needs_this_package_alone(saved, backend):
    path, compiled = saved
    x = array(2, 4)
    given = bytes(x.tobytes()).hex()
    program = f"""
import sys
for name in ("fl_nn", "fl_autograd", "fl_data", "fl_dist"):
    sys.modules[name] = None
import fl_tensor as ft
loaded = ft.load_graph({str(path)!r}, {backend!r})
x = ft.frombytes(bytes.fromhex({given!r}), (2, 4), "float32", backend={backend!r})
print(*[bytes(loaded(x).tobytes()).hex() for _ in range(3)])
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split() == [bits(compiled(x)).hex() for _ in range(3)]


# ---- what is refused -----------------------------------------------------------------------------


def taken_apart(path):
    data = path.read_bytes()
    _, length, _ = START.unpack_from(data)
    first = -(-(START.size + length) // 64) * 64
    return json.loads(data[START.size : START.size + length]), data[first:]


def put_together(path, head, data):
    text = head if isinstance(head, bytes) else json.dumps(head).encode()
    start = START.pack(b"flgraph1", len(text), zlib.crc32(text)) + text
    path.write_bytes(start + bytes(-len(start) % 64) + data)


def op(head, name):
    return next(node for node in head["graph"]["nodes"] if node["op"] == name)


def deep(levels):
    made = "array"
    for _ in range(levels):
        made = {"tuple": [made]}
    return made


def edit(path, value):
    *steps, last = path

    def change(head):
        for step in steps:
            head = head[step]
        head[last] = value(head[last]) if callable(value) else value

    return change


def on(name, key, value):
    def change(head):
        op(head, name)["parameters"][key] = value

    return change


BAD = {
    "version": edit(["version"], 2),
    "byte order": edit(["byteorder"], "big"),
    "cut": edit(["size"], lambda size: size + 1),
    "no graph": lambda head: head.pop("graph"),
    "format of the graph": edit(["graph", "format"], "other"),
    "huge shape": edit(["tensors", 0, "shape"], [1 << 40, 1 << 40]),
    "negative shape": edit(["tensors", 0, "shape"], [-4, -3]),
    "other shape": edit(["tensors", 0, "shape"], [3, 4]),
    "dtype": edit(["tensors", 0, "dtype"], "float31"),
    "other dtype": edit(["tensors", 0, "dtype"], "int32"),
    "order": edit(["tensors", 0, "order"], [0, 0]),
    "offset beyond the data": edit(["tensors", 0, "offset"], 1 << 30),
    "negative offset": edit(["tensors", 0, "offset"], -64),
    "unaligned offset": edit(["tensors", 0, "offset"], 8),
    "offset that is no int": edit(["tensors", 0, "offset"], 0.0),
    "overlap": edit(["tensors", 1, "offset"], 0),
    "tensor twice": lambda head: head["tensors"].append(head["tensors"][0]),
    "input twice": edit(["inputs"], lambda names: [names[0], names[0]]),
    "unknown input": edit(["inputs", 0], "nothing"),
    "inputs missing": edit(["inputs"], []),
    "outputs missing": edit(["result"], {"tuple": []}),
    "written that is no output": edit(["written"], ["weight"]),
    "unknown operation": lambda head: op(head, "tanh").update(op="launch"),
    "operation of data": lambda head: op(head, "tanh").update(op="nonzero"),
    "operand of another shape": lambda head: op(head, "tanh").update(op="matmul"),
    "wrong result": lambda head: head["graph"]["nodes"][-1]["outputs"][0].update(shape=[3, 2]),
    "wrong dtype": lambda head: head["graph"]["nodes"][-1]["outputs"][0].update(dtype="int8"),
    "cycle": lambda head: op(head, "tanh").update(
        inputs=[head["graph"]["nodes"][-1]["outputs"][0]["id"]]
    ),
    "axis beyond": on("matmul", "axis", 1),
    "shape parameter": on("random_bits", "shape", [1 << 60]),
    "negative shape parameter": on("random_bits", "shape", [-3]),
    "shape that changes": on("random_bits", "shape", [{"expression": "n0"}]),
    "text for a shape": on("random_bits", "shape", "3"),
    "deep arguments": edit(["arguments"], {"tuple": [deep(90), {"dict": []}]}),
    "no arguments": edit(["arguments"], "array"),
    "float in the result": edit(["result"], "float"),
    "symbol": edit(["numbers", 0, 0], "os"),
    "symbol twice": edit(["numbers", 0, 0], "n1"),
    "number that is none": edit(["numbers", 0, 2], "5"),
    "large number": edit(["numbers", 0, 2], 1 << 70),
    "update of nothing": edit(["updates", 0, 0], "n77"),
    "call": edit(["updates", 0, 1], "exit(1)"),
    "attribute": edit(["updates", 0, 1], "n0.__class__"),
    "subscript": edit(["updates", 0, 1], "n0[0]"),
    "text": edit(["updates", 0, 1], "'a' * n1"),
    "comment": edit(["updates", 0, 1], "n0 # "),
    "lambda": edit(["updates", 0, 1], "(lambda: n1)()"),
    "unknown name": edit(["updates", 0, 1], "n55 + 1"),
    "tower of powers": edit(["updates", 0, 1], "n1 ** n1 ** n1"),
    "power of a power": edit(["updates", 0, 1], "((n1 ** 8) ** 8) ** 8"),
    "large exponent": edit(["updates", 0, 1], "n1 ** 100000000"),
    "long expression": edit(["updates", 0, 1], "n1" + " + n1" * 2000),
    "deep expression": edit(["updates", 0, 1], "(" * 300 + "n1" + ")" * 300),
    "nested signs": edit(["updates", 0, 1], "-" * 300 + "n1"),
    "guard with code": edit(["guards"], [["print(1)", None]]),
    "expression with code": on("random_bits", "seed", {"expression": "__import__('os')"}),
    "expression with a line": on("random_bits", "seed", {"expression": "n0\nexit()"}),
    "encoded parameter": on("random_bits", "seed", {"made": "up"}),
    "name": edit(["name"], 5),
    "graph of nothing": edit(["graph"], None),
    "nothing at all": lambda head: head.clear(),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_heads_are_refused_with_their_place(saved, name):
    path, _ = saved
    head, data = taken_apart(path)
    put_together(path, head, data)
    ft.load_graph(path)  # sound before the change
    BAD[name](head)
    put_together(path, head, data)
    with pytest.raises(ft.FileError) as caught:
        ft.load_graph(path)
    assert str(path) in str(caught.value) and "is no sound graph file" in str(caught.value)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"flgraph1",
        b"flgraph2" + bytes(16),
        START.pack(b"flgraph1", 1 << 62, 0),
        START.pack(b"flgraph1", 100, 0) + b"{",
        START.pack(b"flgraph1", 4, 0) + b"null",
        START.pack(b"flgraph1", 4, zlib.crc32(b"null")) + b"null" + bytes(64),
        START.pack(b"flgraph1", 4, zlib.crc32(b"nul{")) + b"nul{" + bytes(64),
        START.pack(b"flgraph1", 3, zlib.crc32(b"\xff\xfe{")) + b"\xff\xfe{" + bytes(64),
    ],
)
def test_bytes_that_are_no_graph_are_refused(data, tmp_path):
    path = tmp_path / "x.flgraph"
    path.write_bytes(data)
    with pytest.raises(ft.FileError, match="is no sound graph file"):
        ft.load_graph(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"[" * 100_000, "is no JSON"),
        (b'{"a":' * 3000, "is no JSON"),
        (b"9" * 5000, "a number of 5000 digits"),
        (b"[" + b"1," * 3_000_000 + b"1]", "3000001 brackets, colons and commas"),
        (b'{"a": 1, "a": 2}', "a name comes twice"),
        (b'{"a": NaN}', "a number NaN"),
    ],
)
def test_heads_that_would_fill_memory_are_refused(text, message, tmp_path):
    put_together(tmp_path / "x.flgraph", text, b"")
    with pytest.raises(ft.FileError, match=f"is no sound graph file: .*{message}"):
        ft.load_graph(tmp_path / "x.flgraph")


def test_a_damaged_head_is_known_by_its_checksum(saved):
    path, _ = saved
    data = path.read_bytes()
    assert b"generator0.seed" in data
    path.write_bytes(data.replace(b"generator0.seed", b"generator1.seed"))
    with pytest.raises(ft.FileError, match="differs from its checksum"):
        ft.load_graph(path)


def both(node, shape):
    node["parameters"]["shape"] = node["outputs"][0]["shape"] = shape


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (on("sum", "axis", [0, 0]), "names one axis twice"),
        (on("sum", "axis", [0, 3]), "is not in 0 .. 2"),
        (on("sum", "keepdims", 5), "expected True or False"),
        (on("permute", "axes", [1, 1, 0]), "names one axis twice"),
        (on("permute", "axes", [1, 0]), "of an array of 3 axes"),
        (lambda head: both(op(head, "full"), [1 << 14, 1 << 14]), "bytes of numbers alone"),
        (lambda head: both(op(head, "full"), [1 << 20, 1 << 20]), "more than 68719476736 bytes"),
        (lambda head: both(op(head, "full"), [1] * 70), "has 70 axes"),
        (on("full", "value", {"complex": "1j"}), "does not fit float32"),
        (on("full", "value", "one"), "value 'one': expected"),
        (on("full", "dtype", {"dtype": "float64"}), "gives float64"),
        (on("random_bits", "seed", -1), "64 bits"),
        (on("slice", "starts", [7, 0, 0]), "not within a size of"),
    ],
)
def test_operations_are_checked_by_their_contract(change, message, tmp_path):
    def f(x):
        y = ft.sum(x, axis=(0, 1), keepdims=True) + ft.full((4, 4, 2), 3.0)[:, 1:3]
        return ft.permute(y, (1, 0, 2)), generator.uniform((2,))

    generator, path = ft.Generator(3), tmp_path / "f.flgraph"
    ft.compile(f, strict=True).save(path, array(2, 3, 2))
    head, data = taken_apart(path)
    change(head)
    put_together(path, head, data)
    with pytest.raises(ft.FileError, match=message):
        ft.load_graph(path)


def test_a_bool_of_another_byte_is_refused(tmp_path):
    held = ft.asarray([True, False])
    path = tmp_path / "f.flgraph"
    ft.compile(lambda x: x & held).save(path, held)
    head, data = taken_apart(path)
    put_together(path, head, b"\x02" + data[1:])
    with pytest.raises(ft.FileError, match="tensor 'held', it is bool and has bytes other than"):
        ft.load_graph(path)


def _places(tree, found, path=()):
    pairs = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for key, value in pairs:
        found.append((*path, key))
        if isinstance(value, (dict, list)):
            _places(value, found, (*path, key))
    return found


VALUES = [
    None, True, -1, 0, 1, 2, 1 << 31, 1 << 63, 0.5, -1e300, "", "n0", "float32", "cpu", [], {},
    [0], [1, 2], "array", {"expression": "n0"}, {"dtype": "int8"}, {"float": "nan"},
]  # fmt: skip


def damaged(rng, head, data):
    """A file with one change, or a few."""
    kind = rng.randrange(5)
    text = json.dumps(head).encode()
    if kind == 0:
        whole = START.pack(b"flgraph1", len(text), zlib.crc32(text)) + text
        whole += bytes(-len(whole) % 64) + data
        return whole[: rng.randrange(len(whole))]
    if kind == 1:  # of the head, with the right checksum
        flipped = bytearray(text)
        for _ in range(rng.randrange(1, 4)):
            flipped[rng.randrange(len(flipped))] ^= 1 << rng.randrange(8)
        text = bytes(flipped)
    elif kind == 2:  # of a weight
        flipped = bytearray(data)
        flipped[rng.randrange(40)] ^= 1 << rng.randrange(8)
        data = bytes(flipped)
    elif kind == 3:
        whole = bytearray(START.pack(b"flgraph1", len(text), zlib.crc32(text)) + text)
        whole[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
        return bytes(whole) + bytes(-len(whole) % 64) + data
    else:
        changed = copy.deepcopy(head)
        places = _places(changed, [])
        for _ in range(rng.randrange(1, 3)):
            *steps, last = rng.choice(places)
            at = changed
            try:
                for step in steps:
                    at = at[step]
                at[last] = copy.deepcopy(rng.choice(VALUES))
            except (KeyError, IndexError, TypeError):  # the first change took it away
                continue
        text = json.dumps(changed).encode()
    whole = START.pack(b"flgraph1", len(text), zlib.crc32(text)) + text
    return whole + bytes(-len(whole) % 64) + data


def test_damaged_files_are_refused_or_run(saved):
    path, _ = saved
    head, data = taken_apart(path)
    rng = random.Random(int(os.environ.get("FL_FUZZ_SEED", "0")))
    outcomes = {"refused": 0, "ran": 0}
    for _ in range(int(os.environ.get("FL_FUZZ_CASES", "150"))):
        path.write_bytes(damaged(rng, head, data))
        try:
            loaded = ft.load_graph(path)
        except ft.FileError:
            outcomes["refused"] += 1
            continue
        except ft.FlError as error:  # a dtype that the backend has not
            assert "dtype" in str(error) or "backend" in str(error)
            continue
        try:
            ft.eval(loaded(array(2, 4)))
        except ft.FlError:  # other shapes than before
            continue
        outcomes["ran"] += 1
    assert outcomes["refused"] > 20 and outcomes["ran"] > 10

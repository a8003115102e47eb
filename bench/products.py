#!/usr/bin/env python3
"""Races matrix products in f32 against NumPy's OpenBLAS, or of bytes against OpenVINO.

    python3 bench/race.py --setup DIR                    make DIR/venv with the peers (once)
    DIR/venv/bin/python bench/products.py [MxKxN...]     race; the table is kept in bench/results/
    DIR/venv/bin/python bench/products.py --bytes [MxKxN...]

Without shapes it takes squares, the shapes inside BERT, ViT and GPT-2, skinny and odd ones. Each is
raced twice: with both operands inputs, and with a constant second operand, which we may pack
beforehand. Every figure comes from a process of its own, ours and the peer's in turn; printed are
medians over the rounds, and of the ratios within them. Of bytes the model is a product of an
unsigned input and signed constants, both behind `DequantizeLinear`, with a scale for each column.
"""

import json
import os
import pathlib
import statistics
import sys
import tempfile

import common
import race
from common import Failed

SQUARES = [(n, n, n) for n in (256, 512, 768, 1024, 1536, 2048)]
INSIDE_MODELS = [
    *[(128, k, n) for k, n in [(768, 768), (768, 3072), (3072, 768)]],
    *[(197, k, n) for k, n in [(768, 768), (768, 2304), (768, 3072), (3072, 768)]],
    *[(1024, k, n) for k, n in [(768, 2304), (768, 768), (768, 3072), (3072, 768)]],
]
SKINNY = [(m, k, n) for m in (1, 4, 16) for k, n in [(768, 768), (1024, 4096), (4096, 1024)]]
ODD = [(n, n, n) for n in (127, 255, 1000)]


def main():
    options = common.parser(__doc__)
    options.add_argument("--threads", type=int, default=1)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--seconds", type=float, default=0.5, help="of measuring in each process")
    options.add_argument("--bytes", action="store_true", help="u8 by constant s8 instead of f32")
    options.add_argument("--worker", metavar="MxKxN", help="used internally")
    given = options.parse_args()
    given.target, given.precision = None, "f32"
    if given.worker:
        return worker(shape_of(given.worker), given.seconds)
    shapes = [shape_of(str(text)) for text in given.models]
    shapes = shapes or [*SQUARES, *INSIDE_MODELS, *SKINNY, *ODD]
    result = {"origin": common.origin(), "threads": given.threads, "peak": common.peak()}
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("bytes",) if given.bytes else ("inputs", "constant"):
            result[kind] = [product(shape, kind, pathlib.Path(folder), given) for shape in shapes]
    numbers = "bytes" if given.bytes else "f32"
    title = f"Matrix products, {given.threads} thread{'s' * (given.threads > 1)}, {numbers}"
    name = f"products-{'bytes-' * given.bytes}t{given.threads}"
    common.keep(given.name or name, title, result, report(result))


def shape_of(text):
    return tuple(int(extent) for extent in text.split("x"))


def product(shape, kind, folder, given):
    """All rounds of one product."""
    path = folder / f"{'x'.join(map(str, shape))}-{kind}.onnx"
    save(shape, kind, path)
    rounds = []
    peer = ("openvino", openvinos) if kind == "bytes" else ("numpy", numpys)
    for index in range(given.rounds):
        contenders = [("tilewright", ours), peer]
        turn = index % 2
        ordered = contenders[turn:] + contenders[:turn]
        rounds.append({name: once(shape, path, given) for name, once in ordered})
    path.unlink()
    shown = {name: statistics.median(r[name] for r in rounds) for name in rounds[0]}
    ratio = statistics.median(r[peer[0]] / r["tilewright"] for r in rounds)
    print(f"{kind} {shape}: {shown} {ratio:.3f}", file=sys.stderr)
    return {"shape": shape, "ms": shown, "peer_over_ours": ratio, "load": common.load_average()}


def save(shape, kind, path):
    """A model of one product."""
    import numpy
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    m, k, n = shape
    value = helper.make_tensor_value_info
    if kind == "bytes":
        return save_bytes(shape, path)
    inputs = [value("a", TensorProto.FLOAT, [m, k]), value("b", TensorProto.FLOAT, [k, n])]
    constants = []
    if kind == "constant":
        random = numpy.random.default_rng(1).standard_normal((k, n), numpy.float32)
        constants = [numpy_helper.from_array(random, inputs.pop().name)]
    node = helper.make_node("MatMul", ["a", "b"], ["c"])
    outputs = [value("c", TensorProto.FLOAT, [m, n])]
    graph = helper.make_graph([node], "product", inputs, outputs, constants)
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), path)


def save_bytes(shape, path):
    """A model of one product of bytes."""
    import numpy
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    m, k, n = shape
    random = numpy.random.default_rng(1)
    constants = {
        "b": random.integers(-127, 128, (k, n), numpy.int8),
        "a_scale": numpy.float32(0.05),
        "a_zero": numpy.uint8(120),
        "b_scale": random.uniform(0.01, 0.02, n).astype(numpy.float32),
    }
    nodes = [
        helper.make_node("DequantizeLinear", ["a", "a_scale", "a_zero"], ["a_floats"]),
        helper.make_node("DequantizeLinear", ["b", "b_scale"], ["b_floats"], axis=1),
        helper.make_node("MatMul", ["a_floats", "b_floats"], ["c"]),
    ]
    value = helper.make_tensor_value_info
    inputs = [value("a", TensorProto.UINT8, [m, k])]
    outputs = [value("c", TensorProto.FLOAT, [m, n])]
    held = [numpy_helper.from_array(numpy.asarray(it), name) for name, it in constants.items()]
    graph = helper.make_graph(nodes, "product", inputs, outputs, held)
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), path)


def openvinos(shape, path, given):
    return race.once("openvino", path, common.inputs_of(path, []), given)["median_ms"]


def ours(shape, path, given):
    command = [given.tilewright.resolve(), "bench", path, "--json", "--threads", given.threads]
    output = common.run_pinned([*command, "--seconds", given.seconds], given.threads)
    return json.loads(output)["median_ms"]


def numpys(shape, path, given):
    os.environ["OPENBLAS_NUM_THREADS"] = str(given.threads)
    for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
        os.environ.pop(name, None)
    command = [sys.executable, __file__, "--seconds", given.seconds]
    output = common.run_pinned([*command, "--worker", "x".join(map(str, shape))], given.threads)
    return json.loads(output)


def worker(shape, seconds):
    """The median time of NumPy's product, in ms, less what a call of it costs."""
    import numpy

    random = numpy.random.default_rng(1)

    def timed(m, k, n):
        a = random.standard_normal((m, k), numpy.float32)
        b = random.standard_normal((k, n), numpy.float32)
        c = numpy.empty((m, n), numpy.float32)
        return statistics.median(race.measure(lambda: numpy.matmul(a, b, out=c), seconds))

    overhead = timed(1, 1, 1)
    print(json.dumps(timed(*shape) - overhead))


def report(result):
    parts = []
    names = {"inputs": "Both operands are inputs", "constant": "The second operand is constant"}
    names |= {"bytes": "Unsigned by constant signed bytes"}
    for kind, name in names.items():
        if kind not in result:
            continue
        peer, unit = ("OpenVINO", "GOP/s") if kind == "bytes" else ("NumPy", "GFLOP/s")
        rows = []
        for row in result[kind]:
            flops = 2 * row["shape"][0] * row["shape"][1] * row["shape"][2]
            rate = flops / row["ms"]["tilewright"] / 1e6
            times = [row["ms"]["tilewright"], row["ms"][peer.lower()]]
            shape = " x ".join(map(str, row["shape"]))
            rows.append([shape, *times, f"{rate:.1f}", f"{row['peer_over_ours']:.2f}", row["load"]])
        header = ["product", "Tilewright ms", f"{peer} ms", f"our {unit}", f"{peer} over ours"]
        ratios = [row["peer_over_ours"] for row in result[kind]]
        mean = f"Geometric mean {statistics.geometric_mean(ratios):.3f}, least {min(ratios):.3f}."
        parts += [f"## {name}", common.table([*header, "load"], rows), mean]
    if result["peak"]:
        figures = result["peak"]["figures"].items()
        ceilings = [f"{key} {figure['one_thread']:.1f} {figure['unit']}" for key, figure in figures]
        parts.append(f"Ceilings of one thread measured before it: {', '.join(ceilings)}.")
    return "\n\n".join(parts)


if __name__ == "__main__":
    try:
        main()
    except Failed as error:
        sys.exit(str(error))

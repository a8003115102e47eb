#!/usr/bin/env python3
"""How compile time grows with the size of a model.

    DIR/venv/bin/python bench/growth.py        DIR as made by race.py --setup

Makes models of 1,000, 10,000 and 100,000 ONNX nodes and compiles them from file to ready executable
on one thread. A step is the ratio of processor times of `tilewright bench`, that of a model of one
node taken off; `compile_ms`, on the clock, stands beside. Each is the least of a few processes. A
pass that looks at every node for every node shows as a step of 100.

- chain: Tanh, Add, Sigmoid, Mul, one after the other, weights between;
- residual: `x + tanh(c * x)`, one after the other;
- layers: MatMul with a weight of its own, Add, Relu, one after the other;
- convolutions: Conv 3x3, Relu, one after the other;
- wide: many `tanh(c * x)`, added in pairs, the sums in pairs, and so on;
- fan: the same, each added to the sum so far;
- join: the same, behind each other by one Concat.
"""

import argparse
import json
import pathlib
import resource
import sys
import tempfile

import common

SIZES = [1_000, 10_000, 100_000]
LIMIT = 15.0
EXTENT = 16


class Graph:
    """A model under construction; `node` returns the name of its output."""

    def __init__(self):
        self.nodes, self.constants = [], []

    def node(self, kind, *inputs, **attributes):
        from onnx import helper

        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name

    def constant(self, shape):
        import numpy
        from onnx import numpy_helper

        number = len(self.constants)
        values = numpy.random.default_rng(number).standard_normal(shape, numpy.float32) * 0.25
        self.constants.append(numpy_helper.from_array(values, f"c{number}"))
        return f"c{number}"

    def save(self, path, output):
        import onnx
        from onnx import TensorProto, helper

        end = helper.make_node("Identity", [output], ["y"])
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [EXTENT, EXTENT])
        y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
        graph = helper.make_graph([*self.nodes, end], "growth", [x], [y], self.constants)
        opsets = [helper.make_opsetid("", 17)]
        onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)


def chain(graph, size):
    value = "x"
    for number in range(size // 4):
        value = graph.node("Tanh", value)
        value = graph.node("Add", value, graph.constant([EXTENT]))
        value = graph.node("Sigmoid", value)
        value = graph.node("Mul", value, graph.constant([EXTENT]))
    return value


def layers(graph, size):
    value = "x"
    for number in range(size // 3):
        value = graph.node("MatMul", value, graph.constant([EXTENT, EXTENT]))
        value = graph.node("Add", value, graph.constant([EXTENT]))
        value = graph.node("Relu", value)
    return value


def residual(graph, size):
    value = "x"
    for number in range(size // 3):
        step = graph.node("Tanh", graph.node("Mul", value, graph.constant([EXTENT])))
        value = graph.node("Add", value, step)
    return value


def convolutions(graph, size):
    import numpy
    from onnx import numpy_helper

    shape = numpy.array([1, 4, EXTENT // 2, EXTENT // 2], numpy.int64)
    graph.constants.append(numpy_helper.from_array(shape, "image"))
    value = graph.node("Reshape", "x", "image")
    for number in range(size // 2):
        weight = graph.constant([4, 4, 3, 3])
        value = graph.node("Relu", graph.node("Conv", value, weight, pads=[1, 1, 1, 1]))
    return value


def branches(graph, count):
    return [
        graph.node("Tanh", graph.node("Mul", "x", graph.constant([EXTENT])))
        for number in range(count)
    ]


def wide(graph, size):
    values = branches(graph, size // 3)
    while len(values) > 1:
        pairs = [graph.node("Add", a, b) for a, b in zip(values[::2], values[1::2])]
        values = pairs + values[len(pairs) * 2 :]
    return values[0]


def fan(graph, size):
    first, *others = branches(graph, size // 3)
    for value in others:
        first = graph.node("Add", first, value)
    return first


def join(graph, size):
    return graph.node("Concat", *branches(graph, size // 2), axis=0)


CASES = {
    case.__name__: case for case in [chain, residual, layers, convolutions, wide, fan, join]
}


def measure(case, size, folder, given):
    """The least processor time in ms, and `compile_ms` and `kernels` of the quickest process."""
    path = pathlib.Path(folder) / f"{case}-{size}.onnx"
    graph = Graph()
    graph.save(path, CASES[case](graph, size) if size > 1 else graph.node("Tanh", "x"))
    command = [given.tilewright, "bench", path, "--json", "--threads", "1", "--seconds", "0.01"]
    runs, times = [], []
    for _ in range(given.rounds if size < 50_000 else 1):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        runs.append(json.loads(common.run_pinned(command, threads=1)))
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        user, system = after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime
        times.append(1000 * (user + system))
    best = min(runs, key=lambda run: run["compile_ms"])
    return min(times), best["compile_ms"], best["kernels"]


def main():
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("cases", nargs="*", default=list(CASES), help=", ".join(CASES))
    options.add_argument(
        "--tilewright", default=common.target_folder() / "release" / "tilewright", help="the binary"
    )
    options.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--name", default="growth", help="name of the files in bench/results/")
    given = options.parse_args()
    result = {"origin": common.origin(), "cases": []}
    header = ["model", *[f"{size:,} nodes, ms" for size in given.sizes], "steps", "compile ms"]
    rows, worst = [], 0.0
    for case in given.cases:
        with tempfile.TemporaryDirectory() as folder:
            start, _, _ = measure(case, 1, folder, given)
            found = [measure(case, size, folder, given) for size in given.sizes]
        times = [processor - start for processor, _, _ in found]
        steps = [after / before for before, after in zip(times, times[1:])]
        worst = max([worst, *steps])
        entry = {"case": case, "sizes": given.sizes, "processor_ms": times, "steps": steps}
        entry["compile_ms"] = [compile_ms for _, compile_ms, _ in found]
        entry["kernels"] = [kernels for _, _, kernels in found]
        result["cases"].append(entry)
        print(entry, file=sys.stderr)
        grown = "x " + ", ".join(f"{step:.1f}" for step in steps)
        clock = ", ".join(f"{compile_ms:.0f}" for compile_ms in entry["compile_ms"])
        rows.append([case, *times, grown, clock])
    common.keep(given.name, "How compile time grows", result, common.table(header, rows))
    sys.exit(3 if worst > LIMIT else 0)


if __name__ == "__main__":
    main()

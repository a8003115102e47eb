#!/usr/bin/env python3
"""The Python package itself: its wheel's size, how long it takes to import, and what a call costs.

    cargo xtask wheel dist
    pip install dist/tilewright-*.whl onnx onnxruntime
    python bench/python.py --wheel dist/tilewright-*.whl

An import is timed in a Python of its own, behind that of NumPy; the least of several, wall and
processor time. A call is an identity of 256 floats (1 kB), on one thread: rounds of calls alternate,
the least mean of a round counts, in time of the processor. Calls of ONNX Runtime with bound buffers are the bar for ours with bound
buffers.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import time

import common

IMPORT = """
import time
import numpy
wall, own = time.perf_counter(), time.process_time()
import {name}
print((time.perf_counter() - wall) * 1e3, (time.process_time() - own) * 1e3)
"""


def import_times(name, rounds):
    """The least wall and processor time of an import, in ms."""
    found = []
    for _ in range(rounds):
        done = subprocess.run(
            [sys.executable, "-c", IMPORT.format(name=name)], capture_output=True, text=True)
        if done.returncode:
            raise common.Failed(done.stderr.strip().splitlines()[-1])
        found.append([float(it) for it in done.stdout.split()])
    return [min(it) for it in zip(*found)]


def identity():
    import onnx

    ports = [
        [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [256])]
        for name in ("x", "y")
    ]
    node = onnx.helper.make_node("Identity", ["x"], ["y"])
    graph = onnx.helper.make_graph([node], "identity", *ports)
    opsets = [onnx.helper.make_opsetid("", 21)]
    made = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10)
    return made.SerializeToString()


def bound_call(package, model, x, y):
    """A call of a session whose input and output are bound to arrays."""
    options = package.SessionOptions()
    options.intra_op_num_threads = 1
    session = package.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for bind, name, array in [(binding.bind_input, "x", x), (binding.bind_output, "y", y)]:
        bind(name, "cpu", 0, "float32", [256], array.ctypes.data)
    # What is bound lives as long as the call.
    return session, lambda bound=(x, y): session.run_with_iobinding(binding)


def calls():
    """Calls by name; each gives what it should."""
    import numpy as np
    import onnxruntime
    import tilewright

    model, x = identity(), np.arange(256, dtype=np.float32)
    outputs = [np.zeros(256, np.float32) for _ in range(2)]
    ours, bound = bound_call(tilewright, model, x, outputs[0])
    theirs, their_bound = bound_call(onnxruntime, model, x, outputs[1])
    compiled = tilewright.compile(model, threads=1)
    found = {
        "bound": bound,
        "ONNX Runtime, bound": their_bound,
        "session.run": lambda: ours.run(None, {"x": x}),
        "ONNX Runtime, session.run": lambda: theirs.run(None, {"x": x}),
        "model(x)": lambda: compiled(x),
    }
    for call in found.values():
        call()
    for output in outputs:
        np.testing.assert_array_equal(output, x)
    np.testing.assert_array_equal(compiled(x), x)
    return found


def alternating(made, rounds, count):
    """The least mean processor time of a call, by name, in µs."""
    least = dict.fromkeys(made, float("inf"))
    for _ in range(rounds):
        for name, call in made.items():
            started = time.process_time()
            for _ in range(count):
                call()
            least[name] = min(least[name], (time.process_time() - started) / count * 1e6)
    return least


def main():
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--wheel", type=pathlib.Path, help="whose size is told")
    options.add_argument("--rounds", type=int, default=15)
    options.add_argument("--calls", type=int, default=20_000, help="in each round")
    options.add_argument("--name", default="python", help="of the files in bench/results/")
    given = options.parse_args()
    origin = common.origin()
    result = {"origin": origin, "import_ms": {}}
    for name in ("tilewright", "onnxruntime"):
        result["import_ms"][name] = import_times(name, given.rounds)
    result["calls_us"] = alternating(calls(), given.rounds, given.calls)
    times = result["calls_us"]
    ratio = result["ratio"] = times["bound"] / times["ONNX Runtime, bound"]
    rows = [["a call: " + name, f"{value:.3g} µs", ""] for name, value in times.items()]
    rows.insert(0, ["bound, over ONNX Runtime's", f"{ratio:.3g}", "1.0"])
    for name, (wall, own) in reversed(result["import_ms"].items()):
        bar = "30 ms" if name == "tilewright" else ""
        text = f"{wall:.3g} ms, {own:.3g} ms of the processor"
        rows.insert(0, [f"import {name} behind NumPy", text, bar])
    if given.wheel:
        result["wheel_bytes"] = os.stat(given.wheel).st_size
        rows.insert(0, ["the wheel", f"{result['wheel_bytes']} bytes", "8000000 bytes"])
    text = common.table(["what", "measured", "at most"], rows)
    common.keep(given.name, "The Python package", json.loads(json.dumps(result)), text)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Makes cases for `tilewright conformance` out of bare models, with ONNX Runtime's outputs.

    DIR/venv/bin/python bench/record_cases.py OUT MODEL_OR_FOLDER...    DIR as by race.py --setup

Inputs are random from a fixed seed; extents that a model leaves open are tried in turn until ONNX
Runtime (without optimisation) accepts them. Each case is a folder OUT/.../NAME with a copy of the
model and `test_data_set_0`. What ONNX Runtime refuses is listed with its reason, and is no case.
"""

import argparse
import itertools
import pathlib
import shutil
import sys

import numpy as np

EXTENTS = [7, 2, 3, 1, 4, 8, 16, 32]
RANKS = [2, 3, 4, 1, 0]


def main():
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("out", type=pathlib.Path)
    options.add_argument("models", nargs="+", type=pathlib.Path)
    given = options.parse_args()
    made, refused = 0, []
    for root in given.models:
        models = sorted(root.rglob("*.onnx")) if root.is_dir() else [root]
        for model in models:
            below = model.relative_to(root) if root.is_dir() else pathlib.Path(model.name)
            try:
                record(model, given.out / below.with_suffix(""))
                made += 1
            except Exception as error:
                words = str(error).strip().splitlines() or [type(error).__name__]
                refused.append(f"{below}: {words[0][:160]}")
    for line in refused:
        print(f"refused {line}")
    print(f"{made} cases, {len(refused)} models refused by ONNX Runtime", file=sys.stderr)


def record(model, folder):
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        str(model), options, providers=["CPUExecutionProvider"]
    )
    failure = None
    for extent, rank in itertools.product(EXTENTS, RANKS):
        inputs = [draw(port, number, extent, rank) for number, port in enumerate(session.get_inputs())]
        feed = {port.name: value for port, value in zip(session.get_inputs(), inputs)}
        try:
            outputs = session.run(None, feed)
        except Exception as error:
            failure = failure or error
            continue
        write(model, folder, feed, [port.name for port in session.get_outputs()], outputs)
        return
    raise failure


def draw(port, number, extent, rank):
    """Floats standard normal, integers 0 or 1, fixed by the number of the input."""
    random = np.random.default_rng(number)
    shape = port.shape if port.shape is not None else [None] * rank
    shape = [size if isinstance(size, int) else extent for size in shape]
    kind = port.type.removeprefix("tensor(").removesuffix(")")
    if kind in ("float", "double", "float16"):
        kind = {"float": "float32", "double": "float64"}.get(kind, kind)
        return random.standard_normal(shape).astype(kind)
    if kind == "string":
        return random.choice(["tile", "wright", ""], shape).astype(object)
    if kind.startswith("tensor") or "(" in kind:
        raise ValueError(f"an input of type {port.type}")
    return random.integers(0, 2, shape).astype(kind)


def write(model, folder, feed, names, outputs):
    from onnx import numpy_helper

    data = folder / "test_data_set_0"
    data.mkdir(parents=True, exist_ok=True)
    shutil.copy(model, folder / "model.onnx")
    for beside in model.parent.glob("*.data"):
        shutil.copy(beside, folder)
    for number, (name, value) in enumerate(feed.items()):
        save(numpy_helper.from_array(np.asarray(value), name), data / f"input_{number}.pb")
    for number, (name, value) in enumerate(zip(names, outputs)):
        if isinstance(value, list):
            value = numpy_helper.from_list([np.asarray(element) for element in value], name)
        else:
            value = numpy_helper.from_array(np.asarray(value), name)
        save(value, data / f"output_{number}.pb")


def save(value, path):
    path.write_bytes(value.SerializeToString())


if __name__ == "__main__":
    main()

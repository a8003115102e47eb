#!/usr/bin/env python3
"""Quantised models: are results right to the last digit, and are they faster than in f32?

    DIR/venv/bin/python bench/byte_models_race.py CASES[=TWIN]...     DIR as made by race.py --setup

CASES is a folder as ONNX publishes them: `model.onnx` and `test_data_set_N`. Every recorded input
is run and compared with ONNX Runtime without optimisations, in units of the last place. TWIN is
such a folder of the same network in f32: both are timed, in turn. Free dimensions are 1. Fails
(status 3) where an output is off by more than one unit.
"""

import json
import pathlib
import statistics
import sys
import tempfile

import accuracy
import common
import race
from common import Failed


def main():
    options = common.parser(__doc__)
    options.add_argument("--threads", type=int, default=1)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--seconds", type=float, default=0.5, help="of measuring in each process")
    given = options.parse_args()
    given.target, given.precision = None, "f32"
    result = {"origin": common.origin(), "threads": given.threads, "models": []}
    for text in given.models:
        cases, _, twin = str(text).partition("=")
        result["models"].append(one_model(pathlib.Path(cases), twin, given))
    common.keep(given.name or "byte-models-race", "Quantised models", result, report(result))
    sys.exit(0 if all(row["units"] <= 1 for row in result["models"]) else 3)


def one_model(cases, twin, given):
    row = {"model": cases.name, "units": units(cases / "model.onnx", cases, given)}
    contenders = [("ours", cases, "tilewright"), ("onnxruntime", cases, "onnxruntime")]
    contenders += [("twin", pathlib.Path(twin), "tilewright")] if twin else []
    rounds = []
    for index in range(given.rounds):
        turn = index % len(contenders)
        times = {}
        for key, folder, who in contenders[turn:] + contenders[:turn]:
            model = folder / "model.onnx"
            inputs = common.inputs_of(model, ones(model))
            times[key] = race.once(who, model, inputs, given)["median_ms"]
        rounds.append(times)
    row["ms"] = {key: statistics.median(times[key] for times in rounds) for key in rounds[0]}
    if twin:
        row["twin_over_ours"] = statistics.median(r["twin"] / r["ours"] for r in rounds)
    row["load"] = common.load_average()
    print(f"{row}", file=sys.stderr)
    return row


def ones(model):
    """Every free dimension of a model as 1."""
    import onnx

    inputs = onnx.load(model, load_external_data=False).graph.input
    dims = [dim for value in inputs for dim in value.type.tensor_type.shape.dim]
    return sorted({f"{dim.dim_param}=1" for dim in dims if dim.dim_param})


def units(model, cases, given):
    """The largest difference of an output of integers over all recorded inputs."""
    import numpy as np
    import onnx
    import onnxruntime
    from onnx import numpy_helper

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    providers = ["CPUExecutionProvider"]
    session = onnxruntime.InferenceSession(str(model), options, providers=providers)
    inputs = [value.name for value in session.get_inputs()]
    outputs = [value.name for value in session.get_outputs()]
    worst = 0
    for case in sorted(cases.glob("test_data_set_*")):
        values = {}
        for position, name in enumerate(inputs):
            text = (case / f"input_{position}.pb").read_bytes()
            values[name] = numpy_helper.to_array(onnx.TensorProto.FromString(text))
        reference = session.run(None, values)
        found = accuracy.run(model, values, outputs, "native", given.threads, given)
        for name, wanted in zip(outputs, reference):
            difference = found[name].astype(np.int64) - wanted.astype(np.int64)
            worst = max(worst, int(np.abs(difference).max(initial=0)))
    return worst


def report(result):
    rows = []
    for row in result["models"]:
        times = [row["ms"].get(key, "-") for key in ("ours", "twin", "onnxruntime")]
        ratio = f"{row['twin_over_ours']:.2f}" if "twin_over_ours" in row else "-"
        rows.append([row["model"], row["units"], *times, ratio, row["load"]])
    header = ["model", "units off", "ours ms", "our f32 twin ms", "ONNX Runtime ms"]
    return common.table([*header, "twin over ours", "load"], rows)


if __name__ == "__main__":
    try:
        main()
    except Failed as error:
        sys.exit(str(error))

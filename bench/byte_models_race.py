#!/usr/bin/env python3
"""Quantised models: are results right to the last digit, and are they faster than in f32?

    DIR/venv/bin/python bench/byte_models_race.py MODEL[=TWIN]...     DIR as made by race.py --setup

MODEL is a file, or a folder as ONNX publishes cases: `model.onnx` and `test_data_set_N`. Every
recorded input is run and compared with ONNX Runtime without optimisations, in units of the last
place (of files `byte_layers.py` does more than that). TWIN is the same network in f32. Both are
timed, and so are ONNX Runtime and OpenVINO, in turn. Free dimensions are 1. Fails (status 3) where
an output is off by more than one unit.
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
    options.add_argument("--target", help="passed to tilewright")
    given = options.parse_args()
    given.precision = "f32"
    result = {"origin": common.origin(), "threads": given.threads, "models": []}
    for text in given.models:
        model, _, twin = str(text).partition("=")
        result["models"].append(one_model(pathlib.Path(model), twin, given))
    threads = f"{given.threads} thread{'s' * (given.threads > 1)}"
    title = f"Quantised models, {threads}, target {given.target or 'native'}"
    common.keep(given.name or "byte-models-race", title, result, report(result))
    sys.exit(0 if all(row["units"] in (None, 0, 1) for row in result["models"]) else 3)


def one_model(of, twin, given):
    is_cases = of.is_dir()
    row = {"model": of.stem, "units": units(of / "model.onnx", of, given) if is_cases else None}
    contenders = [("ours", of, "tilewright"), ("onnxruntime", of, "onnxruntime")]
    contenders += [("openvino", of, "openvino")]
    contenders += [("twin", pathlib.Path(twin), "tilewright")] if twin else []
    rounds, errors = [], {}
    for index in range(given.rounds):
        turn = index % len(contenders)
        times = {}
        for key, path, who in contenders[turn:] + contenders[:turn]:
            model = path / "model.onnx" if path.is_dir() else path
            inputs = common.inputs_of(model, ones(model))
            try:
                times[key] = race.once(who, model, inputs, given)["median_ms"]
            except Failed as error:
                errors[key] = str(error)
        rounds.append(times)
    held = [key for key, *_ in contenders if all(key in times for times in rounds)]
    row["ms"] = {key: statistics.median(times[key] for times in rounds) for key in held}
    row["errors"] = errors
    peers = [key for key in ("onnxruntime", "openvino") if key in held]
    if "ours" in held and peers:
        best = lambda times: min(times[key] for key in peers)
        row["peer_over_ours"] = statistics.median(best(it) / it["ours"] for it in rounds)
    if "ours" in held and "twin" in held:
        row["twin_over_ours"] = statistics.median(it["twin"] / it["ours"] for it in rounds)
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
    rows, notes = [], []
    for row in result["models"]:
        times = [row["ms"].get(key, "-") for key in ("ours", "twin", "onnxruntime", "openvino")]
        ratios = [row.get(key) for key in ("peer_over_ours", "twin_over_ours")]
        ratios = ["-" if ratio is None else f"{ratio:.2f}" for ratio in ratios]
        off = "-" if row["units"] is None else row["units"]
        rows.append([row["model"], off, *times, *ratios, row["load"]])
        notes += [f"- {row['model']}, {who}: {error}" for who, error in row["errors"].items()]
    header = ["model", "units off", "ours ms", "our f32 twin ms", "ONNX Runtime ms", "OpenVINO ms"]
    header += ["better peer over ours", "twin over ours", "load"]
    parts = [common.table(header, rows)]
    over = [row["peer_over_ours"] for row in result["models"] if "peer_over_ours" in row]
    if over:
        mean, least = statistics.geometric_mean(over), min(over)
        parts.append(f"Better peer over ours: geometric mean {mean:.2f}, least {least:.2f}.")
    return "\n\n".join(parts + (["\n".join(notes)] if notes else []))


if __name__ == "__main__":
    try:
        main()
    except Failed as error:
        sys.exit(str(error))

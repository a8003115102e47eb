#!/usr/bin/env python3
"""Races recurrent networks: LSTM and GRU layers, and a voice detector whose state is carried.

    DIR/venv/bin/python bench/recurrent.py                   DIR as made by race.py --setup
    DIR/venv/bin/python bench/recurrent.py --frames CASES    a folder with `model.onnx` and cases

The layers (hidden 256, two of them, bidirectional, sequences of 50) are made here, for batches of 1
and 8, and raced as race.py races models. CASES is a folder as ONNX publishes them: the inputs of
`test_data_set_N` are run in order, again and again, and an output whose name is that of an input
with `N` behind it is the next run's input. ONNX Runtime's figure is less a call of an identity.
"""

import json
import pathlib
import statistics
import sys
import tempfile
import time

import common
import race
from common import Failed

HIDDEN, LAYERS, STEPS, BATCHES = 256, 2, 50, (1, 8)


def main():
    options = common.parser(__doc__)
    options.add_argument("--threads", type=int, default=1)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--seconds", type=float, default=1.0, help="of measuring in each process")
    options.add_argument("--frames", type=pathlib.Path, action="append", default=[])
    options.add_argument("--keep-models", type=pathlib.Path, metavar="DIR", help="only make them")
    options.add_argument("--worker", nargs=2, help="used internally")
    given = options.parse_args()
    given.target, given.precision = None, "f32"
    if given.worker:
        return frames_worker(*given.worker, given.seconds)
    if given.keep_models:
        return [save_layers(given.keep_models, *which) for which in layers()]
    result = {"origin": common.origin(), "threads": given.threads, "models": [], "frames": []}
    with tempfile.TemporaryDirectory() as folder:
        for which in layers():
            path = save_layers(pathlib.Path(folder), *which)
            result["models"].append(race.race(path, given))
    for cases in given.frames:
        result["frames"].append(frames(cases, given))
    title = f"Recurrent networks, {given.threads} thread{'s' * (given.threads > 1)}"
    common.keep(given.name or f"recurrent-t{given.threads}", title, result, report(result))


def layers():
    return [(kind, batch) for kind in ("LSTM", "GRU") for batch in BATCHES]


def save_layers(folder, kind, batch):
    """A model of stacked bidirectional layers; the next layer reads both directions."""
    import numpy
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    random = numpy.random.default_rng(1)
    gates = {"LSTM": 4, "GRU": 3}[kind]
    nodes, constants, width, x = [], [], HIDDEN, "x"

    def constant(name, *shape):
        values = random.standard_normal(shape, numpy.float32) / HIDDEN**0.5
        constants.append(numpy_helper.from_array(values, name))
        return name

    constants.append(numpy_helper.from_array(numpy.array([0, 0, -1]), "joined"))
    for layer in range(LAYERS):
        w = constant(f"w{layer}", 2, gates * HIDDEN, width)
        r = constant(f"r{layer}", 2, gates * HIDDEN, HIDDEN)
        b = constant(f"b{layer}", 2, 2 * gates * HIDDEN)
        attributes = dict(hidden_size=HIDDEN, direction="bidirectional")
        if kind == "GRU":
            # As frameworks define it.
            attributes["linear_before_reset"] = 1
        nodes.append(helper.make_node(kind, [x, w, r, b], [f"y{layer}"], **attributes))
        # [steps, directions, batch, hidden] -> [steps, batch, both]
        swapped, x = f"swapped{layer}", f"x{layer}"
        nodes.append(helper.make_node("Transpose", [f"y{layer}"], [swapped], perm=[0, 2, 1, 3]))
        nodes.append(helper.make_node("Reshape", [swapped, "joined"], [x]))
        width = 2 * HIDDEN
    value = helper.make_tensor_value_info
    inputs = [value("x", TensorProto.FLOAT, [STEPS, batch, HIDDEN])]
    outputs = [value(x, TensorProto.FLOAT, [STEPS, batch, 2 * HIDDEN])]
    graph = helper.make_graph(nodes, "layers", inputs, outputs, constants)
    opset = [helper.make_opsetid("", 17)]
    path = folder / f"{kind.lower()}-b{batch}.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), path)
    return path


# Frames with carried state


def frames(cases, given):
    """All rounds of one model with recorded inputs; times are of one frame."""
    model = cases / "model.onnx"
    rounds = []
    with tempfile.TemporaryDirectory() as text:
        folder = pathlib.Path(text)
        fed = write_frames(cases, folder)
        for index in range(given.rounds):
            contenders = [("tilewright", replay), ("onnxruntime", onnxruntimes)]
            turn = index % 2
            ordered = contenders[turn:] + contenders[:turn]
            rounds.append({name: once(model, folder, fed, given) for name, once in ordered})
    ratio = statistics.median(r["tilewright"] / r["onnxruntime"] for r in rounds)
    shown = {name: statistics.median(r[name] for r in rounds) for name in rounds[0]}
    print(f"{cases.name}: {shown} {ratio:.3f}", file=sys.stderr)
    return {"model": cases.name, "ms": shown, "ratio": ratio, "load": common.load_average()}


def write_frames(cases, folder):
    """The cases' inputs as `N/inK.npy`; returns which output is fed to which input."""
    import numpy
    import onnx
    from onnx import numpy_helper

    graph = onnx.load(cases / "model.onnx", load_external_data=False).graph
    inputs = [value.name for value in graph.input]
    outputs = [value.name for value in graph.output]
    for number in range(len(list(cases.glob("test_data_set_*")))):
        (folder / str(number)).mkdir()
        for position in range(len(inputs)):
            text = (cases / f"test_data_set_{number}" / f"input_{position}.pb").read_bytes()
            tensor = onnx.TensorProto.FromString(text)
            value = numpy_helper.to_array(tensor)
            numpy.save(folder / str(number) / f"in{inputs.index(tensor.name)}.npy", value)
    fed = [(k, inputs.index(name[:-1])) for k, name in enumerate(outputs) if name[:-1] in inputs]
    return fed


def replay(model, folder, fed, given):
    command = [given.tilewright.resolve().parent / "examples" / "replay", model, folder]
    command += ["--threads", given.threads, "--seconds", given.seconds]
    for output, number in fed:
        command += ["--feed", f"{output}={number}"]
    return json.loads(common.run_pinned(command, given.threads))["median_ms"]


def onnxruntimes(model, folder, fed, given):
    task = json.dumps({"fed": fed, "threads": given.threads, "folder": str(folder)})
    command = [sys.executable, __file__, "--seconds", given.seconds, "--worker", model, task]
    return json.loads(common.run_pinned(command, given.threads))


def frames_worker(model, task, seconds):
    """The median time of a frame in ms, less what a call costs."""
    import numpy
    import onnxruntime

    task = json.loads(task)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = task["threads"]
    options.inter_op_num_threads = 1
    providers = ["CPUExecutionProvider"]
    session = onnxruntime.InferenceSession(model, options, providers=providers)
    names = [value.name for value in session.get_inputs()]
    results = [value.name for value in session.get_outputs()]
    folder = pathlib.Path(task["folder"])
    cases = []
    for number in range(len(list(folder.iterdir()))):
        load = lambda k: numpy.load(folder / str(number) / f"in{k}.npy")
        cases.append({name: load(k) for k, name in enumerate(names)})
    times = []
    end = time.perf_counter() + seconds * 1.25
    outputs = None
    while time.perf_counter() < end:
        for case in cases:
            for output, number in task["fed"] if outputs else []:
                case[names[number]] = outputs[output]
            start = time.perf_counter()
            outputs = session.run(results, case)
            times.append((time.perf_counter() - start) * 1e3)
    median = statistics.median(times[len(times) // 5 :])
    overhead = statistics.median(race.measure(race.identity("onnxruntime", 1, "f32"), 0.2))
    print(json.dumps(median - overhead))


def report(result):
    rows = []
    for row in result["models"]:
        times = [row["contenders"][name].get("median_ms", "-") for name in race.PEERS]
        ours = row["contenders"]["tilewright"].get("median_ms", "-")
        ratios = [ratio for ratio in row["ratio"].values() if ratio]
        best = f"{1 / max(ratios):.2f}" if ratios else "-"
        rows.append([row["model"], ours, *times, best, max(row["load"])])
    for row in result["frames"]:
        ours, theirs = row["ms"]["tilewright"], row["ms"]["onnxruntime"]
        best = f"{1 / row['ratio']:.2f}"
        rows.append([f"{row['model']}, a frame", ours, theirs, "-", best, row["load"]])
    header = ["model", "Tilewright ms", "ONNX Runtime ms", "OpenVINO ms", "best over ours", "load"]
    return common.table(header, rows)


if __name__ == "__main__":
    try:
        main()
    except Failed as error:
        sys.exit(str(error))

#!/usr/bin/env python3
"""Compares quantised models with ONNX Runtime layer by layer, in units of the last place.

    DIR/venv/bin/python bench/byte_layers.py MODEL...    DIR as made by race.py --setup

What becomes integers (`QuantizeLinear`, `DynamicQuantizeLinear`, operators from bytes to bytes,
products of integers) ends a layer. ONNX Runtime computes all of these values, without
optimisations, on random inputs; then Tilewright computes each of them from those in front of it as
ONNX Runtime has them, so that no layer answers for another. Fails (status 3) if an integer is off
by more than one, a sum of integers at all, or a float output by more than 1e-5 of the largest.
"""

import pathlib
import sys
import tempfile

import accuracy
import common

QUANTISED = ("QuantizeLinear", "DynamicQuantizeLinear", "QLinear", "QGemm")
EXACT = {"MatMulInteger", "ConvInteger"}
TOLERANCE = 1e-5


def main():
    options = common.parser(__doc__)
    options.add_argument("--threads", type=int, default=1)
    options.add_argument("--target", action="append", help="default: native")
    options.add_argument("--rounds", type=int, default=2, help="of other random inputs")
    given = options.parse_args()
    result = {"origin": common.origin(), "rows": []}
    for model in given.models:
        for target in given.target or ["native"]:
            row = {"model": model.stem, "target": target, **layers(model, target, given)}
            result["rows"].append(row)
            print(row, file=sys.stderr)
    common.keep(given.name or "byte-layers", "Quantised models by layers", result, report(result))
    sys.exit(0 if all(row["good"] for row in result["rows"]) else 3)


def layers(path, target, given):
    """How far the layers of a model are from ONNX Runtime's."""
    import numpy as np
    import onnx

    model = onnx.load(path)
    inputs = common.inputs_of(path, given.dim)
    rounds = lambda node: node.op_type.startswith(QUANTISED)
    ends = [node for node in model.graph.node if rounds(node) or node.op_type in EXACT]
    ends = [node for node in ends if not is_of_constants(node, model)]
    exact = {name for node in ends if node.op_type in EXACT for name in node.output}
    cut = [name for node in ends if rounds(node) for name in node.output if name]
    shown = cut + sorted(exact)
    outputs = [value.name for value in model.graph.output]
    row = {"layers": len(ends), "elements": 0, "differ": 0, "units": 0, "exact": 0, "floats": 0.0}
    with tempfile.TemporaryDirectory() as folder:
        whole, parts = pathlib.Path(folder) / "whole.onnx", pathlib.Path(folder) / "parts.onnx"
        onnx.save(with_outputs(model, shown), whole)
        for seed in range(1, given.rounds + 1):
            values = common.random_inputs(inputs, seed)
            wanted = reference(whole, values)
            if not parts.exists():
                onnx.save(in_parts(model, cut, shown, wanted), parts)
            fed = values | {given_name(name): wanted[name] for name in cut}
            fed = those_read(parts, fed)
            found = accuracy.run(parts, fed, list(wanted), target, given.threads, given)
            for name, value in wanted.items():
                if np.issubdtype(value.dtype, np.floating):
                    if name in outputs:
                        most = max(float(np.abs(value).max(initial=0)), 1e-30)
                        off = float(np.abs(found[name] - value).max(initial=0)) / most
                        row["floats"] = max(row["floats"], off)
                    continue
                difference = np.abs(found[name].astype(np.int64) - value.astype(np.int64))
                key = "exact" if name in exact else "units"
                row[key] = max(row[key], int(difference.max(initial=0)))
                row["elements"] += difference.size
                row["differ"] += int((difference != 0).sum())
    row["good"] = row["units"] <= 1 and row["exact"] == 0 and row["floats"] <= TOLERANCE
    return row


def is_of_constants(node, model):
    return set(node.input) <= {"", *(weight.name for weight in model.graph.initializer)}


def given_name(name):
    return f"given:{name}"


def with_outputs(model, names):
    """The model with these values as outputs, too."""
    import onnx

    wider = onnx.ModelProto()
    wider.CopyFrom(model)
    own = {value.name for value in model.graph.output}
    new = [name for name in names if name not in own]
    wider.graph.output.extend(map(onnx.helper.make_empty_tensor_value_info, new))
    return wider


def in_parts(model, cut, shown, values):
    """The model with each of the cut values read from an input."""
    import onnx

    parts = with_outputs(model, [])
    del parts.graph.value_info[:]
    cut = set(cut)
    for node in parts.graph.node:
        for at, name in enumerate(node.input):
            if name in cut:
                node.input[at] = given_name(name)
    own = {value.name for value in model.graph.output}
    kind = onnx.helper.np_dtype_to_tensor_dtype
    typed = lambda name, of: onnx.helper.make_tensor_value_info(name, kind(of.dtype), of.shape)
    read = {name for node in parts.graph.node for name in node.input}
    given = [name for name in cut if given_name(name) in read]
    parts.graph.input.extend(typed(given_name(name), values[name]) for name in sorted(given))
    parts.graph.output.extend(typed(name, values[name]) for name in shown if name not in own)
    return parts


def those_read(path, values):
    """The values that are inputs of a model."""
    import onnx

    inputs = {value.name for value in onnx.load(path).graph.input}
    return {name: value for name, value in values.items() if name in inputs}


def reference(path, values):
    """All outputs as ONNX Runtime computes them without optimisations."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_outputs()]
    return dict(zip(names, session.run(names, values)))


def report(result):
    header = ["model", "target", "layers", "integers", "off by one", "units off", "sums off"]
    rows = []
    for row in result["rows"]:
        figures = [row[key] for key in ("layers", "elements", "differ", "units", "exact")]
        end = [f"{row['floats']:.1e}", "good" if row["good"] else "BAD"]
        rows.append([row["model"], row["target"], *figures, *end])
    return common.table([*header, "float outputs off", ""], rows)


if __name__ == "__main__":
    try:
        main()
    except common.Failed as error:
        sys.exit(f"error: {error}")

#!/usr/bin/env python3
"""Races the convolutions of models, each as a model of its own, against the peers of race.py.

    DIR/venv/bin/python bench/convolutions.py MODEL...

Each different convolution (shapes and attributes) of the models is cut out with its weights, its
bias and the shape of its input, and raced as race.py races models. The table is kept in
bench/results/.
"""

import json
import pathlib
import statistics
import sys
import tempfile

import common
import race


def main():
    options = common.parser(__doc__)
    options.add_argument("--threads", type=int, default=1)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--seconds", type=float, default=0.3, help="of measuring in each process")
    options.add_argument("--target", help="passed to tilewright")
    options.set_defaults(precision="f32")
    given = options.parse_args()
    result = {"origin": common.origin(), "threads": given.threads, "peak": common.peak()}
    result["convolutions"] = []
    with tempfile.TemporaryDirectory() as folder:
        for about in cut_out(given.models, pathlib.Path(folder)):
            raced = race.race(about.pop("path"), given)
            result["convolutions"].append({**about, **raced})
    title = f"Convolutions, {given.threads} thread{'s' * (given.threads > 1)}, f32"
    name = given.name or f"convolutions-t{given.threads}"
    common.keep(name, title, result, report(result))


def cut_out(models, folder):
    """Models of the different convolutions: {path, model, convolution, flops}."""
    import onnx
    from onnx import helper, numpy_helper, shape_inference

    seen, found = set(), []
    for path in models:
        model = shape_inference.infer_shapes(onnx.load(path))
        graph = model.graph
        weights = {weight.name: weight for weight in graph.initializer}
        shapes = {
            value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim]
            for value in [*graph.input, *graph.value_info, *graph.output]
        }
        for node in graph.node:
            if node.op_type != "Conv" or node.input[1] not in weights:
                continue
            x, weight = shapes[node.input[0]], weights[node.input[1]]
            attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
            key = json.dumps([x, list(weight.dims), attributes], sort_keys=True, default=str)
            if key in seen:
                continue
            seen.add(key)
            constants = [weights[name] for name in node.input[1:] if name in weights]
            value = helper.make_tensor_value_info
            ends = [value(node.input[0], 1, x)], [value(node.output[0], 1, shapes[node.output[0]])]
            cut = helper.make_graph([node], "convolution", *ends, constants)
            file = folder / f"{len(found)}.onnx"
            onnx.save(helper.make_model(cut, opset_imports=model.opset_import, ir_version=8), file)
            y = shapes[node.output[0]]
            flops = 2 * y[0] * y[2] * y[3] * numpy_helper.to_array(weight).size
            groups = f" / {attributes['group']}" if attributes.get("group", 1) > 1 else ""
            steps = attributes.get("strides", [1, 1])[0]
            words = f"{x[1]} -> {y[1]}{groups}, {weight.dims[2]}x{weight.dims[3]}"
            words += f" step {steps}, {x[2]}x{x[3]}"
            about = {"path": file, "of": path.stem, "convolution": words, "flops": flops}
            found.append(about)
    return found


def report(result):
    header = ["model", "convolution", "Tilewright ms", "GFLOP/s", *race.PEERS, "better over ours"]
    rows, ratios = [], []
    for row in result["convolutions"]:
        entries = [row["contenders"][name] for name in ["tilewright", *race.PEERS]]
        medians = [entry.get("median_ms", "failed") for entry in entries]
        least = [1 / ratio for ratio in row["ratio"].values() if ratio]
        ratio = min(least) if least else None
        ratios += [ratio] if ratio else []
        rate = f"{row['flops'] / medians[0] / 1e6:.0f}" if medians[0] != "failed" else "-"
        shown = f"{ratio:.2f}" if ratio else "-"
        rows.append([row["of"], row["convolution"], medians[0], rate, *medians[1:], shown])
    mean = f"Geometric mean {statistics.geometric_mean(ratios):.3f}, least {min(ratios):.3f}."
    return "\n\n".join([common.table(header, rows), mean])


if __name__ == "__main__":
    try:
        main()
    except common.Failed as error:
        sys.exit(str(error))

#!/usr/bin/env python3
"""Compares bf16 with f64: our error, and that of OpenVINO's bf16.

    DIR/venv/bin/python bench/precision.py MODEL...    DIR as made by race.py --setup

The reference is the model with every f32 made f64, run by the `onnx` package's evaluator; its
convolutions, pools and `GatherElements` are those of this script. The error is ||ours - reference|| /
||reference||, the larger of two random inputs. Fails (status 3) if ours is more than twice
OpenVINO's.
"""

import sys

import accuracy
import common
from common import Failed

MOST_OF_OPENVINO = 2.0


def main():
    options = common.parser(__doc__)
    given = options.parse_args()
    if not given.models:
        options.error("name at least one model")
    result = {"origin": common.origin(), "models": []}
    for model in given.models:
        try:
            entry = compare(model, given)
        except Failed as error:
            entry = {"error": str(error), "good": False}
        result["models"].append({"model": model.stem, **entry})
        print(f"{model.stem}: {entry}", file=sys.stderr)
    common.keep(given.name or "precision", "Errors of bf16 against f64", result, report(result))
    sys.exit(0 if all(entry["good"] for entry in result["models"]) else 3)


def compare(model, given):
    """Errors of one model against f64, over two inputs."""
    inputs = common.inputs_of(model, given.dim)
    pair, _, _, _ = accuracy.pair_of_inputs(model, inputs)
    evaluator = in_double(model)
    errors = {"tilewright": 0.0, "tilewright f32": 0.0, "openvino": 0.0}
    for values in pair:
        names = evaluator.output_names
        reference = dict(zip(names, evaluator.run(None, double(values))))
        bf16 = ["--precision", "bf16"]
        target = "native"
        ran = {
            "tilewright": accuracy.run(model, values, names, target, 1, given, bf16),
            "tilewright f32": accuracy.run(model, values, names, target, 1, given),
            "openvino": openvino(model, values),
        }
        for name, outputs in ran.items():
            errors[name] = max(errors[name], accuracy.error_of(double(outputs), reference))
    return {"errors": errors, "good": errors["tilewright"] <= MOST_OF_OPENVINO * errors["openvino"]}


def double(values):
    """{name: array} with every f32 array made f64."""
    import numpy as np

    return {
        name: value.astype(np.float64) if value.dtype == np.float32 else value
        for name, value in values.items()
    }


def openvino(model, values):
    """{output name: array} of OpenVINO in bf16."""
    import openvino

    core = openvino.Core()
    network = core.read_model(model)
    if any(port.partial_shape.is_dynamic for port in network.inputs):
        network.reshape({name: openvino.PartialShape(list(v.shape)) for name, v in values.items()})
    properties = {"INFERENCE_PRECISION_HINT": "bf16", "INFERENCE_NUM_THREADS": 1}
    request = core.compile_model(network, "CPU", properties).create_infer_request()
    results = request.infer(values)
    return {port.get_any_name(): results[port] for port in request.model_outputs}


# The reference


def in_double(path):
    """The reference evaluator of a model in f64."""
    import numpy as np
    import onnx
    from onnx import TensorProto, numpy_helper
    from onnx.reference import ReferenceEvaluator

    model = onnx.load(path)
    graph = model.graph

    def wide(tensor):
        if tensor.data_type == TensorProto.FLOAT:
            array = numpy_helper.to_array(tensor).astype(np.float64)
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))

    for tensor in graph.initializer:
        wide(tensor)
    for port in [*graph.input, *graph.output]:
        if port.type.tensor_type.elem_type == TensorProto.FLOAT:
            port.type.tensor_type.elem_type = TensorProto.DOUBLE
    del graph.value_info[:]
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                wide(attribute.t)
            if node.op_type == "Cast" and attribute.name == "to" and attribute.i == TensorProto.FLOAT:
                attribute.i = TensorProto.DOUBLE
            if attribute.HasField("g") or attribute.graphs:
                raise Failed(f"{node.op_type} has a body: not in this reference")
    return ReferenceEvaluator(model, new_ops=operators())


def operators():
    """Convolution and pools over two axes, by views of windows; a gather that broadcasts."""
    import numpy as np
    from numpy.lib.stride_tricks import sliding_window_view
    from onnx.reference.op_run import OpRun

    def windows(x, kernel, strides, pads, dilations, fill, ceil=0):
        """[n, c, h, w, kh, kw] of [n, c, y, x]."""
        before, after = (pads or [0, 0, 0, 0])[:2], list((pads or [0, 0, 0, 0])[2:])
        strides, dilations = strides or [1, 1], dilations or [1, 1]
        if ceil:
            for axis in range(2):
                room = x.shape[2 + axis] + before[axis] + after[axis]
                room -= dilations[axis] * (kernel[axis] - 1) + 1
                after[axis] += -room % strides[axis]
        border = [(0, 0), (0, 0), (before[0], after[0]), (before[1], after[1])]
        x = np.pad(x, border, constant_values=fill)
        reach = [d * (k - 1) + 1 for d, k in zip(dilations, kernel)]
        views = sliding_window_view(x, reach, axis=(2, 3))
        return views[:, :, :: strides[0], :: strides[1], :: dilations[0], :: dilations[1]]

    def only(auto_pad):
        if auto_pad not in (None, "NOTSET"):
            raise Failed(f"auto_pad {auto_pad}: not in this reference")

    class Conv(OpRun):
        def _run(self, x, w, bias=None, auto_pad=None, dilations=None, group=1,
                 kernel_shape=None, pads=None, strides=None):
            only(auto_pad)
            view = windows(x, w.shape[2:], strides, pads, dilations, 0.0)
            group = group or 1
            each, made = view.shape[1] // group, w.shape[0] // group
            parts = [
                np.einsum(
                    "nchwyx,ocyx->nohw",
                    view[:, g * each : (g + 1) * each],
                    w[g * made : (g + 1) * made],
                    optimize=True,
                )
                for g in range(group)
            ]
            y = np.concatenate(parts, axis=1)
            return (y if bias is None else y + bias.reshape(1, -1, 1, 1),)

    class MaxPool(OpRun):
        def _run(self, x, auto_pad=None, ceil_mode=0, dilations=None, kernel_shape=None,
                 pads=None, storage_order=0, strides=None):
            only(auto_pad)
            view = windows(x, kernel_shape, strides, pads, dilations, -np.inf, ceil_mode)
            return (view.max(axis=(4, 5)),)

    class AveragePool(OpRun):
        def _run(self, x, auto_pad=None, ceil_mode=0, count_include_pad=0, dilations=None,
                 kernel_shape=None, pads=None, strides=None):
            only(auto_pad)
            if count_include_pad and ceil_mode:
                raise Failed("AveragePool with windows beyond its padding: not in this reference")

            def sums(array, fill):
                view = windows(array, kernel_shape, strides, pads, dilations, fill, ceil_mode)
                return view.sum(axis=(4, 5))

            return (sums(x, 0.0) / sums(np.ones_like(x), float(count_include_pad or 0)),)

    class GatherElements(OpRun):
        def _run(self, data, indices, axis=0):
            return (np.take_along_axis(data, indices, axis),)

    return [Conv, MaxPool, AveragePool, GatherElements]


def report(result):
    header = ["model", "ours in bf16", "OpenVINO in bf16", "ours over OpenVINO's", "ours in f32", ""]
    rows, notes = [], []
    for entry in result["models"]:
        verdict = "good" if entry["good"] else "BAD"
        if "error" in entry:
            rows.append([entry["model"], *["-"] * (len(header) - 2), verdict])
            notes.append(f"- {entry['model']}: {entry['error']}")
            continue
        ours, peer = entry["errors"]["tilewright"], entry["errors"]["openvino"]
        f32 = entry["errors"]["tilewright f32"]
        row = [f"{ours:.1e}", f"{peer:.1e}", f"{ours / max(peer, 1e-300):.2f}", f"{f32:.1e}"]
        rows.append([entry["model"], *row, verdict])
    return common.table(header, rows) + ("\n\n" + "\n".join(notes) if notes else "")


if __name__ == "__main__":
    main()

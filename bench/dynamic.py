#!/usr/bin/env python3
"""What shapes cost a model whose batch and length are free, and whether each is right.

    DIR/venv/bin/python bench/dynamic.py --export bert.onnx     BERT base, random weights (torch)
    DIR/venv/bin/python bench/dynamic.py MODEL...               DIR as made by race.py --setup

Random pairs of the first two free dimensions are run in one process of ours: each is prepared (the
cost of a new shape), prepared again (looking up a seen one) and run; every output is compared with
ONNX Runtime's. Fails (status 3) where one differs.

`--symbolic` makes code for many extents at once. Code for the extents of each pair alone then runs
beside it: how much faster it is, and whether all bits are equal, stands in the table, and so does
whether the arena has the size that the formula of `explain` gives.
"""

import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

import common
from common import Failed

# For how many pairs the arena is compared with its formula.
FORMULAS = 8


def main():
    options = common.parser(__doc__)
    options.add_argument("--export", type=pathlib.Path, metavar="FILE", help="make a model")
    options.add_argument("--pairs", type=int, default=200)
    options.add_argument("--most", default="8x128", metavar="BATCHxLENGTH")
    options.add_argument("--threads", type=int, default=1)
    options.add_argument("--symbolic", action="store_true", help="code for many extents at once")
    options.add_argument("--tolerance", type=float, default=1e-4)
    options.add_argument("--reference", nargs=2, help="used internally")
    given = options.parse_args()
    if given.reference:
        return reference(*given.reference)
    if given.export:
        return export(given.export)
    result = {"origin": common.origin(), "threads": given.threads, "pairs": given.pairs}
    result["models"] = [one_model(model, given) for model in given.models]
    title = f"New shapes, {given.pairs} pairs up to {given.most}"
    common.keep(given.name or "dynamic", title, result, report(result))
    sys.exit(0 if all(model["right"] == given.pairs for model in result["models"]) else 3)


def one_model(model, given):
    with tempfile.TemporaryDirectory() as text:
        folder = pathlib.Path(text)
        pairs = write_cases(model, folder, given)
        common.run_pinned([sys.executable, __file__, "--reference", model, folder], 2, 7200)
        # The example stands beside the binary.
        replay = given.tilewright.resolve().parent / "examples" / "replay"
        command = [replay, model, folder, "--threads", given.threads, "--seconds", 0]
        command += ["--symbolic", "--beside"] if given.symbolic else []
        figures = json.loads(common.run_pinned(command, given.threads, 7200))
        errors = [error_of(folder / str(number)) for number in range(len(pairs))]
        arenas = [arena_of(model, pair, given) for pair in pairs[:FORMULAS]] if given.symbolic else []
    new = [pairs.index(pair) == number for number, pair in enumerate(pairs)]
    costs = [ms for ms, is_new in zip(figures["prepare_ms"], new) if is_new]
    cpu = [ms for ms, is_new in zip(figures["prepare_cpu_ms"], new) if is_new]
    beside = beside_of(pairs, figures, arenas) if given.symbolic else {}
    return beside | {
        "model": model.parent.name if model.stem == "model" else model.stem,
        "right": sum(1 for error in errors if error <= given.tolerance),
        "worst_error": float(max(errors)),
        "shapes": len(costs),
        "new_ms": statistics.median(costs),
        "new_most_ms": max(costs),
        "new_cpu_ms": statistics.median(cpu),
        "seen_ms": statistics.median(figures["seen_us"]) / 1e3,
        "seen_most_ms": max(figures["seen_us"]) / 1e3,
        "constant_mb": figures["constant_bytes"] / 1e6,
        "resident_mb": figures["resident_bytes"] / 1e6,
        "peak_mb": figures["peak_bytes"] / 1e6,
        "load": common.load_average(),
    }


def beside_of(pairs, figures, arenas):
    """What code for many extents is beside code for each pair's alone."""
    ratios = [alone / own for alone, own in zip(figures["alone_ms"], figures["own_ms"])]
    least = min(ratios)
    return {
        "compiles": figures["compiles"],
        "same_bits": sum(figures["same_bits"]),
        "speed": statistics.geometric_mean(ratios),
        "speed_in_all": sum(figures["alone_ms"]) / sum(figures["own_ms"]),
        "speed_least": least,
        "least_at": "x".join(map(str, pairs[ratios.index(least)])),
        "arenas": f"{sum(arenas)} of {len(arenas)}",
        "speeds": [[*pair, ratio] for pair, ratio in zip(pairs, ratios)],
    }


def arena_of(model, pair, given):
    """Whether a run with these extents has an arena of the size that its formula gives."""
    extents = dict(zip(symbols_of(model), pair))
    dims = [word for name, extent in extents.items() for word in ("--dim", f"{name}={extent}")]
    command = [given.tilewright, "explain", model, "--symbolic", "--json", *given_dims(given)]
    explained = json.loads(common.run_pinned([*command, *dims], given.threads))
    formula = explained["arena_formula"]
    if formula is None:
        return False
    formula = re.sub(r"\bdiv\b", "//", re.sub(r"\bmod\b", "%", formula))
    bytes_of_it = eval(formula, {"__builtins__": {}}, {"min": min, "max": max, **extents})
    return explained["arena_bytes"] == bytes_of_it + explained["scratch_bytes"]


def given_dims(given):
    return [word for dim in given.dim for word in ("--dim", dim)]


def write_cases(model, folder, given):
    """Inputs of all cases as `N/inK.npy`; returns their pairs of extents."""
    import numpy as np

    random = np.random.default_rng(1)
    most = [int(extent) for extent in given.most.split("x")]
    names = symbols_of(model)
    pairs = []
    for number in range(given.pairs):
        pair = tuple(int(random.integers(1, extent + 1)) for extent in most)
        dims = [f"{name}={extent}" for name, extent in zip(names, pair)]
        inputs = common.inputs_of(model, [*given.dim, *dims])
        (folder / str(number)).mkdir()
        drawn = common.random_inputs(inputs, seed=number)
        for position, spec in enumerate(inputs):
            value = drawn[spec["name"]]
            if spec["below"] == 2 and value.ndim == 2:
                # A mask of nothing but zeros has no meaning.
                value[:, 0] = 1
            np.save(folder / str(number) / f"in{position}.npy", value)
        pairs.append(pair)
    return pairs


def symbols_of(model):
    """The names of the free dimensions, in the order in which inputs have them."""
    import onnx

    names = []
    for value in onnx.load(model, load_external_data=False).graph.input:
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param and dim.dim_param not in names:
                names.append(dim.dim_param)
    return names


def reference(model, folder):
    """ONNX Runtime's outputs of all cases as `N/refK.npy`."""
    import numpy as np
    import onnxruntime

    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_inputs()]
    for case in pathlib.Path(folder).iterdir():
        values = {name: np.load(case / f"in{k}.npy") for k, name in enumerate(names)}
        for position, output in enumerate(session.run(None, values)):
            np.save(case / f"ref{position}.npy", output)


def error_of(case):
    """The largest relative error of a case's outputs; infinite where shapes differ."""
    import numpy as np

    worst = 0.0
    for wanted in case.glob("ref*.npy"):
        theirs = np.load(wanted)
        ours = np.load(case / wanted.name.replace("ref", "out"))
        if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
            return float("inf")
        norm = np.linalg.norm(theirs.astype(np.float64).ravel())
        error = np.linalg.norm((ours.astype(np.float64) - theirs).ravel()) / max(norm, 1e-30)
        worst = max(worst, error if np.isfinite(error) else float("inf"))
    return worst


def export(path):
    """BERT base with random weights and free batch and length."""
    import torch
    import transformers

    class FirstOutput(torch.nn.Module):
        def __init__(self, model):
            super().__init__()
            self.model = model

        def forward(self, input_ids, attention_mask):
            return self.model(input_ids=input_ids, attention_mask=attention_mask)[0]

    torch.manual_seed(0)
    model = FirstOutput(transformers.BertModel(transformers.BertConfig())).eval()
    ids = torch.randint(0, 30000, (2, 16))
    free = {0: torch.export.Dim("batch", max=64), 1: torch.export.Dim("length", max=512)}
    shapes = {"input_ids": free, "attention_mask": free}
    options = dict(dynamo=True, external_data=False, opset_version=20, verbose=False)
    exported = torch.onnx.export(
        model, (ids, torch.ones_like(ids)), dynamic_shapes=shapes, **options
    )
    exported.save(path)


def report(result):
    columns = {
        "right": "right",
        "worst_error": "worst error",
        "shapes": "shapes",
        "new_ms": "new shape ms",
        "new_most_ms": "most",
        "new_cpu_ms": "on the processor",
        "seen_ms": "seen shape ms",
        "constant_mb": "constants MB",
        "resident_mb": "resident MB",
        "peak_mb": "peak MB",
        "load": "load",
    }
    text = table_of(result, columns)
    if any("speeds" in row for row in result["models"]):
        columns = {
            "compiles": "compiles",
            "same_bits": "same bits",
            "speed": "speed over code for the pair alone",
            "speed_in_all": "in all",
            "speed_least": "least",
            "least_at": "at",
            "arenas": "arenas as the formula says",
        }
        text += "\n\n" + table_of(result, columns)
    return text


def table_of(result, columns):
    rows = [[row["model"], *(row[key] for key in columns)] for row in result["models"]]
    return common.table(["model", *columns.values()], rows)


if __name__ == "__main__":
    try:
        main()
    except (Failed, subprocess.SubprocessError) as error:
        sys.exit(str(error))

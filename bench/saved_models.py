#!/usr/bin/env python3
"""Models as ONNX Runtime saves them at its levels, beside the files that it was given.

    DIR/venv/bin/python bench/saved_models.py MODEL...    DIR as made by race.py --setup

Each model is optimised by ONNX Runtime at the levels basic, extended and all, and saved. What
Tilewright computes of each saved file is compared with what ONNX Runtime computes of the original
without optimisations; then both files are timed in turn, each in a process of its own. Fails
(status 3) where a file is refused, an output is off by more than the tolerance, or a saved file
takes more than 1.02 times as long as the original (the median of ratios within rounds, of the
least times of each process).
"""

import pathlib
import statistics
import sys
import tempfile

import accuracy
import byte_layers
import common
import race
from common import Failed

LEVELS = {
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "all": "ORT_ENABLE_ALL",
}
SLOWER = 1.02


def main():
    options = common.parser(__doc__)
    options.add_argument("--threads", type=int, default=1)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--seconds", type=float, default=1.0, help="of measuring in each process")
    options.add_argument("--tolerance", type=float, default=1e-4)
    options.add_argument("--no-times", action="store_true", help="compares outputs alone")
    given = options.parse_args()
    given.target, given.precision = None, "f32"
    result = {"origin": common.origin(), "rows": []}
    for model in given.models:
        for level in LEVELS:
            row = {"model": model.stem, "level": level, **one(model, level, given)}
            result["rows"].append(row)
            print(row, file=sys.stderr)
    title = "Models as ONNX Runtime saves them"
    common.keep(given.name or "saved-models", title, result, report(result))
    sys.exit(0 if all(row["good"] for row in result["rows"]) else 3)


def one(model, level, given):
    """How far one saved file is off, and its time over the original's."""
    row = {"error": None, "over": None, "reason": ""}
    with tempfile.TemporaryDirectory() as folder:
        saved = pathlib.Path(folder) / "saved.onnx"
        try:
            inputs = common.inputs_of(model, given.dim)
            save(model, saved, level)
            values = common.random_inputs(inputs, seed=1)
            right = byte_layers.reference(model, values)
            found = accuracy.run(saved, values, list(right), "native", given.threads, given)
            row["error"] = accuracy.error_of(found, right)
            ratios = []
            for index in range(0 if given.no_times else given.rounds):
                turn = [model, saved] if index % 2 else [saved, model]
                least = {
                    path: race.once("tilewright", path, inputs, given)["min_ms"] for path in turn
                }
                ratios.append(least[saved] / least[model])
            row["over"] = statistics.median(ratios) if ratios else None
        except Failed as error:
            row["reason"] = str(error)
    right = row["error"] is not None and row["error"] <= given.tolerance
    row["good"] = right and (row["over"] or 0.0) <= SLOWER
    return row


def save(model, path, level):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(
        onnxruntime.GraphOptimizationLevel, LEVELS[level]
    )
    options.optimized_model_filepath = str(path)
    options.log_severity_level = 3
    onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])


def report(result):
    rows = []
    for row in result["rows"]:
        error = "-" if row["error"] is None else f"{row['error']:.1e}"
        over = "-" if row["over"] is None else f"{row['over']:.3f}"
        verdict = "good" if row["good"] else f"BAD {row['reason']}"
        rows.append([row["model"], row["level"], error, over, verdict])
    return common.table(["model", "level", "error", "time over the original's", ""], rows)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Compares `tilewright run` with ONNX Runtime, number by number.

    DIR/venv/bin/python bench/accuracy.py MODEL...    DIR as made by race.py --setup

Two random inputs per model, at each target, with 1 and 2 threads. Fails (status 3) if a relative
error ||ours - reference|| / ||reference|| exceeds the tolerance or a bit depends on the number of
threads; says whether the targets agree bit for bit. The two inputs must give reference outputs that
differ by at least 2 %, or agreement would mean nothing: their scale grows until they do.
"""

import pathlib
import re
import sys
import tempfile

import common
from common import Failed

TARGETS = ["x86-64-v4", "x86-64-v3"]
THREADS = [1, 2]
SEEDS = [1, 2]
SCALES = [1.0, 3.0, 10.0]
LEAST_DIFFERENCE = 0.02


def main():
    options = common.parser(__doc__)
    options.add_argument("--targets", nargs="+", default=TARGETS)
    options.add_argument("--tolerance", type=float, default=1e-4)
    given = options.parse_args()
    if not given.models:
        options.error("name at least one model")
    result = {"origin": common.origin(), "tolerance": given.tolerance, "targets": given.targets}
    result["models"] = []
    for model in given.models:
        try:
            entry = compare(model, given)
        except Failed as error:
            entry = {"error": str(error)}
        entry["good"] = is_good(entry, given.tolerance)
        result["models"].append({"model": model.stem, **entry})
        print(f"{model.stem}: {'good' if entry['good'] else 'BAD'}", file=sys.stderr)
    title = f"Agreement with ONNX Runtime, tolerance {given.tolerance:g}"
    common.keep(given.name or "accuracy", title, result, report(result))
    sys.exit(0 if all(entry["good"] for entry in result["models"]) else 3)


def compare(model, given):
    """What one model shows at every target, over two inputs: worst errors, and which bits agree."""
    inputs = common.inputs_of(model, given.dim)
    pair, references, difference, scale = pair_of_inputs(model, inputs)
    errors = {target: 0.0 for target in given.targets}
    threads_agree = {target: True for target in given.targets}
    targets_agree = True
    for values, reference in zip(pair, references):
        by_target = []
        for target in given.targets:
            runs = [run(model, values, list(reference), target, n, given) for n in THREADS]
            threads_agree[target] &= all(same_bits(runs[0], other) for other in runs[1:])
            errors[target] = max(errors[target], *(error_of(r, reference) for r in runs))
            by_target.append(runs[0])
        targets_agree &= all(same_bits(by_target[0], other) for other in by_target[1:])
    return {
        "difference": difference,
        "scale": scale,
        "errors": errors,
        "threads_agree": threads_agree,
        "targets_agree": targets_agree,
    }


def is_good(entry, tolerance):
    if "error" in entry:
        return False
    accurate = all(error <= tolerance for error in entry["errors"].values())
    return accurate and all(entry["threads_agree"].values())


def pair_of_inputs(model, inputs):
    """Two inputs, their reference outputs, by how much those differ, and the scale it took."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    for scale in SCALES:
        pair = [common.random_inputs(inputs, seed, scale) for seed in SEEDS]
        references = [dict(zip(names, session.run(names, values))) for values in pair]
        difference = error_of(*references)
        if difference >= LEAST_DIFFERENCE:
            return pair, references, difference, scale
    raise Failed(f"reference outputs of two inputs differ by only {difference:.2%}")


def run(model, values, names, target, threads, given, more=()):
    """{output name: array} of one process of ours."""
    import numpy as np

    with tempfile.TemporaryDirectory() as text:
        folder = pathlib.Path(text)
        command = [given.tilewright.resolve(), "run", model, "--target", target]
        command += ["--threads", threads, "--output-dir", folder / "out", *more]
        for index, (name, value) in enumerate(values.items()):
            np.save(folder / f"input{index}.npy", value)
            command += ["--input", f"{name}={folder / f'input{index}.npy'}"]
        (folder / "out").mkdir()
        common.run_pinned(command, threads)
        try:
            files = zip(names, file_names(names))
            return {name: np.load(folder / "out" / file) for name, file in files}
        except (OSError, ValueError) as error:
            raise Failed(common.without_paths(str(error))) from None


def file_names(names):
    """What the command line calls the files of outputs with these names, in order."""
    taken, files = set(), []
    for name in names:
        stem = re.sub(r"[^A-Za-z0-9._-]", "_", name)
        file, count = stem, 1
        while file in taken:
            count += 1
            file = f"{stem}_{count}"
        taken.add(file)
        files.append(f"{file}.npy")
    return files


def error_of(ours, reference):
    """The worst relative L2 error over the outputs; infinite for another shape, dtype or a NaN."""
    import numpy as np

    worst = 0.0
    for name, right in reference.items():
        left = ours[name]
        if left.shape != right.shape or left.dtype != right.dtype:
            return float("inf")
        left, right = left.astype(np.float64), right.astype(np.float64)
        if np.array_equal(left, right, equal_nan=True):
            continue
        error = np.linalg.norm(left - right) / max(np.linalg.norm(right), 1e-300)
        worst = max(worst, float(error) if np.isfinite(error) else float("inf"))
    return worst


def same_bits(left, right):
    def bits(array):
        return array.dtype, array.shape, array.tobytes()

    return all(bits(left[name]) == bits(right[name]) for name in left)


def report(result):
    targets = result["targets"]
    header = ["model", *(f"error {target}" for target in targets), "1 = 2 threads",
              f"{' = '.join(targets)}, bit for bit", "outputs of the two inputs differ by", ""]
    rows, notes = [], []
    for entry in result["models"]:
        verdict = "good" if entry["good"] else "BAD"
        if "error" in entry:
            rows.append([entry["model"], *["-"] * (len(header) - 2), verdict])
            notes.append(f"- {entry['model']}: {entry['error']}")
            continue
        errors = [f"{entry['errors'][target]:.1e}" for target in targets]
        threads = "yes" if all(entry["threads_agree"].values()) else "NO"
        agree = "yes" if entry["targets_agree"] else "no"
        difference = f"{entry['difference']:.0%}"
        rows.append([entry["model"], *errors, threads, agree, difference, verdict])
    return common.table(header, rows) + ("\n\n" + "\n".join(notes) if notes else "")


if __name__ == "__main__":
    main()

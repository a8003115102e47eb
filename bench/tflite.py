#!/usr/bin/env python3
"""Compares TensorFlow Lite files with LiteRT's reference kernels, on made-up inputs.

    pip install ai-edge-litert
    python bench/tflite.py [--tilewright BINARY] [--runs N] [--target NAME] FILE.tflite...
    python bench/tflite.py --operators [--only NAME] [--keep FOLDER]

The oracle is LiteRT's interpreter with `OpResolverType.BUILTIN_REF`. Outputs of integers must be the
same to the bit; of floats the largest difference must be at most 1e-5 of the output's largest value.
`--operators` writes a model for each use of an operator in `tflite_operators.py` and compares that.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import common

TOLERANCE = 1e-5


def parser():
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("models", nargs="*", type=pathlib.Path, help=".tflite files")
    options.add_argument(
        "--tilewright",
        type=pathlib.Path,
        default=common.target_folder() / "release" / "tilewright",
        help="the binary (default: that of `cargo build --release`)",
    )
    options.add_argument("--runs", type=int, default=3, help="inputs for each model")
    options.add_argument("--target", default="native", help="what to compile for")
    options.add_argument("--operators", action="store_true", help="models of one operator each")
    options.add_argument("--only", help="with --operators: the names that contain this")
    options.add_argument("--keep", type=pathlib.Path, help="with --operators: where models stay")
    options.add_argument("--json", type=pathlib.Path, help="where results go")
    return options


def given(detail, random, shape):
    """Values for an input: of integers all that their type has, unless they are large."""
    import numpy as np

    dtype = np.dtype(detail["dtype"])
    if dtype == np.bool_:
        return random.integers(0, 2, shape).astype(dtype)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        low, high = (limits.min, limits.max) if dtype.itemsize <= 2 else (0, 9)
        return random.integers(low, high, shape, endpoint=True).astype(dtype)
    return random.standard_normal(shape).astype(dtype)


def command(*words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if done.returncode:
        raise common.Failed(" ".join(done.stderr.split()[:60]))
    return done.stdout


def compare(path, arguments, folder):
    """What a file's outputs differ by: a dictionary for each output."""
    import numpy as np
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    try:
        oracle = Interpreter(
            model_path=str(path),
            experimental_op_resolver_type=OpResolverType.BUILTIN_REF,
            num_threads=1,
        )
        oracle.allocate_tensors()
    except (RuntimeError, ValueError) as error:
        raise common.Failed(f"LiteRT: {str(error).splitlines()[0]}") from error
    inputs, outputs = oracle.get_input_details(), oracle.get_output_details()
    ports = json.loads(command(arguments.tilewright, "info", path, "--json"))
    rows = [{"name": port["name"], "elements": 0, "differ": 0, "most": 0} for port in ports["outputs"]]
    for run in range(arguments.runs):
        random = np.random.default_rng(run)
        words = []
        for place, (detail, port) in enumerate(zip(inputs, ports["inputs"], strict=True)):
            value = given(detail, random, detail["shape"])
            oracle.set_tensor(detail["index"], value)
            np.save(folder / f"input{place}.npy", value)
            words += ["--input", f"{port['name']}={folder / f'input{place}.npy'}"]
        try:
            oracle.invoke()
        except RuntimeError as error:
            raise common.Failed(f"LiteRT: {str(error).splitlines()[0]}") from error
        result = folder / "outputs.npz"
        target = ["--target", arguments.target, "--threads", 1]
        command(arguments.tilewright, "run", path, *words, *target, "--output", result)
        found = np.load(result)
        for row, detail in zip(rows, outputs, strict=True):
            wanted, own = oracle.get_tensor(detail["index"]), found[row["name"]]
            if wanted.dtype != own.dtype or wanted.shape != own.shape:
                raise common.Failed(f"{own.dtype}{own.shape}, not {wanted.dtype}{wanted.shape}")
            row["elements"] += wanted.size
            if wanted.dtype.kind == "f":
                both = np.isnan(wanted) & np.isnan(own) | (wanted == own)
                far = np.abs(np.where(both, 0, wanted - own))
                largest = np.abs(wanted[np.isfinite(wanted)]).max(initial=1e-30)
                most = float(far.max(initial=0) / largest)
                most = most if np.isfinite(most) else float("inf")
                row["differ"] += int(np.count_nonzero(far > TOLERANCE * largest))
            else:
                far = np.abs(wanted.astype(np.int64) - own.astype(np.int64))
                most = int(far.max(initial=0))
                row["differ"] += int(np.count_nonzero(far))
            row["most"] = max(row["most"], most)
    return rows


def main():
    arguments = parser().parse_args()
    results, failed = {}, 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        models = [(path.name, path) for path in arguments.models]
        if arguments.operators:
            import tflite_operators

            kept = arguments.keep or folder
            kept.mkdir(exist_ok=True)
            models += tflite_operators.write(kept, arguments.only)
        for name, path in models:
            try:
                rows = compare(path, arguments, folder)
            except common.Failed as error:
                rows, failed = str(error), failed + 1
                print(f"{name}: {rows}", flush=True)
            else:
                wrong = any(row["differ"] for row in rows)
                failed += wrong
                for row in rows:
                    text = f"{row['differ']} of {row['elements']} differ, by at most {row['most']:.3g}"
                    if wrong or not arguments.operators:
                        print(f"{name}: {row['name']}: {text}", flush=True)
            results[name] = rows
    print(f"{len(results) - failed} of {len(results)} are right")
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()

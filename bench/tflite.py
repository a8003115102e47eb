#!/usr/bin/env python3
"""Compares TensorFlow Lite files with the interpreters that there are for them, on made-up inputs.

    pip install ai-edge-litert tflite-micro
    python bench/tflite.py [--tilewright BINARY] [--runs N] [--target NAME] FILE.tflite...
    python bench/tflite.py --operators [--only NAME] [--keep FOLDER]
    python bench/tflite.py --record crates/import-tflite/tests/operators.npz

The oracles are LiteRT's reference kernels (`OpResolverType.BUILTIN_REF`), its default kernels without
delegates, and TensorFlow Lite Micro. Their integers differ in the last bit in few operators, so how
many elements differ is told for each. A model is right if its integers are those of one of them to the
bit, and its floats differ from LiteRT's by at most 1e-5 of the output's largest value. `--operators`
writes a model for each use of an operator in `tflite_operators.py` and compares that. `--record` writes
some of them with inputs and the outputs of an oracle: the importer's tests.
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
    options.add_argument("--record", type=pathlib.Path, help="writes a few models with their outputs")
    options.add_argument("--with-micro", action="store_true", help="also TensorFlow Lite Micro")
    options.add_argument("--name", help="name of the files in bench/results/")
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


def litert(path, kind):
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    try:
        kind = getattr(OpResolverType, kind)
        oracle = Interpreter(str(path), experimental_op_resolver_type=kind, num_threads=1)
        oracle.allocate_tensors()
    except (RuntimeError, ValueError) as error:
        raise common.Failed(f"LiteRT: {str(error).splitlines()[0]}") from error
    inputs, outputs = oracle.get_input_details(), oracle.get_output_details()

    def run(values):
        for detail, value in zip(inputs, values, strict=True):
            oracle.set_tensor(detail["index"], value)
        try:
            oracle.invoke()
        except RuntimeError as error:
            raise common.Failed(f"LiteRT: {str(error).splitlines()[0]}") from error
        return [oracle.get_tensor(detail["index"]).copy() for detail in outputs]

    return inputs, run


def micro(path, count):
    """The outputs by TensorFlow Lite Micro, in a process of its own, since it may abort."""

    def run(values):
        import numpy as np

        with tempfile.TemporaryDirectory() as name:
            np.savez(f"{name}/in.npz", *values)
            words = [sys.executable, __file__, "--micro", path, str(count), name]
            done = subprocess.run([str(word) for word in words], capture_output=True)
            if done.returncode:
                raise common.Failed("TensorFlow Lite Micro does not run it")
            found = np.load(f"{name}/out.npz")
            return [found[key] for key in found.files]

    return run


def run_micro(path, count, folder):
    import numpy as np
    from tflite_micro import runtime

    oracle = runtime.Interpreter.from_file(path)
    given = np.load(f"{folder}/in.npz")
    for place, key in enumerate(given.files):
        oracle.set_input(given[key], place)
    oracle.invoke()
    np.savez(f"{folder}/out.npz", *[oracle.get_output(place) for place in range(int(count))])


def difference(wanted, own):
    """How many elements of a value are wrong, and by how much."""
    import numpy as np

    if wanted.dtype != own.dtype or wanted.size != own.size:
        raise common.Failed(f"{own.dtype}{own.shape}, not {wanted.dtype}{wanted.shape}")
    own = own.reshape(wanted.shape)
    if wanted.dtype.kind != "f":
        far = np.abs(wanted.astype(np.int64) - own.astype(np.int64))
        return int(np.count_nonzero(far)), int(far.max(initial=0))
    same = np.isnan(wanted) & np.isnan(own) | (wanted == own)
    far = np.abs(np.where(same, 0, wanted - own))
    largest = np.abs(wanted[np.isfinite(wanted)]).max(initial=1e-30)
    most = float(far.max(initial=0) / largest)
    most = most if np.isfinite(most) else 1e30
    return int(np.count_nonzero(far > TOLERANCE * largest)), most


def compare(path, arguments, folder):
    """For each oracle how many elements of all outputs differ, and by how much; none of what it does
    not run."""
    import numpy as np

    ports = json.loads(command(arguments.tilewright, "info", path, "--json"))
    runs, rows, reasons = {}, {}, []
    for name, kind in [("reference", "BUILTIN_REF"), ("default", "BUILTIN_WITHOUT_DEFAULT_DELEGATES")]:
        try:
            inputs, runs[name] = litert(path, kind)
        except common.Failed as failure:
            reasons.append(str(failure))
    if not runs:
        raise common.Failed(reasons[0])
    if arguments.with_micro:
        runs["micro"] = micro(path, len(ports["outputs"]))
    for run in range(arguments.runs):
        random = np.random.default_rng(run)
        values, words = [], []
        for place, (detail, port) in enumerate(zip(inputs, ports["inputs"], strict=True)):
            values.append(given(detail, random, detail["shape"]))
            np.save(folder / f"input{place}.npy", values[-1])
            words += ["--input", f"{port['name']}={folder / f'input{place}.npy'}"]
        result = folder / "outputs.npz"
        target = ["--target", arguments.target, "--threads", 1]
        command(arguments.tilewright, "run", path, *words, *target, "--output", result)
        found = np.load(result)
        for name, oracle in list(runs.items()):
            try:
                wanted = oracle(values)
            except common.Failed as failure:
                reasons.append(str(failure))
                del runs[name]
                continue
            row = rows.setdefault(name, {"elements": 0, "differ": 0, "most": 0})
            for value, port in zip(wanted, ports["outputs"], strict=True):
                differ, most = difference(value, found[port["name"]])
                row["elements"] += value.size
                row["differ"] += differ
                row["most"] = max(row["most"], most)
    if not runs:
        raise common.Failed(reasons[0])
    return {name: row for name, row in rows.items() if name in runs}


def keep(arguments, about, results, said):
    """Writes a table of the models, or of the operators that not all oracles compute alike."""
    oracles = ("reference", "default", "micro")
    if arguments.operators:
        kinds = {}
        for name, rows in results.items():
            kind = kinds.setdefault(name.rsplit("_", 1)[0], {"models": 0, "refused": 0})
            kind["models"] += 1
            kind["refused"] += isinstance(rows, str)
            for oracle in oracles if isinstance(rows, dict) else ():
                if oracle in rows:
                    counts = kind.setdefault(oracle, [0, 0])
                    counts[0] += rows[oracle]["differ"] == 0
                    counts[1] += 1
        results = kinds
        header = ["operator and types", "models", *(f"as {oracle}" for oracle in oracles)]
        rows = [
            [name, kind["models"], *("{} of {}".format(*kind.get(it, (0, 0))) for it in oracles)]
            for name, kind in kinds.items()
            if any(kind[it][0] < kind[it][1] for it in oracles if it in kind)
        ]
    else:
        header = ["model", *(f"{oracle}: elements that differ, most" for oracle in oracles)]
        cell = "{differ} of {elements}, {most:.2g}"
        rows = [
            [name, rows.split("-->")[0], "", ""]
            if isinstance(rows, str)
            else [name, *(cell.format(**rows[it]) if it in rows else "-" for it in oracles)]
            for name, rows in results.items()
        ]
    title = "TensorFlow Lite files against the interpreters that there are for them"
    text = f"{said}\n\n{common.table(header, rows)}"
    common.keep(arguments.name, title, {"origin": about, "results": results}, text)


def record(path):
    """Writes the first models of each operator and types, with inputs and an oracle's outputs."""
    import numpy as np
    import tflite_operators

    entries, counts = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        for name, model in tflite_operators.write(pathlib.Path(folder)):
            kind = name.rsplit("_", 1)[0]
            counts[kind] = counts.get(kind, 0) + 1
            if counts[kind] > (3 if "CONV" in kind else 1) or model.stat().st_size > 8000:
                continue
            # Where LiteRT's own kernels differ from each other, TensorFlow Lite Micro decides.
            differ = kind.startswith(("SUM_i", "FULLY_CONNECTED_i8"))
            for oracle in ("BUILTIN_REF", "BUILTIN_WITHOUT_DEFAULT_DELEGATES"):
                try:
                    inputs, run = litert(model, oracle)
                except common.Failed:
                    continue
                break
            random = np.random.default_rng(7)
            values = [given(detail, random, detail["shape"]) for detail in inputs]
            outputs = run(values)
            if differ:
                try:
                    own = micro(model, len(outputs))(values)
                    outputs = [it.reshape(like.shape) for it, like in zip(own, outputs, strict=True)]
                except common.Failed:
                    _, run = litert(model, "BUILTIN_WITHOUT_DEFAULT_DELEGATES")
                    outputs = run(values)
            entries[name] = np.frombuffer(model.read_bytes(), np.uint8)
            entries |= {f"{name}.in{place}": value for place, value in enumerate(values)}
            entries |= {f"{name}.out{place}": value for place, value in enumerate(outputs)}
    np.savez_compressed(path, **entries)
    print(f"{sum('.' not in key for key in entries)} models in {path}")


def main():
    if sys.argv[1:2] == ["--micro"]:
        return run_micro(*sys.argv[2:])
    arguments = parser().parse_args()
    if arguments.record:
        return record(arguments.record)
    results, failed, same, about = {}, 0, {}, common.origin()
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
                wrong = all(row["differ"] for row in rows.values())
                failed += wrong
                text = "; ".join(
                    f"{oracle} {row['differ']} of {row['elements']}, {row['most']:.2g}"
                    for oracle, row in rows.items()
                )
                if wrong or not arguments.operators or any(row["differ"] for row in rows.values()):
                    print(f"{name}: {text}", flush=True)
                for oracle, row in rows.items():
                    same[oracle] = same.get(oracle, 0) + (row["differ"] == 0)
            results[name] = rows
    each = ", ".join(f"{count} as {oracle}" for oracle, count in same.items())
    said = f"{len(results) - failed} of {len(results)} are right: {each}."
    print(said)
    if arguments.name:
        keep(arguments, about, results, said)
    return sys.exit(bool(failed))


if __name__ == "__main__":
    main()

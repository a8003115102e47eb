#!/usr/bin/env python3
"""Models as files with nothing behind them: what is in them, how fast they are, how they start.

    python bench/artifacts.py [--target x86-64-v4] [--rounds 5] MODEL.onnx...
    python bench/artifacts.py --digests FILE MODEL.onnx...

Of each model an object, a static and a shared library and an engine file are made, on one thread:

- undefined: symbols that `nm` finds undefined in the three;
- code: bytes of each, weights being in a file beside it;
- speed: the least time of a run in process over the least of a run of the shared library; the two
  take turns, and each is a process of its own;
- engine, dlopen: from the file, in the system's cache, to the first answer, over the least time of
  a run: what is left of it, in milliseconds. The library is one with weights inside and its setup
  folded, loaded by its module of Python, whose import comes before. Each is a process of its own,
  on as many cores as there are: constants and memory are made ready beside the first run;
- refit: an engine that takes the weights of another file of the model, in which those of more than
  4 kB are half as large, over one that is compiled, both to the file; processor time, the least of
  three rounds. It must not differ from what is compiled of that file;
- copy: what it takes to copy the engine, over the same: no refit that writes a file whole is below.

`--digests` makes all forms of each model for a target, twice, in two folders, compares their
bytes, and compares their digests with those that FILE holds; it writes those that it has not. A
FILE that another compiler made says nothing of this one: it is made anew. (From commit to commit a
test compares digests of small models: `crates/cli/tests/digests.txt`.)
"""

import hashlib
import json
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile

import common

FORMS = ["object", "static", "shared", "c", "engine"]

WARM = """
import ctypes, sys, time
sys.path.insert(0, sys.argv[1])
import MODULE as module
inputs = [ctypes.create_string_buffer(max(count, 1)) for count in module.INPUT_BYTES]
start = time.perf_counter()
model = module.Model()
views = [memoryview(each).cast("B")[:count] for each, count in zip(inputs, module.INPUT_BYTES)]
model.run(*views)
first = time.perf_counter() - start
outputs = [ctypes.create_string_buffer(max(count, 1)) for count in module.OUTPUT_BYTES]
tables = [(ctypes.c_void_p * max(len(some), 1))(*map(ctypes.addressof, some))
          for some in (inputs, outputs)]
model._arguments.inputs, model._arguments.outputs = map(ctypes.addressof, tables)
run, given = model._library.MODULE_run, ctypes.byref(model._arguments)
least, end = float("inf"), time.perf_counter() + float(sys.argv[2])
while time.perf_counter() < end or least == float("inf"):
    begin = time.perf_counter()
    assert run(given) == 0
    least = min(least, time.perf_counter() - begin)
print(first * 1e3, least * 1e3)
"""


def done(command):
    """What a command prints; ends with what it says where it fails."""
    ran = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if ran.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: {ran.stderr}")
    return ran.stdout


def processor_time(command):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done(command)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def undefined(path):
    said = done(["nm", "-u", path])
    return sum(1 for line in said.splitlines() if line.split()[:1] == ["U"])


def named(folder, extension):
    """The one file in a folder whose name ends so."""
    (found,) = folder.glob(f"*{extension}")
    return found


def of_library(folder, seconds):
    """Milliseconds to the first answer of a shared library, and of its fastest run."""
    module = named(folder, ".py").stem
    said = done([sys.executable, "-c", WARM.replace("MODULE", module), folder, seconds])
    return tuple(map(float, said.split()))


def of_process(options, model, seconds, *more):
    command = [options.tilewright, "bench", model, "--threads", "1", "--json"]
    said = json.loads(done([*command, "--seconds", seconds, *more]))
    return said["compile_ms"] + said["first_run_ms"], said["min_ms"]


def halved(model, path):
    """Writes the model with weights of more than 4 kB half as large."""
    import onnx
    from onnx import numpy_helper

    proto = onnx.load(model)
    for weight in proto.graph.initializer:
        values = numpy_helper.to_array(weight)
        if values.nbytes > 4096 and values.dtype.kind == "f":
            weight.CopyFrom(numpy_helper.from_array(values / 2, weight.name))
    onnx.save(proto, path)


def measured(options, model, folder):
    made = [options.tilewright, "compile", model, "--threads", "1", "--target", options.target]
    made += [word for dim in options.dim for word in ("--dim", dim)]
    row = {"undefined": 0}
    for form, extension in [("object", ".o"), ("static", ".a"), ("shared", ".so")]:
        done([*made, "--emit", form, "-o", folder / form])
        path = named(folder / form, extension)
        row["undefined"] += undefined(path)
        row[extension] = path.stat().st_size
    alone = ["--weights", "inside", "--fold-setup"]
    done([*made, "--emit", "shared", "-o", folder / "alone", *alone])
    row["undefined"] += undefined(named(folder / "alone", ".so"))
    engine, other = folder / "model.tw", folder / f"other-{model.name}"
    compiled, refitted, copied = [], [], []
    halved(model, other)
    done([*made[:2], other, *made[3:], "--emit", "engine", "-o", engine])
    expected = hashlib.sha256(engine.read_bytes()).hexdigest()
    for _ in range(min(options.rounds, 3)):
        compiled.append(processor_time([*made, "--emit", "engine", "-o", engine]))
        weights = [options.tilewright, "compile", other, "--threads", "1"]
        refitted.append(processor_time([*weights, "--emit", "weights", "-o", engine]))
        copied.append(processor_time(["cp", engine, folder / "copy.tw"]))
        row["refit"] = min(refitted) / min(compiled)
        row["copy"] = min(copied) / min(compiled)
        row["refit_same"] = expected == hashlib.sha256(engine.read_bytes()).hexdigest()
    jit, library, first, loaded = [], [], [], []
    dims = [word for dim in options.dim for word in ("--dim", dim)]
    for _ in range(options.rounds):
        target = ["--target", options.target, *dims]
        jit.append(of_process(options, model, options.seconds, *target)[1])
        library.append(of_library(folder / "shared", options.seconds)[1])
        answer, least = of_process(options, engine, options.seconds / 4)
        first.append(answer - least)
        answer, least = of_library(folder / "alone", options.seconds / 4)
        loaded.append(answer - least)
    row["speed"] = min(jit) / min(library)
    row["engine_ms"], row["dlopen_ms"] = min(first), min(loaded)
    row["engine_median_ms"] = sorted(first)[len(first) // 2]
    row["dlopen_median_ms"] = sorted(loaded)[len(loaded) // 2]
    return row


def digests(options, model, folder):
    """The digest of all files of each form; ends where two runs differ."""
    found = {}
    for form in FORMS:
        both = []
        for place in ["one", "another/folder"]:
            output = folder / place / form
            output.parent.mkdir(parents=True, exist_ok=True)
            given = [options.tilewright, "compile", model, "--emit", form, "-o", output]
            dims = [word for dim in options.dim for word in ("--dim", dim)]
            done([*given, "--target", options.target, *dims])
            digest = hashlib.sha256()
            files = [output] if output.is_file() else sorted(output.iterdir())
            for path in files:
                digest.update(path.name.encode() + b"\0" if path != output else b"")
                digest.update(path.read_bytes())
            both.append(digest.hexdigest())
            (shutil.rmtree if output.is_dir() else os.remove)(output)
        if both[0] != both[1]:
            sys.exit(f"{model.name}: {form} is not the same in two folders")
        found[form] = both[0]
    return found


def compare(options):
    path = pathlib.Path(options.digests)
    compiler = common.commit("crates", "Cargo.lock")
    about = f"# Made by {compiler}: another processor gives the same, another compiler need not."
    lines = path.read_text().splitlines() if path.exists() else []
    if lines[:1] != [about]:
        print(f"{path}: made anew, by this compiler", flush=True)
        lines = []
    kept = {tuple(row[:3]): row[3] for row in map(str.split, lines[1:])}
    differ = 0
    for model in options.models:
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            for form, digest in digests(options, model, pathlib.Path(folder)).items():
                known = kept.setdefault((model.name, options.target, form), digest)
                word = "same" if known == digest else "OTHER"
                differ += known != digest
                print(model.name, options.target, form, digest[:16], word, flush=True)
    rows = [f"{' '.join(key)} {kept[key]}" for key in sorted(kept)]
    path.write_text("\n".join([about, *rows]) + "\n")
    sys.exit(3 if differ else 0)


def main():
    options = common.parser(__doc__)
    options.add_argument("--target", default="x86-64-v3", help="the row of the target table")
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--seconds", type=float, default=1.0, help="how long a run is repeated")
    options.add_argument("--digests", metavar="FILE", help="makes and compares digests alone")
    options.add_argument("--folder", help="where files are made (default: the system's)")
    options = options.parse_args()
    if options.digests:
        compare(options)
    result = {"origin": common.origin(), "models": {}}
    for model in options.models:
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            row = measured(options, model, pathlib.Path(folder))
        result["models"][model.stem] = row
        print(model.stem, json.dumps(row), flush=True)
    header = ["model", "undefined", ".o kB", ".a kB", ".so kB", "speed", "engine ms", "median"]
    header += ["dlopen ms", "median", "refit", "copy", "same file"]
    rows = [
        [name, row["undefined"]]
        + [f"{row[form] / 1000:.1f}" for form in (".o", ".a", ".so")]
        + [f"{row['speed']:.3f}"]
        + [f"{row[key]:.2f}" for key in ("engine_ms", "engine_median_ms")]
        + [f"{row[key]:.2f}" for key in ("dlopen_ms", "dlopen_median_ms")]
        + [f"{row['refit']:.3f}", f"{row['copy']:.3f}", "yes" if row["refit_same"] else "NO"]
        for name, row in result["models"].items()
    ]
    common.keep(options.name or "artifacts", "Artifacts", result, common.table(header, rows))


if __name__ == "__main__":
    main()

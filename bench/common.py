"""What race.py and accuracy.py share: model inputs, pinned child processes, machine, tables.

Only the standard library is imported at the top, so that `race.py --setup` runs anywhere.
"""

import argparse
import json
import math
import os
import pathlib
import platform
import re
import subprocess
import sys

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
RESULTS = REPOSITORY / "bench" / "results"


class Failed(Exception):
    """A contender could not run; the message goes into the table."""


def parser(description):
    """An argument parser with the options that both scripts have."""
    options = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("models", nargs="*", type=pathlib.Path, help=".onnx files")
    options.add_argument(
        "--tilewright",
        type=pathlib.Path,
        default=target_folder() / "release" / "tilewright",
        help="the binary (default: that of `cargo build --release`)",
    )
    options.add_argument(
        "--dim", action="append", default=[], metavar="NAME=N", help="binds a symbolic extent"
    )
    options.add_argument("--name", help="name of the files in bench/results/")
    return options


def target_folder():
    return pathlib.Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "target"))


# Models and their inputs


def inputs_of(path, dims):
    """[{name, dtype, shape, symbols, below}] of a model's inputs.

    `dims` are NAME=N texts for symbolic extents. Integers are drawn from 0..below: 2, or the size
    of the table where the input is the index of a Gather from a weight.
    """
    import onnx

    bound = dict(dim.split("=", 1) for dim in dims)
    graph = onnx.load(path, load_external_data=False).graph
    weights = {weight.name: list(weight.dims) for weight in graph.initializer}
    inputs = []
    for value in graph.input:
        if value.name in weights:
            continue
        tensor, shape, symbols = value.type.tensor_type, [], {}
        for dim in tensor.shape.dim:
            name = dim.dim_param
            if dim.HasField("dim_value"):
                shape.append(dim.dim_value)
            elif name in bound:
                shape.append(int(bound[name]))
                symbols[name] = shape[-1]
            else:
                raise Failed(f"`{name}` is unbound; give --dim {name}=N")
        tables = [
            weights[node.input[0]][next((a.i for a in node.attribute if a.name == "axis"), 0)]
            for node in graph.node
            if node.op_type == "Gather" and node.input[1] == value.name and node.input[0] in weights
        ]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        below = min(tables, default=2)
        spec = {"name": value.name, "dtype": str(dtype), "shape": shape}
        inputs.append({**spec, "symbols": symbols, "below": below})
    return inputs


def dims_used(inputs):
    """The NAME=N texts of the symbols that these inputs bind."""
    symbols = {name: n for spec in inputs for name, n in spec["symbols"].items()}
    return [f"{name}={n}" for name, n in symbols.items()]


def random_inputs(inputs, seed, scale=1.0):
    """Floats standard normal times `scale`, integers and booleans uniform; fixed by the seed."""
    import numpy as np

    random = np.random.default_rng(seed)

    def draw(spec):
        if spec["dtype"].startswith("float"):
            return (random.standard_normal(spec["shape"]) * scale).astype(spec["dtype"])
        return random.integers(0, spec["below"], spec["shape"]).astype(spec["dtype"])

    return {spec["name"]: draw(spec) for spec in inputs}


# Child processes


def run_pinned(command, threads, timeout=600):
    """Runs a command on the first `threads` cores that this process may use; returns its stdout."""
    cores = sorted(os.sched_getaffinity(0))
    # One thread keeps away from core 0, where interrupts tend to land.
    chosen = {cores[-1]} if threads == 1 else set(cores[:threads])
    try:
        done = subprocess.run(
            [str(word) for word in command],
            preexec_fn=lambda: os.sched_setaffinity(0, chosen),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Failed(without_paths(str(error))) from None
    if done.returncode != 0:
        words = done.stderr.strip().splitlines() or ["no message"]
        raise Failed(without_paths(f"status {done.returncode}: {words[-1]}"))
    return done.stdout


def without_paths(text):
    """Absolute paths shortened to their last part: results are committed."""
    return re.sub(r"(?<![\w.])/[^\s'\":,]*/([^\s'\":,/]+)", r"\1", text)


# Where a result comes from


def load_average():
    return round(os.getloadavg()[0], 2)


def origin():
    """Machine, commit and command of this run."""
    cpuinfo = pathlib.Path("/proc/cpuinfo").read_text() if os.path.exists("/proc/cpuinfo") else ""
    name = re.search(r"model name\s*: (.*)", cpuinfo)
    words = [pathlib.Path(sys.argv[0]).name]
    words += ["=".join(map(without_folder, word.split("="))) for word in sys.argv[1:]]
    return {
        "cpu": name.group(1) if name else platform.processor() or "unknown",
        "cores": len(os.sched_getaffinity(0)),
        "system": f"{platform.system()} {platform.release()}",
        "commit": commit(),
        "command": " ".join(words),
        "load_before": load_average(),
    }


def without_folder(word):
    """The last part of an absolute path; anything else as it is."""
    return pathlib.Path(word).name if os.path.isabs(word) else word


def commit(*paths):
    """The commit that is checked out; of paths the last one that changed them."""

    def git(*words):
        return subprocess.run(
            ["git", *words, "--", *paths], cwd=REPOSITORY, capture_output=True, text=True
        ).stdout.strip()

    changed = git("status", "--porcelain", "--untracked-files=no")
    last = git("log", "-1", "--abbrev=12", "--format=%h") or "unknown"
    return f"{last} with changes" if changed else last


def peak():
    """`cargo xtask peak --json`, measured now; None where it cannot run."""
    try:
        done = subprocess.run(
            ["cargo", "xtask", "peak", "--json"], cwd=REPOSITORY, capture_output=True, text=True
        )
        return json.loads(done.stdout)
    except (OSError, ValueError):
        return None


# Tables


def mean(values):
    """The geometric mean."""
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def table(header, rows):
    """A markdown table; numbers keep three significant digits."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell(value) for value in line) + " |" for line in lines)


def cell(value):
    if isinstance(value, float):
        return f"{value:.0f}" if value >= 100 else f"{value:.3g}"
    return str(value).replace("|", "/")


def kept(name, part):
    """A part of the result that `keep` wrote last under this name; empty where there is none."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text())[part] if path.exists() else {}


def keep(name, title, result, text):
    """Writes bench/results/NAME.json and NAME.md, and prints the latter."""
    RESULTS.mkdir(exist_ok=True)
    about = result["origin"]
    lines = [
        f"# {title}",
        "",
        f"- machine: {about['cpu']}, {about['cores']} cores, {about['system']}",
        f"- commit: {about['commit']}",
        f"- command: `{about['command']}`",
        f"- load average: {about['load_before']} before, {load_average()} after",
        "",
        text,
    ]
    page = "\n".join(lines) + "\n"
    (RESULTS / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n")
    (RESULTS / f"{name}.md").write_text(page)
    print(page)

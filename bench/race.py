#!/usr/bin/env python3
"""Races `tilewright bench` against ONNX Runtime and OpenVINO in f32, or OpenVINO in bf16.

    python3 bench/race.py --setup DIR             make DIR/venv with the peers (once)
    DIR/venv/bin/python bench/race.py MODEL...    race; the table is kept in bench/results/

Every figure comes from a process of its own. A round runs each contender once, one after the
other, starting with another one each time; ratios are taken within a round, and what is printed are
medians over the rounds. A single absolute time is not a result on a machine that others use too.
"""

import importlib
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import venv

import common
from common import Failed

PEERS = ["onnxruntime", "openvino"]


def main():
    options = common.parser(__doc__)
    options.add_argument("--setup", type=pathlib.Path, metavar="DIR", help="install the peers")
    options.add_argument("--threads", type=int, default=1)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--seconds", type=float, default=2.0, help="of measuring in each process")
    options.add_argument("--target", help="passed to tilewright")
    options.add_argument("--precision", choices=["f32", "bf16"], default="f32")
    options.add_argument("--worker", nargs=2, metavar=("PEER", "JSON"), help="used internally")
    given = options.parse_args()
    if given.setup:
        return setup(given.setup)
    if given.worker:
        return worker(given.worker[0], json.loads(given.worker[1]))
    if not given.models:
        options.error("name at least one model")

    result = {"origin": common.origin(), "threads": given.threads, "peak": common.peak()}
    result["models"] = [race(model, given) for model in given.models]
    title = f"Race, {given.threads} thread{'s' * (given.threads > 1)}, {given.precision}"
    text = report(result)
    common.keep(given.name or f"race-t{given.threads}", title, result, text)


def setup(folder):
    if not (folder / "venv" / "bin" / "python").exists():
        venv.create(folder / "venv", with_pip=True)
    requirements = pathlib.Path(__file__).resolve().with_name("requirements.txt")
    python = folder / "venv" / "bin" / "python"
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*install, "-r", requirements], check=True)
    print(f"now: {python} bench/race.py MODEL...")


# One model


def race(model, given):
    """All rounds of one model: its summaries by contender, and our ratio to each peer."""
    print(f"{model.stem}: load {common.load_average()}", file=sys.stderr)
    contenders = ["tilewright", *PEERS]
    rounds, errors, loads = [], {}, []
    lacking = {} if given.precision == "f32" else {"onnxruntime": "has no such precision"}
    try:
        inputs = common.inputs_of(model, given.dim)
    except Failed as error:
        inputs, errors = [], dict.fromkeys(contenders, str(error))
    errors = {**lacking, **errors}
    for index in range(given.rounds):
        turn = index % len(contenders)
        loads.append(common.load_average())
        times = {}
        for name in contenders[turn:] + contenders[:turn]:
            if name not in errors:
                try:
                    times[name] = once(name, model, inputs, given)
                except Failed as error:
                    errors[name] = str(error)
                    print(f"  {name}: {error}", file=sys.stderr)
        shown = "  ".join(f"{name} {times[name]['median_ms']:.3f}" for name in sorted(times))
        print(f"  round {index + 1}: {shown} ms", file=sys.stderr)
        rounds.append(times)
    summary = {name: summarise([r[name] for r in rounds if name in r]) for name in contenders}
    for name, error in errors.items():
        summary[name] = {"error": error}
    ratio = {peer: paired_ratio(rounds, peer, "median_ms") for peer in PEERS}
    first_ratio = {peer: paired_ratio(rounds, peer, "first_answer_ms") for peer in PEERS}
    # What the peak of resident memory is measured against.
    size = model.stat().st_size if model.exists() else None
    medians = [{name: run["median_ms"] for name, run in times.items()} for times in rounds]
    result = {"model": model.stem, "load": loads, "contenders": summary, "ratio": ratio}
    result |= {"first_answer_ratio": first_ratio, "file_bytes": size}
    return {**result, "rounds_median_ms": medians}


def summarise(runs):
    """Medians over the rounds of each figure; the least of the least times."""
    if not runs:
        return {"error": "no run"}
    # Of calls about as long as one millisecond only some runs have an overhead taken off.
    numbers = [{key for key, value in run.items() if isinstance(value, (int, float))} for run in runs]
    figures = set.intersection(*numbers)
    summary = {key: statistics.median(run[key] for run in runs) for key in figures}
    summary["min_ms"] = min(run["min_ms"] for run in runs)
    return summary


def paired_ratio(rounds, peer, figure):
    """The median over rounds of our time over the peer's; below 1 we are faster."""
    pairs = [r for r in rounds if peer in r and "tilewright" in r]
    ratios = [r["tilewright"][figure] / r[peer][figure] for r in pairs]
    return statistics.median(ratios) if ratios else None


def once(name, model, inputs, given):
    """The figures of one process."""
    if name == "tilewright":
        command = [given.tilewright.resolve(), "bench", model, "--json", "--threads", given.threads]
        command += ["--seconds", given.seconds]
        command += ["--target", given.target] if given.target else []
        command += ["--precision", given.precision]
        for dim in common.dims_used(inputs):
            command += ["--dim", dim]
    else:
        task = {
            "model": str(model),
            "inputs": inputs,
            "threads": given.threads,
            "seconds": given.seconds,
            "precision": given.precision,
        }
        command = [sys.executable, __file__, "--worker", name, json.dumps(task)]
    output = common.run_pinned(command, given.threads)
    try:
        figures = json.loads(output)
        figures.pop("model", None)
        if not figures["median_ms"] > 0 or not figures["min_ms"] > 0:
            raise Failed("median_ms and min_ms must be positive")
        figures["first_answer_ms"] = figures["compile_ms"] + figures["first_run_ms"]
        return figures
    except (ValueError, KeyError, TypeError) as error:
        raise Failed(f"not the promised JSON: {error!r}") from None


# One run of a peer, in its own process


def worker(peer, task):
    importlib.import_module(peer)
    values = common.random_inputs(task["inputs"], seed=1)
    # As `tilewright bench` does: loading is not to measure the disk.
    pathlib.Path(task["model"]).read_bytes()
    start = time.perf_counter()
    call = PEER[peer](task["model"], values, task["threads"], task["precision"])
    compiled = time.perf_counter()
    call()
    first = time.perf_counter()
    times = measure(call, task["seconds"])
    figures = {
        "compile_ms": (compiled - start) * 1e3,
        "first_run_ms": (first - compiled) * 1e3,
        "median_ms": statistics.median(times),
        "min_ms": times[0],
        "p95_ms": times[int(len(times) * 0.95)],
        "runs": len(times),
        "peak_rss_bytes": peak_rss(),
    }
    if figures["median_ms"] < 1:
        # So short a call is partly Python's: take off what the call of an identity costs.
        overhead = measure(identity(peer, task["threads"], task["precision"]), 0.2)
        figures["call_overhead_ms"] = statistics.median(overhead)
        for key in ["median_ms", "min_ms", "p95_ms"]:
            figures[key] -= figures["call_overhead_ms"]
    print(json.dumps(figures))


def measure(call, seconds):
    """Sorted times in ms of calls over `seconds`, after a warm-up of a quarter of that."""
    end = time.perf_counter() + seconds / 4
    while time.perf_counter() < end:
        call()
    times = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 3:
        start = time.perf_counter()
        call()
        times.append((time.perf_counter() - start) * 1e3)
    return sorted(times)


class OnnxRuntime:
    """A session with inputs bound once and outputs bound after the first call, which sizes them."""

    def __init__(self, model, values, threads, _precision):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        providers = ["CPUExecutionProvider"]
        self.session = onnxruntime.InferenceSession(model, options, providers=providers)
        self.binding = self.session.io_binding()
        for name, value in values.items():
            held = onnxruntime.OrtValue.ortvalue_from_numpy(value)
            self.binding.bind_ortvalue_input(name, held)
        self.outputs = [output.name for output in self.session.get_outputs()]
        for name in self.outputs:
            self.binding.bind_output(name)
        self.fixed = False

    def __call__(self):
        self.session.run_with_iobinding(self.binding)
        if not self.fixed:
            buffers = self.binding.get_outputs()
            self.binding.clear_binding_outputs()
            for name, buffer in zip(self.outputs, buffers):
                self.binding.bind_ortvalue_output(name, buffer)
            self.fixed = True


class OpenVino:
    """An inference request with inputs set once; it keeps its own output buffers."""

    def __init__(self, model, values, threads, precision):
        import openvino

        core = openvino.Core()
        network = core.read_model(model)
        if any(port.partial_shape.is_dynamic for port in network.inputs):
            shapes = {name: openvino.PartialShape(list(v.shape)) for name, v in values.items()}
            network.reshape(shapes)
        # Without the first, f32 models run in bf16 where the processor has it.
        properties = {
            "INFERENCE_PRECISION_HINT": precision,
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_NUM_THREADS": threads,
        }
        self.request = core.compile_model(network, "CPU", properties).create_infer_request()
        for name, value in values.items():
            self.request.set_tensor(name, openvino.Tensor(value))

    def __call__(self):
        self.request.infer()


PEER = {"onnxruntime": OnnxRuntime, "openvino": OpenVino}


def identity(peer, threads, precision):
    """A call of a model that copies one number."""
    import numpy
    import onnx
    from onnx import TensorProto, helper

    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/identity.onnx"
        onnx.save(model, path)
        return PEER[peer](path, {"x": numpy.ones(1, numpy.float32)}, threads, precision)


def peak_rss():
    status = pathlib.Path("/proc/self/status").read_text()
    return next(int(l.split()[1]) * 1024 for l in status.splitlines() if l.startswith("VmHWM"))


# The table


def report(result):
    header = ["model", "Tilewright ms", "ONNX Runtime ms", "OpenVINO ms", "of ONNX Runtime",
              "of OpenVINO", "compile ms", "load"]
    rows, notes = [], []
    for model in result["models"]:
        entries = [model["contenders"][name] for name in ["tilewright", *PEERS]]
        medians = [entry.get("median_ms", "failed") for entry in entries]
        ratios = [model["ratio"][peer] for peer in PEERS]
        ratios = ["-" if ratio is None else f"{ratio:.2f}" for ratio in ratios]
        compile_ms = entries[0].get("compile_ms", "-")
        rows.append([model["model"], *medians, *ratios, compile_ms, max(model["load"])])
        for name, entry in model["contenders"].items():
            if "error" in entry:
                notes.append(f"- {model['model']}, {name}: {entry['error']}")
            if "call_overhead_ms" in entry:
                overhead = f"{entry['call_overhead_ms']:.4f} ms of Python's call taken off"
                notes.append(f"- {model['model']}, {name}: {overhead}")
    text = common.table(header, rows)
    explain = "Medians over rounds; the ratios are medians of same-round ratios, below 1 is faster."
    parts = [text, explain, first_answers(result)]
    if result["peak"]:
        figures = result["peak"]["figures"].items()
        which = "one_thread" if result["threads"] == 1 else "all_threads"
        ceilings = [f"{key} {figure[which]:.1f} {figure['unit']}" for key, figure in figures]
        parts.append(f"Ceilings measured before it ({which}): {', '.join(ceilings)}.")
    return "\n\n".join(parts + (["\n".join(notes)] if notes else []))


def first_answers(result):
    """The table of what comes before the steady state, and of memory."""
    header = ["model", "Tilewright compile + first run ms", "ONNX Runtime load + first run ms",
              "OpenVINO ms", "of ONNX Runtime", "of OpenVINO", "peak RSS MB", "limit MB"]
    rows = []
    for model in result["models"]:
        entries = [model["contenders"][name] for name in ["tilewright", *PEERS]]
        rows.append([model["model"]])
        for entry in entries:
            parts = [entry.get("compile_ms"), entry.get("first_run_ms")]
            shown = "failed" if None in parts else " + ".join(common.cell(ms) for ms in parts)
            rows[-1].append(shown)
        ratios = [model["first_answer_ratio"][peer] for peer in PEERS]
        rows[-1] += ["-" if ratio is None else f"{ratio:.2f}" for ratio in ratios]
        own, limit = entries[0], "-"
        if model["file_bytes"] and "arena_bytes" in own:
            limit = 1.15 * (model["file_bytes"] + own["arena_bytes"]) / 1e6 + 40
        peak = own["peak_rss_bytes"] / 1e6 if "peak_rss_bytes" in own else "-"
        rows[-1] += [peak, limit]
    explain = (
        "From the file, in the system's cache, to the first answer. The limit of memory is "
        "1.15 x (file + arena) + 40 MB."
    )
    return f"## File to first answer\n\n{common.table(header, rows)}\n\n{explain}"


if __name__ == "__main__":
    main()

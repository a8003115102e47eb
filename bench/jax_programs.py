"""Programs of JAX on the plugin against XLA on the same processor: results, compiles, runs, calls.

usage: jax_programs.py LIBRARY [--threads 1,2] [--only NAME,...] [--seconds T] [--name NAME]
                      [--clock wall|processor]

LIBRARY is the plugin's (`cargo build --release -p tilewright-pjrt`). Each program runs on both in
one process per number of threads, by turns, for about T seconds; the least time of each counts.
Both see as many processors as threads. `--clock processor` counts what all threads of the process
take of processors: on one thread that is what a run takes on a machine with nothing else to do.
Results are compared with a run of XLA in f64: ours are right where they differ from XLA's by at
most 1e-4 of the greatest element, or from those in f64 by at most three times what XLA's do. Needs
jax.

Leaves results/NAME.json and results/NAME.md.
"""

import argparse
import functools
import json
import math
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CALLS = ["identity of 1 kB", "20 operations on 1 kB"]
CASES = {}
CLOCKS = {"wall": time.perf_counter, "processor": time.process_time}


def case(name, carried=0):
    """A maker of a program and its arguments, of which the first results take the first places."""
    def keep(make):
        CASES[name] = (make, carried)
        return make
    return keep


class Draw:
    """Numbers that are the same in every process."""

    def __init__(self, seed=0):
        import numpy
        self.numpy = numpy
        self.random = numpy.random.RandomState(seed)

    def __call__(self, *shape, scale=1.0):
        return (self.random.standard_normal(shape) * scale).astype(self.numpy.float32)

    def dense(self, rows, columns):
        return self(rows, columns, scale=1 / math.sqrt(rows))

    def whole(self, most, *shape):
        return self.random.randint(0, most, shape).astype(self.numpy.int32)

    def zeros(self, *shape):
        return self.numpy.zeros(shape, self.numpy.float32)

    def ones(self, *shape):
        return self.numpy.ones(shape, self.numpy.float32)


def adam(loss):
    """A step of training: parameters, both moments and the count, then what the loss takes."""
    import jax
    import jax.numpy as jnp

    def step(parameters, mean, square, count, *data):
        value, gradient = jax.value_and_grad(loss)(parameters, *data)
        each = jax.tree_util.tree_map
        mean = each(lambda m, g: 0.9 * m + 0.1 * g, mean, gradient)
        square = each(lambda s, g: 0.999 * s + 0.001 * g * g, square, gradient)
        count = count + 1
        first, second = 1 - 0.9**count, 1 - 0.999**count
        move = lambda p, m, s: p - 1e-3 * (m / first) / (jnp.sqrt(s / second) + 1e-8)
        return each(move, parameters, mean, square), mean, square, count, value
    return step


def trained(parameters, *data):
    import jax
    import numpy
    # Moments as they are while a training is under way: at its first step each gradient counts by
    # its sign alone, that of rounding where it is nothing else.
    full = lambda value: jax.tree_util.tree_map(lambda it: numpy.full_like(it, value), parameters)
    return (parameters, full(0), full(1e-4), numpy.float32(100), *data)


def cross_entropy(logits, labels):
    import jax
    import jax.numpy as jnp
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), labels[..., None], -1))


@case("ResNet-50")
def resnet():
    import jax
    import jax.numpy as jnp
    draw = Draw()
    kernel = lambda size, i, o: draw(size, size, i, o, scale=math.sqrt(1 / (size * size * i)))
    norm = lambda c: (draw.ones(c), draw.zeros(c), draw(c, scale=0.1), draw.ones(c))
    blocks, width = [], 64
    for count, inner in [(3, 64), (4, 128), (6, 256), (3, 512)]:
        for place in range(count):
            block = {"a": (kernel(1, width, inner), norm(inner)),
                     "b": (kernel(3, inner, inner), norm(inner)),
                     "c": (kernel(1, inner, 4 * inner), norm(4 * inner))}
            if place == 0:
                block["s"] = (kernel(1, width, 4 * inner), norm(4 * inner))
            blocks.append(block)
            width = 4 * inner
    parameters = {"stem": (kernel(7, 3, 64), norm(64)), "blocks": blocks,
                  "head": draw.dense(2048, 1000)}
    strides = [2 if place in (3, 7, 13) else 1 for place in range(16)]

    def convolved(x, layer, stride=1):
        weight, (scale, shift, mean, variance) = layer
        x = jax.lax.conv_general_dilated(x, weight, (stride, stride), "SAME",
                                         dimension_numbers=("NHWC", "HWIO", "NHWC"))
        return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * scale + shift

    def run(parameters, x):
        x = jax.nn.relu(convolved(x, parameters["stem"], 2))
        x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
        for block, stride in zip(parameters["blocks"], strides):
            y = jax.nn.relu(convolved(x, block["a"]))
            y = jax.nn.relu(convolved(y, block["b"], stride))
            y = convolved(y, block["c"])
            x = jax.nn.relu(y + (convolved(x, block["s"], stride) if "s" in block else x))
        return x.mean((1, 2)) @ parameters["head"]
    return run, (parameters, draw(1, 224, 224, 3))


def layers_of(draw, count, width):
    norm = lambda: (draw.ones(width), draw.zeros(width))
    layer = lambda: {"n1": norm(), "qkv": draw.dense(width, 3 * width),
                     "o": draw.dense(width, width), "n2": norm(),
                     "up": draw.dense(width, 4 * width), "down": draw.dense(4 * width, width)}
    return [layer() for _ in range(count)]


def normal(x, layer):
    import jax
    scale, shift = layer
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * scale + shift


def attended(x, layer, heads, mask=None):
    import jax
    import jax.numpy as jnp
    batch, places, width = x.shape
    parts = jnp.split((x @ layer["qkv"]).reshape(batch, places, 3 * heads, -1), 3, axis=2)
    q, k, v = parts
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(width // heads)
    if mask is not None:
        scores = jnp.where(mask, scores, -1e9)
    mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v)
    return mixed.reshape(batch, places, width) @ layer["o"]


def transformed(x, layers, heads, mask=None):
    import jax
    for layer in layers:
        x = x + attended(normal(x, layer["n1"]), layer, heads, mask)
        x = x + jax.nn.gelu(normal(x, layer["n2"]) @ layer["up"]) @ layer["down"]
    return x


@case("encoder")
def encoder():
    draw = Draw()
    run = lambda layers, x: transformed(x, layers, 8)
    return run, (layers_of(draw, 6, 512), draw(1, 128, 512))


@case("GPT with a cache", carried=1)
def decoder():
    import jax
    import jax.numpy as jnp
    draw, width, heads, most = Draw(), 384, 6, 256
    parameters = {"words": draw(8192, width, scale=0.1), "places": draw(most, width, scale=0.1),
                  "layers": layers_of(draw, 6, width),
                  "last": (draw.ones(width), draw.zeros(width))}
    cache = [(draw(heads, most, 64), draw(heads, most, 64)) for _ in range(6)]

    def run(cache, parameters, word, place):
        x = parameters["words"][word] + parameters["places"][place]
        mask, kept = jnp.arange(most) <= place, []
        for layer, (keys, values) in zip(parameters["layers"], cache):
            q, k, v = (normal(x, layer["n1"]) @ layer["qkv"]).reshape(3, heads, 64)
            keys = jax.lax.dynamic_update_slice_in_dim(keys, k[:, None], place, 1)
            values = jax.lax.dynamic_update_slice_in_dim(values, v[:, None], place, 1)
            kept.append((keys, values))
            scores = jnp.where(mask, jnp.einsum("hd,hkd->hk", q, keys) / 8, -1e9)
            mixed = jnp.einsum("hk,hkd->hd", jax.nn.softmax(scores), values)
            x = x + mixed.reshape(width) @ layer["o"]
            x = x + jax.nn.gelu(normal(x, layer["n2"]) @ layer["up"]) @ layer["down"]
        return kept, normal(x, parameters["last"]) @ parameters["words"].T
    return run, (cache, parameters, draw.numpy.int32(17), draw.numpy.int32(200))


@case("LSTM by scan")
def lstm():
    import jax
    import jax.numpy as jnp
    draw = Draw()

    def run(w, u, b, xs):
        def turn(state, x):
            h, c = state
            i, f, g, o = jnp.split(x @ w + h @ u + b, 4, axis=-1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h
        start = jnp.zeros((xs.shape[1], u.shape[0]), xs.dtype)
        return jax.lax.scan(turn, (start, start), xs)
    return run, (draw.dense(64, 512), draw.dense(128, 512), draw.zeros(512), draw(64, 16, 64))


@case("MLP training with Adam", carried=4)
def mlp():
    import jax
    draw = Draw()
    layers = [(draw.dense(i, o), draw.zeros(o)) for i, o in [(784, 256), (256, 256), (256, 10)]]

    def loss(layers, x, labels):
        for weight, bias in layers[:-1]:
            x = jax.nn.relu(x @ weight + bias)
        return cross_entropy(x @ layers[-1][0] + layers[-1][1], labels)
    return adam(loss), trained(layers, draw(128, 784), draw.whole(10, 128))


@case("convolutional training with Adam", carried=4)
def convolutional():
    import jax
    draw = Draw()
    parameters = {"a": draw(3, 3, 1, 16, scale=0.3), "b": draw(3, 3, 16, 32, scale=0.1),
                  "c": draw.dense(7 * 7 * 32, 10), "d": draw.zeros(10)}

    def loss(parameters, x, labels):
        for name in "ab":
            x = jax.lax.conv_general_dilated(x, parameters[name], (1, 1), "SAME",
                                             dimension_numbers=("NHWC", "HWIO", "NHWC"))
            x = jax.nn.relu(x)
            x = jax.lax.reduce_window(x, -float("inf"), jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1),
                                      "VALID")
        return cross_entropy(x.reshape(len(x), -1) @ parameters["c"] + parameters["d"], labels)
    return adam(loss), trained(parameters, draw(32, 28, 28, 1), draw.whole(10, 32))


@case("GPT training step", carried=4)
def gpt_training():
    import numpy
    draw, width, places = Draw(), 128, 64
    parameters = {"words": draw(256, width, scale=0.1), "places": draw(places, width, scale=0.1),
                  "layers": layers_of(draw, 2, width),
                  "last": (draw.ones(width), draw.zeros(width))}
    mask = numpy.tril(numpy.ones((places, places), bool))

    def loss(parameters, words, labels):
        x = parameters["words"][words] + parameters["places"]
        x = normal(transformed(x, parameters["layers"], 4, mask), parameters["last"])
        return cross_entropy(x @ parameters["words"].T, labels)
    words = draw.whole(256, 4, places)
    return adam(loss), trained(parameters, words, numpy.roll(words, -1, 1))


@case("ODE by while_loop")
def ode():
    import jax
    import jax.numpy as jnp
    draw = Draw()

    def run(weight, y):
        slope = lambda y: jnp.tanh(y @ weight) - 0.1 * y

        def turn(state):
            t, y, h, count = state
            a = slope(y)
            b = slope(y + h * a / 2)
            c = slope(y + h * 3 * b / 4)
            new = y + h * (2 * a + 3 * b + 4 * c) / 9
            d = slope(new)
            error = jnp.max(jnp.abs(h * (-5 * a / 72 + b / 12 + c / 9 - d / 8))) / 1e-4
            right = error <= 1
            factor = jnp.clip(0.9 * jnp.maximum(error, 1e-6) ** (-1 / 3), 0.2, 5.0)
            t, y = jnp.where(right, t + h, t), jnp.where(right, new, y)
            return t, y, jnp.minimum(h * factor, 5.0 - t), count + 1
        going = lambda state: (state[0] < 5.0 - 1e-5) & (state[3] < 1000)
        begin = (jnp.zeros((), y.dtype), y, jnp.full((), 0.01, y.dtype), jnp.int32(0))
        return jax.lax.while_loop(going, turn, begin)[1]
    return run, (draw.dense(64, 64), draw(16, 64))


@case("k-means")
def k_means():
    import jax
    import jax.numpy as jnp
    draw = Draw()
    points = draw(4096, 16) + 8 * draw(32, 16)[draw.whole(32, 4096)]

    def run(points):
        def turn(_, centres):
            away = (points**2).sum(1)[:, None] - 2 * points @ centres.T + (centres**2).sum(1)
            nearest = jnp.argmin(away, 1)
            sums = jnp.zeros_like(centres).at[nearest].add(points)
            counts = jnp.zeros(len(centres), points.dtype).at[nearest].add(1)
            return jnp.where(counts[:, None] > 0, sums / jnp.maximum(counts, 1)[:, None], centres)
        return jax.lax.fori_loop(0, 10, turn, points[:32])
    return run, (points,)


@case("FFT filter")
def fft_filter():
    import jax.numpy as jnp
    draw = Draw()

    def run(x, response):
        return jnp.fft.irfft(jnp.fft.rfft(x) * jnp.fft.rfft(response, 4096), 4096).astype(x.dtype)
    return run, (draw(16, 4096), draw(129, scale=0.1))


@case("sorting")
def sorting():
    import jax
    import jax.numpy as jnp
    draw = Draw()

    def run(x, rows, keys):
        order = jnp.argsort(rows, axis=-1)
        pairs = jax.lax.sort((keys, x[: len(keys)]), num_keys=2)
        return jnp.sort(x), jnp.take_along_axis(rows, order, -1), pairs, jax.lax.top_k(x, 100)[0]
    return run, (draw(50000), draw(64, 1024), draw.whole(100, 10000))


@case("hessian of an MLP")
def hessian():
    import jax
    import jax.numpy as jnp
    draw = Draw()

    def run(flat, x, y):
        def loss(flat):
            w, b, v = flat[:128].reshape(8, 16), flat[128:144], flat[144:]
            return jnp.mean((jnp.tanh(x @ w + b) @ v - y) ** 2)
        return jax.hessian(loss)(flat)
    return run, (draw(160, scale=0.3), draw(32, 8), draw(32))


@case("Gaussian process")
def gaussian_process():
    import jax
    import jax.numpy as jnp
    draw = Draw()

    def run(x, y, at, length):
        def kernel(a, b, length):
            away = ((a[:, None] - b[None]) ** 2).sum(-1)
            return jnp.exp(-away / (2 * length**2))

        def likelihood(length):
            noise = 0.1 * jnp.eye(len(x), dtype=x.dtype)
            factor = jnp.linalg.cholesky(kernel(x, x, length) + noise)
            half = jax.scipy.linalg.solve_triangular(factor, y, lower=True)
            return -0.5 * half @ half - jnp.log(jnp.diagonal(factor)).sum(), factor
        (value, factor), slope = jax.value_and_grad(likelihood, has_aux=True)(length)
        solved = jax.scipy.linalg.cho_solve((factor, True), y)
        across = kernel(at, x, length)
        spread = jax.scipy.linalg.solve_triangular(factor, across.T, lower=True)
        return across @ solved, 1 - (spread**2).sum(0), value, slope
    return run, (draw(256, 4), draw(256), draw(64, 4), Draw().numpy.float32(1.5))


def small_calls():
    """The calls whose cost is the dispatch: a function and its argument each."""
    import jax.numpy as jnp
    draw = Draw()

    def twenty(x):
        for place in range(10):
            x = jnp.sin(x) * (1.0 + place)
        return x
    return {CALLS[0]: (lambda x: x, draw(256)), CALLS[1]: (twenty, draw(256))}


def least(run, now, seconds, most=10**9):
    """The least time of a call by a clock, of as many as fit."""
    times, end = [], time.perf_counter() + seconds
    while len(times) < 3 or (time.perf_counter() < end and len(times) < most):
        begin = now()
        run()
        times.append(now() - begin)
    return min(times)


def worker(only, seconds, now):
    """Runs programs on both platforms by turns; a line of JSON each."""
    import jax
    import numpy
    jax.config.update("jax_enable_compilation_cache", False)
    devices = {"xla": jax.devices("cpu")[0], "ours": jax.devices("tilewright")[0]}
    leaves = jax.tree_util.tree_leaves
    flat = lambda tree: [numpy.asarray(leaf, dtype=numpy.float64) for leaf in leaves(tree)]

    def tell(entry):
        print("RESULT " + json.dumps(entry), flush=True)

    for name, (function, argument) in small_calls().items():
        if only and name not in only:
            continue
        calls = {}
        for platform, device in devices.items():
            jitted = jax.jit(function)
            calls[platform] = functools.partial(jitted, jax.device_put(argument, device))
        times = {platform: [] for platform in calls}
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            for platform, call in calls.items():
                for _ in range(20):
                    call()
                call().block_until_ready()
                begin = now()
                for _ in range(100):
                    call()
                call().block_until_ready()
                times[platform].append((now() - begin) / 101)
        tell({"name": name, **{f"{platform} run": min(found) for platform, found in times.items()}})

    for name, (make, carried) in CASES.items():
        if only and name not in only:
            continue
        entry = {"name": name}
        results, calls = {}, {}
        try:
            for platform, device in devices.items():
                best = math.inf
                for _ in range(3):
                    jax.clear_caches()
                    function, arguments = make()
                    placed = jax.device_put(arguments, device)
                    lowered = jax.jit(function, donate_argnums=tuple(range(carried))).lower(*placed)
                    begin = now()
                    compiled = lowered.compile()
                    best = min(best, now() - begin)
                    if best > 20:
                        break
                entry[f"{platform} compile"] = best
                found = compiled(*placed)
                results[platform] = flat(found)
                state = {"arguments": list(jax.device_put(arguments, device))}

                def call(compiled=compiled, state=state):
                    found = jax.block_until_ready(compiled(*state["arguments"]))
                    if carried == 1 and len(found) >= 1:
                        state["arguments"][0] = found[0]
                    elif carried:
                        state["arguments"][:carried] = found[:carried]
                calls[platform] = call
            times = {platform: math.inf for platform in calls}
            end = time.perf_counter() + seconds
            while time.perf_counter() < end or math.inf in times.values():
                for platform, call in calls.items():
                    call()
                    times[platform] = min(times[platform], least(call, now, seconds / 20, 50))
            entry |= {f"{platform} run": found for platform, found in times.items()}
            with jax.enable_x64(True):
                function, arguments = make()
                is_float = lambda leaf: leaf.dtype == numpy.float32
                wide = lambda leaf: leaf.astype(numpy.float64) if is_float(leaf) else leaf
                arguments = jax.device_put(jax.tree_util.tree_map(wide, arguments), devices["xla"])
                truth = flat(jax.jit(function)(*arguments))
            greatest = lambda x: float(numpy.max(numpy.abs(x), initial=0))
            relative = lambda x, y: greatest(x - y) / (greatest(y) or 1)
            away = lambda a, b: max(relative(x, y) for x, y in zip(a, b))
            entry["ours from xla"] = away(results["ours"], results["xla"])
            entry["ours from f64"] = away(results["ours"], truth)
            entry["xla from f64"] = away(results["xla"], truth)
        except Exception as error:
            entry["error"] = f"{type(error).__name__}: {error}"[:2000]
        tell(entry)


def first_jit(library):
    """The least time, of three, from the start of Python to the first result of a program."""
    text = "import jax; jax.jit(lambda x: x * 2 + 1)(1.0).block_until_ready()"
    found = {}
    for _ in range(3):
        for platform in ["cpu", "tilewright"]:
            environment = os.environ | {"JAX_PLATFORMS": platform, "TILEWRIGHT_PLUGIN": library}
            environment["PYTHONPATH"] = str(ROOT / "crates/pjrt/python")
            begin = time.perf_counter()
            subprocess.run([sys.executable, "-c", text], env=environment, check=True)
            spent = time.perf_counter() - begin
            found[platform] = min(found.get(platform, math.inf), spent)
    return found


def milliseconds(seconds):
    return f"{seconds * 1e3:.3g}"


def written(report):
    lines = [f"`{report['command']}`", "", f"{report['machine']}; load {report['load']}", ""]
    for threads, entries in report["threads"].items():
        rows = [entry for entry in entries if "error" not in entry]
        lines += [f"Threads: {threads}", "",
                  "| program | compile XLA, ms | ours | times | run XLA, ms | ours | times | right | "
                  "from XLA |",
                  "|---|---|---|---|---|---|---|---|---|"]
        ratios, compiles = [], []
        for entry in rows:
            ratio = entry["xla run"] / entry["ours run"]
            if "xla compile" not in entry:
                lines.append(f"| {entry['name']} | | | | {milliseconds(entry['xla run'])} | "
                             f"{milliseconds(entry['ours run'])} | {ratio:.2f} | | |")
                continue
            ratios.append(ratio)
            faster = entry["xla compile"] / entry["ours compile"]
            compiles.append(faster)
            right = entry["ours from xla"] <= 1e-4
            right |= entry["ours from f64"] <= 3 * entry["xla from f64"]
            lines.append(
                f"| {entry['name']} | {milliseconds(entry['xla compile'])} | "
                f"{milliseconds(entry['ours compile'])} | {faster:.1f} | "
                f"{milliseconds(entry['xla run'])} | {milliseconds(entry['ours run'])} | "
                f"{ratio:.2f} | {'yes' if right else 'NO'} | {entry['ours from xla']:.1e} |")
        mean = lambda values: math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan
        lines.append(f"| geometric mean | | | {mean(compiles):.1f} | | | {mean(ratios):.2f} | | |")
        lines += [f"\n{entry['name']}: {entry['error']}" for entry in entries if "error" in entry]
        lines.append("")
    first = report["first jit"]
    lines.append(f"`import jax` and the first jit: XLA {first['cpu']:.2f} s, "
                 f"ours {first['tilewright']:.2f} s.")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--name", default="jax_programs")
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    parser.add_argument("--worker", action="store_true")
    options = parser.parse_args()
    only = [name for name in options.only.split(",") if name]
    if options.worker:
        return worker(only, options.seconds, CLOCKS[options.clock])
    report = {"threads": {}, "load": f"{os.getloadavg()[0]:.1f}"}
    names = [line for line in open("/proc/cpuinfo") if line.startswith("model name")]
    report["machine"] = names[0].split(":")[1].strip() if names else "unknown"
    library = str(Path(options.library).resolve())
    for threads in map(int, options.threads.split(",")):
        processors = sorted(os.sched_getaffinity(0))[:threads]
        environment = os.environ | {"JAX_PLATFORMS": "cpu,tilewright", "TILEWRIGHT_PLUGIN": library}
        environment["PYTHONPATH"] = str(ROOT / "crates/pjrt/python")
        command = [sys.executable, __file__, library, "--worker", "--seconds", str(options.seconds)]
        command += ["--clock", options.clock]
        command += ["--only", options.only] if only else []
        ran = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True,
                               preexec_fn=lambda: os.sched_setaffinity(0, processors))
        entries = []
        for line in ran.stdout:
            if line.startswith("RESULT "):
                entries.append(json.loads(line[7:]))
                print(threads, entries[-1], file=sys.stderr)
        ran.wait()
        if ran.returncode != 0:
            entries.append({"name": "the process", "error": f"ended with {ran.returncode}"})
        report["threads"][threads] = entries
    report["first jit"] = first_jit(library)
    report["command"] = "bench/jax_programs.py LIBRARY " + " ".join(sys.argv[2:])
    folder = ROOT / "bench/results"
    (folder / f"{options.name}.json").write_text(json.dumps(report, indent=1) + "\n")
    (folder / f"{options.name}.md").write_text(written(report))
    print(written(report))


if __name__ == "__main__":
    main()

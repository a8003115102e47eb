"""Programs of JAX as StableHLO texts, with inputs and what XLA computes of them.

    pip install jax==0.10.2
    python bench/stablehlo.py --record crates/import-stablehlo/tests/programs

writes NAME.mlir for each program, NAME.bc with its bytecode as `jax.export` makes it, what that writes of
one of them whole, and one archive `values.npz` with `NAME.in0`, `NAME.out0` and so
on. Complex values are kept as the ports of a compiled program have them: parts along a last axis.
The tests of `import-stablehlo` run them.

    python bench/stablehlo.py --dynamic testdata/dynamic --tilewright BINARY

runs texts with free extents, each of which is set to 3, on made-up inputs, and compares what the
binary computes with StableHLO's own interpreter, which gets the text with these extents put in.

    python bench/stablehlo.py --compare 2 --tilewright BINARY

runs the programs and the functions of `jax_functions.py`, as `jax.export` writes them, each on so
many sets of random inputs, and compares what the binary computes with XLA.
"""

import argparse
import collections
import concurrent.futures
import pathlib
import re
import subprocess
import tempfile

import jax
import jax.export
import jax.numpy as jnp
import numpy

PROGRAMS = {}


def program(*shapes):
    """A program of arrays of these shapes: numbers, or (shape, how an array is made of a generator)."""

    def add(function):
        PROGRAMS[function.__name__] = (function, shapes)
        return function

    return add


def integers(low, high, shape, dtype=numpy.int32):
    return lambda generator: generator.integers(low, high, shape).astype(dtype)


def complex_numbers(*shape):
    def make(generator):
        return (generator.standard_normal(shape) + 1j * generator.standard_normal(shape)).astype(numpy.complex64)

    return make


def cross_entropy(logits, labels):
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], axis=1).mean()


@program((4, 8), (8, 16), (16,), (16, 3))
def mlp(x, w1, b1, w2):
    return jax.nn.softmax(jax.nn.gelu(x @ w1 + b1) @ w2)


@program((4, 8), (8, 16), (16, 3), integers(0, 3, (4,)))
def mlp_step(x, w1, w2, labels):
    loss = lambda w1, w2: cross_entropy(jnp.tanh(x @ w1) @ w2, labels)
    value, (g1, g2) = jax.value_and_grad(loss, (0, 1))(w1, w2)
    return value, w1 - 0.1 * g1, w2 - 0.1 * g2


@program((2, 3, 8, 8), (4, 3, 3, 3), (256, 5), integers(0, 5, (2,)))
def convolution_step(x, w, dense, labels):
    def loss(w, dense):
        y = jax.lax.conv_general_dilated(x, w, (1, 1), "SAME")
        y = jax.nn.relu(y)
        y = jax.lax.reduce_window(y, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 1, 1), "SAME")
        return cross_entropy(y.reshape(2, -1) @ dense, labels)

    return jax.grad(loss, (0, 1))(w, dense)


@program((2, 6, 8), (8, 24), (8, 8))
def attention(x, w, out):
    q, k, v = jnp.split((x @ w).reshape(2, 6, 2, 12).transpose(0, 2, 1, 3), 3, axis=-1)
    mask = jnp.tril(jnp.ones((6, 6), bool))
    scores = jnp.where(mask, jnp.einsum("bhqd,bhkd->bhqk", q, k) / 2, -1e9)
    y = jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores), v)
    return y.transpose(0, 2, 1, 3).reshape(2, 6, 8) @ out


@program((5, 2, 3), (7, 16), (2, 4))
def lstm(x, w, start):
    def cell(carry, x):
        h, c = carry
        i, f, g, o = jnp.split(jnp.concatenate([x, h], -1) @ w, 4, axis=-1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    return jax.lax.scan(cell, (start, start), x)


@program((1, 8, 4), (1, 1, 4), integers(0, 8, ()))
def cache(keys, new, position):
    keys = jax.lax.dynamic_update_slice(keys, new, (0, position, 0))
    return keys, jax.lax.dynamic_slice(keys, (0, position - 2, 1), (1, 3, 2))


@program((3,))
def ode(start):
    def step(state):
        t, y = state
        f = lambda y: jnp.stack([10 * (y[1] - y[0]), y[0] * (28 - y[2]) - y[1], y[0] * y[1] - 8 / 3 * y[2]])
        return t + 0.01, y + 0.01 * f(y + 0.005 * f(y))

    return jax.lax.while_loop(lambda state: state[0] < 0.2, step, (0.0, start))


@program((40, 2), (3, 2))
def k_means(points, centres):
    def turn(_, centres):
        distances = ((points[:, None] - centres[None]) ** 2).sum(-1)
        nearest = jnp.argmin(distances, 1)
        sums = jax.ops.segment_sum(points, nearest, 3)
        return sums / jnp.maximum(jnp.bincount(nearest, length=3), 1)[:, None]

    return jax.lax.fori_loop(0, 4, turn, centres)


@program((3, 96))
def fourier_filter(x):
    spectrum = jnp.fft.rfft(x)
    return jnp.fft.irfft(spectrum * (jnp.arange(49) < 12))


@program((5, 9), integers(-50, 50, (5, 9)))
def sorting(x, y):
    return jnp.sort(x), jnp.argsort(y, axis=0), jax.lax.top_k(x, 4), jax.lax.sort((y % 5, x), num_keys=2)


@program((6, 6), (6, 2))
def gaussian_process(x, y):
    kernel = x @ x.T + 6 * jnp.eye(6)
    factor = jax.lax.linalg.cholesky(kernel, symmetrize_input=False)
    return factor, jax.lax.linalg.triangular_solve(factor, y, left_side=True, lower=True)


@program((4,), (4, 5), (5, 1))
def hessian(x, w1, w2):
    return jax.hessian(lambda x: (jnp.tanh(x @ w1) @ w2)[0])(x)


@program(integers(0, 1 << 31, (2,), numpy.uint32))
def random(key):
    a, b = jax.random.split(jax.random.wrap_key_data(key))
    return jax.random.uniform(a, (3, 5)), jax.random.normal(b, (7,)), jax.random.bits(a, (4,), "uint32")


@program(integers(-99, 99, (7,)), integers(-3, 4, (7,)))
def whole_numbers(a, b):
    return a // 3, a % 5, a << jnp.abs(b), a >> 1, a ^ b, jax.lax.population_count(a), jax.lax.clz(a), a / b


@program((4, 3), integers(0, 3, ()))
def branches(x, which):
    y = jax.lax.switch(which, [jnp.sin, jnp.cos, lambda x: x * x], x)
    return jax.lax.cond(y.sum() > 0, lambda y: y - 1, lambda y: y + 1, y)


@program((6, 4), integers(0, 6, (5,)), (5, 4))
def scatters(table, rows, updates):
    return table.at[rows].add(updates), table.at[rows, 1].mul(2), table.at[rows].max(updates), table[rows, ::-1]


@program((4, 7))
def running(x):
    return jnp.cumsum(x, 1), jnp.cumprod(x, 0), jax.lax.cummax(x, 1), jnp.argmax(x, 1), jnp.var(x, 0), jnp.median(x)


@program(complex_numbers(3, 4), complex_numbers(4, 2))
def complex_products(a, b):
    return a @ b, jnp.exp(a), jnp.abs(b), jnp.sqrt(a), a / 3j, jnp.conj(b).sum()


@program((20,))
def special(x):
    import jax.scipy.special as functions

    y = jnp.abs(x) + 0.1
    return functions.erf(x), functions.erfc(x), functions.gammaln(y), functions.digamma(y), functions.erfinv(jnp.tanh(x))


@program(((3, 4)), ((4, 3)))
def short_floats(a, b):
    a, b = a.astype(jnp.bfloat16), b.astype(jnp.bfloat16)
    return (jnp.dot(a, b, preferred_element_type=jnp.float32), (a + 1).astype(jnp.float16).astype(jnp.float32))


def ports(value):
    value = numpy.asarray(value)
    if numpy.iscomplexobj(value):
        value = numpy.stack([value.real, value.imag], -1)
    return value


def record(folder):
    folder.mkdir(parents=True, exist_ok=True)
    # Locations name files without folders, and come out the same everywhere.
    jax.config.update("jax_hlo_source_file_canonicalization_regex", ".*/")
    values = {}
    for name, (function, made) in PROGRAMS.items():
        generator = numpy.random.default_rng(len(name))
        inputs = [
            it(generator) if callable(it) else generator.standard_normal(it).astype(numpy.float32) for it in made
        ]
        compiled = jax.jit(function)
        (folder / f"{name}.mlir").write_text(compiled.lower(*inputs).as_text())
        exported = jax.export.export(compiled)(*inputs)
        (folder / f"{name}.bc").write_bytes(exported.mlir_module_serialized)
        if name == "mlp":
            (folder / f"{name}.jaxexport").write_bytes(exported.serialize())
        outputs = jax.tree_util.tree_leaves(compiled(*inputs))
        for side, arrays in (("in", inputs), ("out", outputs)):
            for number, array in enumerate(arrays):
                values[f"{name}.{side}{number}"] = ports(array)
        print(name, len(inputs), len(outputs))
    numpy.savez(folder / "values.npz", **values)


NUMPY = {
    "i1": numpy.bool_, "i8": numpy.int8, "i16": numpy.int16, "i32": numpy.int32, "i64": numpy.int64,
    "ui8": numpy.uint8, "ui16": numpy.uint16, "ui32": numpy.uint32, "ui64": numpy.uint64,
    "f16": numpy.float16, "f32": numpy.float32, "f64": numpy.float64,
    "complex<f32>": numpy.complex64, "complex<f64>": numpy.complex128,
}
TENSOR = r"tensor<((?:(?:\d+|\?)x)*)((?:complex<f\d+>)|[a-z]\w*)>"


def made_up(generator, shape, element):
    dtype = NUMPY[element]
    if numpy.issubdtype(dtype, numpy.complexfloating):
        return (generator.standard_normal(shape) + 1j * generator.standard_normal(shape)).astype(dtype)
    if numpy.issubdtype(dtype, numpy.floating):
        return numpy.asarray(generator.standard_normal(shape)).astype(dtype)
    return numpy.asarray(generator.integers(0, 2 if dtype is numpy.bool_ else 3, shape)).astype(dtype)


def with_extents(text, extent, generator):
    """A text whose function `main` has fixed extents, its inputs; short floats come and go as f32."""
    signature = re.search(r"@main\((.*?)\) -> (.*?) \{\n", text, re.S)
    inputs, types, lines, passed, old = [], [], [], [], []
    for number, (dims, element) in enumerate(re.findall(TENSOR, signature.group(1))):
        declared = f"tensor<{dims}{element}>"
        shape = [extent if it == "?" else int(it) for it in dims.split("x")[:-1]]
        wide = "f32" if element == "bf16" else element
        fixed = "tensor<" + "".join(f"{it}x" for it in shape) + wide + ">"
        old.append(declared)
        types.append(fixed)
        # JAX gives the values of symbols first.
        if not shape and element == "i64" and all(it.shape == () for it in inputs):
            inputs.append(numpy.array(extent, numpy.int64))
            lines.append(f"%c{number} = stablehlo.constant dense<{extent}> : tensor<i64>")
            passed.append(f"%c{number}")
            continue
        inputs.append(made_up(generator, shape, wide))
        if fixed != declared:
            lines.append(f"%c{number} = stablehlo.convert %a{number} : ({fixed}) -> {declared}")
        passed.append(f"%c{number}" if fixed != declared else f"%a{number}")
    results = [f"tensor<{dims}{element}>" for dims, element in re.findall(TENSOR, signature.group(2))]
    lines.append(
        f"%r:{len(results)} = call @main_free({', '.join(passed)}) : ({', '.join(old)}) -> ({', '.join(results)})"
    )
    # The interpreter's values reach Python where they are plain: complex ones as two.
    returned, wide = [], []
    for number, before in enumerate(results):
        after = re.sub(r"complex<(f\d+)>", r"\1", before).replace("bf16", "f32")
        ways = ["real", "imag"] if "complex" in before else ["convert"] if before != after else []
        for way in ways:
            lines.append(f"%{way}{number} = stablehlo.{way} %r#{number} : ({before}) -> {after}")
        returned += [f"%{way}{number}" for way in ways] or [f"%r#{number}"]
        wide += [after] * max(len(ways), 1)
    parameters = ", ".join(f"%a{number}: {it}" for number, it in enumerate(types))
    lines.append(f"return {', '.join(returned)} : {', '.join(wide)}")
    text = re.sub(r"func.func( public)? @main\(", "func.func private @main_free(", text)
    end = text.rindex("}")
    main = f"func.func public @main({parameters}) -> ({', '.join(wide)}) {{\n" + "\n".join(lines) + "\n}\n"
    return text[:end] + main + text[end:], inputs, types, ["complex" in it for it in results]


def interpreted(text, inputs, types, is_complex):
    """What StableHLO's interpreter computes, free extents within refined first."""
    from jax._src.interpreters import mlir
    from jaxlib import _jax
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo

    with mlir.make_ir_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        refined = _jax.mlir.refine_polymorphic_shapes(
            mlir_module=mlir.module_to_bytecode(module), enable_shape_assertions=True, validate_static_shapes=True
        )
        attributes = []
        for array, written in zip(inputs, types):
            element = ir.Type.parse(re.fullmatch(TENSOR, written).group(2))
            shaped = ir.RankedTensorType.get(list(array.shape), element)
            if array.dtype == numpy.bool_:
                bits = numpy.packbits(array, axis=None, bitorder="little")
                attributes.append(ir.DenseElementsAttr.get(bits, type=shaped))
            else:
                attributes.append(ir.DenseElementsAttr.get(numpy.ascontiguousarray(array), type=element, shape=list(array.shape)))
        values = iter([numpy.array(it) for it in stablehlo.eval_module(ir.Module.parse(refined), attributes)])
        return [numpy.stack([next(values), next(values)], -1) if pair else next(values) for pair in is_complex]


def judged(path, binary, extent):
    text = "\n".join(line for line in path.read_text().split("\n") if not line.startswith("//"))
    fixed, inputs, types, is_complex = with_extents(text, extent, numpy.random.default_rng(0))
    wanted, refusal = None, ""
    # The interpreter refuses by exceptions of many kinds, and may abort its process.
    with concurrent.futures.ProcessPoolExecutor(1) as pool:
        try:
            wanted = pool.submit(interpreted, fixed, inputs, types, is_complex).result()
        except Exception as found:
            refusal = " ".join(str(found).split())[:150] or "the interpreter aborts"
    with tempfile.TemporaryDirectory() as folder:
        options = []
        for number, array in enumerate(inputs):
            numpy.save(f"{folder}/arg{number}.npy", ports(array))
            options += ["--input", f"arg{number}={folder}/arg{number}.npy"]
        run = [binary, "run", path, *options, "--output", f"{folder}/outputs.npz"]
        done = subprocess.run(run, capture_output=True, text=True)
        if done.returncode != 0:
            crashed = done.returncode < 0 or "TW09" in done.stderr
            return "crashed" if crashed else "refused", " ".join(done.stderr.split())[:200]
        if wanted is None:
            return "not compared", refusal
        found = list(numpy.load(f"{folder}/outputs.npz").values())
    for number, (one, other) in enumerate(zip(found, wanted, strict=True)):
        tolerance = 1e-2 if "bf16" in text else 1e-4
        close = numpy.issubdtype(other.dtype, numpy.floating)
        is_same = numpy.allclose(one, other, tolerance, tolerance, True) if close else numpy.array_equal(one, other)
        if one.shape != other.shape or not is_same:
            return "wrong", f"result {number}"
    return "right", ""


def dynamic(folder, binary, extent):
    counts = collections.Counter()
    for path in sorted(folder.glob("*.mlir")):
        verdict, reason = judged(path, binary, extent)
        counts[verdict] += 1
        if reason:
            print(verdict, path.name, reason)
    print(dict(counts))


def compare(name, function, shapes, seeds, binary):
    """What is not right of a function, for each of so many sets of inputs."""
    for seed in range(seeds):
        generator = numpy.random.default_rng(seed)
        inputs = [it(generator) if callable(it) else generator.standard_normal(it).astype(numpy.float32) for it in shapes]
        compiled = jax.jit(function, keep_unused=True)
        wanted = [ports(it) for it in jax.tree_util.tree_leaves(compiled(*inputs))]
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "program.jaxexport"
            path.write_bytes(jax.export.export(compiled)(*inputs).serialize())
            options = []
            for number, array in enumerate(inputs):
                numpy.save(f"{folder}/arg{number}.npy", ports(array))
                options += ["--input", f"arg{number}={folder}/arg{number}.npy"]
            run = [binary, "run", path, *options, "--output", f"{folder}/outputs.npz"]
            done = subprocess.run(run, capture_output=True, text=True)
            if done.returncode != 0:
                return "refused: " + " ".join(done.stderr.split())[:250]
            found = list(numpy.load(f"{folder}/outputs.npz").values())
        for number, (one, other) in enumerate(zip(found, wanted, strict=True)):
            if one.shape != other.shape:
                return f"wrong: result {number} has shape {one.shape}, not {other.shape}"
            if one.dtype != other.dtype and not numpy.issubdtype(other.dtype, numpy.floating):
                return f"wrong: result {number} has type {one.dtype}, not {other.dtype}"
            one, other = numpy.asarray(one, numpy.float64), numpy.asarray(other, numpy.float64)
            if not numpy.allclose(one, other, 1e-4, 1e-5, True):
                return f"wrong: result {number} by {numpy.nanmax(numpy.abs(one - other)):.3g} (seed {seed})"
    return ""


def compare_all(seeds, binary):
    from jax_functions import FUNCTIONS

    counts = collections.Counter()
    for name, (function, shapes) in {**PROGRAMS, **FUNCTIONS}.items():
        reason = compare(name, function, shapes, seeds, binary)
        counts[reason.split(":")[0] or "right"] += 1
        if reason:
            print(name, reason)
    print(dict(counts))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", type=pathlib.Path, metavar="DIR", help="where programs and values go")
    parser.add_argument("--dynamic", type=pathlib.Path, metavar="DIR", help="texts with free extents")
    parser.add_argument("--compare", type=int, metavar="SEEDS", help="sets of inputs for each function")
    parser.add_argument("--extent", type=int, default=3, help="what free extents are set to (default: 3)")
    parser.add_argument("--tilewright", default="target/release/tilewright", metavar="BINARY")
    given = parser.parse_args()
    if given.record:
        record(given.record)
    if given.compare:
        compare_all(given.compare, given.tilewright)
    if given.dynamic:
        dynamic(given.dynamic, given.tilewright, given.extent)


if __name__ == "__main__":
    main()

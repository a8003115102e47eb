"""Programs of JAX as StableHLO texts, with inputs and what XLA computes of them.

    pip install jax==0.10.2
    python bench/stablehlo.py --record crates/import-stablehlo/tests/programs

writes NAME.mlir for each program, and one archive `values.npz` with `NAME.in0`, `NAME.out0` and so
on. Complex values are kept as the ports of a compiled program have them: parts along a last axis.
The tests of `import-stablehlo` run them.
"""

import argparse
import pathlib

import jax
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
    values = {}
    for name, (function, made) in PROGRAMS.items():
        generator = numpy.random.default_rng(len(name))
        inputs = [
            it(generator) if callable(it) else generator.standard_normal(it).astype(numpy.float32) for it in made
        ]
        compiled = jax.jit(function)
        (folder / f"{name}.mlir").write_text(compiled.lower(*inputs).as_text())
        outputs = jax.tree_util.tree_leaves(compiled(*inputs))
        for side, arrays in (("in", inputs), ("out", outputs)):
            for number, array in enumerate(arrays):
                values[f"{name}.{side}{number}"] = ports(array)
        print(name, len(inputs), len(outputs))
    numpy.savez(folder / "values.npz", **values)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", type=pathlib.Path, required=True, metavar="DIR")
    record(parser.parse_args().record)


if __name__ == "__main__":
    main()

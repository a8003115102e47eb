#!/usr/bin/env python3
"""Derivatives of random functions, ours beside JAX's and finite differences, in f64.

Functions of a vector are composed at random of what JAX has: elementwise functions, products, movements, orders, sums along
axes, and in most of them control flow (`cond`, `switch`, `scan`, `fori_loop`, `while_loop` with a condition on data). Each is
lowered to StableHLO; `crates/tilewright/examples/derivatives.rs` reads it and makes the gradient, the tangent, the function of
many rows and the hessian of it by our transformations, compiles them and runs them. JAX differentiates no `while_loop`
backwards: there its forward mode stands for its gradient.

    cargo build --profile quick -p tilewright --example derivatives
    python bench/jax_derivatives.py --program target/quick/examples/derivatives --count 200 --output bench/results/jax_derivatives.json
"""

import argparse
import datetime
import json
import pathlib
import subprocess
import sys
import tempfile

import jax

jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp
import numpy
from jax import lax

ROWS = 3
BAR = 1e-5
STEP = 1e-6
KINDS = ["grad", "jvp", "vmap", "hessian"]


def elementwise(random):
    a, b = random.uniform(0.3, 0.9), random.uniform(-0.5, 0.5)
    return random.choice(
        [
            lambda x: jnp.sin(a * x + b),
            lambda x: jnp.cos(x) * a,
            lambda x: jnp.tanh(x - b),
            lambda x: jnp.exp(0.3 * jnp.tanh(x)),
            lambda x: jnp.log1p(x * x),
            lambda x: jnp.sqrt(1.0 + x * x),
            lambda x: jax.nn.sigmoid(x) * 2.0,
            lambda x: x / (1.0 + x * x),
            lambda x: jnp.abs(x) + b,
            lambda x: jax.nn.relu(x + b) + a * x,
            lambda x: jnp.where(x > b, x * a, jnp.sin(x)),
            lambda x: jnp.arctan2(x, 1.5 + jnp.cos(x)),
            lambda x: jnp.expm1(0.2 * x),
            lambda x: lax.erf(x),
            lambda x: jnp.maximum(x, a) * jnp.minimum(x, b),
            lambda x: jnp.power(1.0 + x * x, a),
            lambda x: jnp.arcsinh(x) + jnp.arctan(x),
            lambda x: jnp.clip(x, -1.2, 1.3) - jnp.floor(x) * 0.1,
            lambda x: jax.nn.softplus(x),
            lambda x: jnp.sinh(0.4 * x) - jnp.cosh(0.2 * x),
            lambda x: jnp.remainder(x, 2.3),
        ]
    )


def structural(random, n):
    matrix = random.normal(size=(n, n)) / numpy.sqrt(n)
    places = random.integers(0, n, size=n)
    kernel = random.normal(size=3)
    order = random.permutation(n)
    shift = int(random.integers(1, n))
    return random.choice(
        [
            lambda x: matrix @ x,
            lambda x: jnp.cumsum(x) * 0.4,
            lambda x: jnp.cumprod(1.0 + 0.2 * jnp.tanh(x)),
            lambda x: lax.cummax(x) + 0.3 * lax.cummin(x, reverse=True),
            lambda x: jnp.sort(x) * jnp.arange(1.0, n + 1.0) / n,
            lambda x: jnp.roll(x, shift) * x,
            lambda x: x[::-1] - 0.5 * x,
            lambda x: jax.nn.softmax(x) * n,
            lambda x: x - jax.nn.logsumexp(x),
            lambda x: x[places] + 0.1 * x,
            lambda x: x.at[places].add(0.5 * jnp.sin(x)),
            lambda x: x.at[order[0]].set(x[order[1 % n]] * 0.7),
            lambda x: x.at[places].max(0.4 * x),
            lambda x: x.at[order].multiply(1.0 + 0.1 * jnp.cos(x), unique_indices=True),
            lambda x: x * jnp.max(x) + jnp.min(x),
            lambda x: x + jnp.prod(1.0 + 0.3 * jnp.sin(x)),
            lambda x: jnp.convolve(x, kernel, mode="same"),
            lambda x: jnp.outer(x, jnp.sin(x)).sum(axis=0) * 0.4,
            lambda x: lax.dynamic_slice(jnp.concatenate([x, x * 0.5]), (jnp.argmax(x),), (n,)),
            lambda x: lax.reduce_window(x, 0.0, lax.add, (2,), (1,), "SAME") * 0.5,
            lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (3,), (1,), "SAME"),
            lambda x: lax.top_k(x, n)[0] - x,
            lambda x: jnp.where(jnp.arange(n) % 2 == 0, x, 0.5 * x[::-1]),
            lambda x: (x[:, None] * matrix * x[None, :]).mean(axis=1),
            lambda x: jnp.pad(x, (1, 2))[1 : n + 1] + jnp.linalg.norm(x),
            lambda x: jnp.einsum("i,ij,j->j", x, matrix, jnp.cos(x)),
        ]
    )


def block(random, n, depth):
    """A function of a vector to a vector, and whether it has a loop whose end depends on data."""
    kinds = ["map", "structure"] + (["chain", "both"] if depth < 3 else []) + (["control"] * 3 if depth < 2 else [])
    kind = random.choice(kinds)
    if kind == "map":
        return elementwise(random), False
    if kind == "structure":
        return structural(random, n), False
    f, is_f_open = block(random, n, depth + 1)
    g, is_g_open = block(random, n, depth + 1)
    is_open = is_f_open or is_g_open
    if kind == "chain":
        return (lambda x: g(f(x))), is_open
    if kind == "both":
        combine = random.choice([lambda a, b: a * jnp.tanh(b), lambda a, b: a + b, lambda a, b: a - 0.3 * b])
        return (lambda x: combine(f(x), g(x))), is_open
    return control(random, n, f, g, is_open)


def control(random, n, f, g, is_open):
    kind = random.choice(["cond", "switch", "fori", "scan", "stacks", "while"])
    turns = int(random.integers(2, 6))
    level = random.uniform(-0.5, 0.5)
    squash = jnp.tanh
    if kind == "cond":
        return (lambda x: lax.cond(x.sum() > level, f, g, x)), is_open
    if kind == "switch":
        return (lambda x: lax.switch(jnp.argmax(x) % 3, [f, g, jnp.sin], x)), is_open
    if kind == "fori":
        return (lambda x: lax.fori_loop(0, turns, lambda i, c: squash(f(c)) + 0.1 * (i + 1) * x, x)), is_open
    if kind == "scan":
        weights = random.normal(size=(turns, n))
        return (lambda x: lax.scan(lambda c, w: (squash(f(c)) * w + 0.3 * x, None), x, weights)[0]), is_open
    if kind == "stacks":

        def stacks(x):
            end, rows = lax.scan(lambda c, e: (squash(g(c)) + e, jnp.sum(c) * e), x, x)
            return end * 0.3 + rows

        return stacks, is_open
    limit = float(random.uniform(2.0, 9.0))

    def loop(x):
        def goes_on(state):
            i, c, total = state
            return (i < 12) & (total < limit)

        def turn(state):
            i, c, total = state
            c = squash(f(c)) + 0.5 * x
            return i + 1, c, total + jnp.sum(jnp.abs(c))

        return lax.while_loop(goes_on, turn, (0, x, jnp.sum(x) * 0.0))[1]

    return loop, True


def functions(count):
    for number in range(count):
        random = numpy.random.default_rng(1000 + number)
        n = int(random.integers(3, 7))
        parts = [block(random, n, 0) for _ in range(int(random.integers(1, 4)))]
        weights = random.normal(size=n)

        def function(x, parts=parts, weights=weights):
            for part, _ in parts:
                x = jnp.tanh(part(x)) + 0.2 * x
            return jnp.sum(weights * x) + 0.1 * jnp.sum(x * x)

        yield number, n, function, any(is_open for _, is_open in parts), random


def right_values(function, is_open, x, t, rows):
    """What JAX says of all kinds, and central differences of two steps."""
    grad = jax.jacfwd(function) if is_open else jax.grad(function)

    def all_kinds(x, t, rows):
        moves = jnp.eye(len(x))
        found = []
        for step in (STEP * 20, STEP * 10):
            many = jax.vmap(function)(jnp.concatenate([x + step * moves, x - step * moves]))
            found.append((many[: len(x)] - many[len(x) :]) / (2 * step))
        values = {
            "grad": grad(x),
            "jvp": jax.jvp(function, (x,), (t,))[1],
            "vmap": jax.vmap(function)(rows),
            "hessian": jax.jacfwd(grad)(x),
        }
        # The error of differences falls with the square of the step.
        return values, (4 * found[1] - found[0]) / 3

    return jax.jit(all_kinds)(x, t, rows)


def error(found, right):
    found, right = numpy.asarray(found, numpy.float64), numpy.asarray(right, numpy.float64)
    if found.shape != right.shape:
        return numpy.inf
    return float(numpy.abs(found - right).max() / max(numpy.abs(right).max(), 1e-3))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", required=True, help="the example `derivatives`, built")
    parser.add_argument("--count", type=int, default=200, help="the number behind the last function")
    parser.add_argument("--first", type=int, default=0, help="the number of the first function")
    parser.add_argument("--keep", help="a folder to keep the functions in")
    parser.add_argument("--output", help="a file for the figures")
    options = parser.parse_args()
    folder = pathlib.Path(options.keep or tempfile.mkdtemp())
    folder.mkdir(exist_ok=True, parents=True)
    cases = []
    has_loop = 0
    for number, n, function, is_open, random in functions(options.count):
        if number < options.first:
            continue
        x, t = random.normal(size=n), random.normal(size=n)
        rows = random.normal(size=(ROWS, n))
        text = jax.jit(function).lower(x).as_text()
        has_loop += "stablehlo.while" in text or "stablehlo.case" in text or "stablehlo.if" in text
        (folder / f"{number}.mlir").write_text(text)
        for name, value in [("x", x), ("t", t), ("rows", rows)]:
            numpy.save(folder / f"{number}.{name}.npy", value)
        cases.append((number, *right_values(function, is_open, x, t, rows)))
    subprocess.run([options.program, str(folder), *(str(number) for number, *_ in cases)], check=True)
    largest = dict.fromkeys([*KINDS, "grad beside differences"], 0.0)
    failed = []
    for number, right, slopes in cases:
        for kind in KINDS:
            path = folder / f"{number}.{kind}.npy"
            if not path.exists():
                failed.append((number, kind, (folder / f"{number}.{kind}.txt").read_text()))
                continue
            found = numpy.load(path)
            errors = {kind: error(found, right[kind])}
            if kind == "grad":
                errors["grad beside differences"] = error(found, slopes)
            for name, value in errors.items():
                largest[name] = max(largest[name], value)
                if not value <= BAR:
                    failed.append((number, name, value))
    for failure in failed:
        print(*failure)
    right = len(cases) - len({number for number, *_ in failed})
    print(f"{len(cases)} functions, {has_loop} with control flow: {right} right")
    for kind, value in largest.items():
        print(f"{kind:24} largest relative error {value:.1e}")
    if options.output:
        figures = {
            "date": datetime.date.today().isoformat(),
            "jax": jax.__version__,
            "first": options.first,
            "functions": len(cases),
            "with control flow": has_loop,
            "right": right,
            "largest relative errors": largest,
            "failed": [[number, kind, str(what)[:200]] for number, kind, what in failed],
        }
        pathlib.Path(options.output).write_text(json.dumps(figures, indent=1) + "\n")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()

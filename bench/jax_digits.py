#!/usr/bin/env python3
"""The training of `examples/train.rs` in JAX: accuracy, and the time of a step.

    python bench/jax_digits.py            train, count what is read rightly, time the steps
    python bench/jax_digits.py --steps N  time N steps alone

What JAX runs on, `JAX_PLATFORMS` says; `XLA_FLAGS=--xla_cpu_multi_thread_eigen=false` and `taskset` leave XLA one thread.
"""

import argparse
import math
import pathlib
import time

import jax
import jax.numpy as jnp
import numpy
from jax import lax

BATCH, EPOCHS, MOST_RATE, DECAY, SHARE = 32, 40, 3e-3, 1e-2, 0.1
CHANNELS = [16, 32, 64]
FOLDER = pathlib.Path(__file__).resolve().parent.parent / "models/digits"


def start(random):
    def uniform(shape, terms):
        return jnp.asarray(random.uniform(-1, 1, shape) / math.sqrt(terms), jnp.float32)

    parameters, before = [], 1
    for channels in CHANNELS:
        parameters += [uniform((channels, before, 3, 3), before * 9), jnp.ones(channels), jnp.zeros(channels)]
        before = channels
    parameters += [uniform((256, 64), 256), uniform((64,), 256), uniform((64, 10), 64), uniform((10,), 64)]
    running = [jnp.zeros(c) for c in CHANNELS] + [jnp.ones(c) for c in CHANNELS]
    zeros = [jnp.zeros_like(p) for p in parameters]
    return parameters, zeros, zeros, running


def column(values):
    return values[None, :, None, None]


def network(parameters, x, moments):
    for layer in range(3):
        windows, scales, shifts = parameters[3 * layer : 3 * layer + 3]
        x = lax.conv_general_dilated(x, windows, (1, 1), ((1, 1), (1, 1)))
        mean, variance = moments(layer, x)
        x = jax.nn.relu((x - column(mean)) * column(scales / jnp.sqrt(variance + 1e-5)) + column(shifts))
        if layer > 0:
            x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
    weights, bias, last_weights, last_bias = parameters[9:]
    return jax.nn.relu(x.reshape(len(x), -1) @ weights + bias) @ last_weights + last_bias


def step(state, images, labels, rate, number):
    parameters, means, squares, running = state

    def loss(parameters):
        kept = []

        def moments(layer, x):
            mean, variance = x.mean((0, 2, 3)), x.var((0, 2, 3))
            count = x.size / x.shape[1]
            kept.append((mean, variance * count / (count - 1)))
            return mean, variance

        scores = jax.nn.log_softmax(network(parameters, images, moments))
        return -(scores * jax.nn.one_hot(labels, 10)).sum() / BATCH, kept

    (value, kept), slopes = jax.value_and_grad(loss, has_aux=True)(parameters)
    new = [m for m, _ in kept] + [v for _, v in kept]
    running = [a * (1 - SHARE) + b * SHARE for a, b in zip(running, new)]
    means = [m * 0.9 + g * 0.1 for m, g in zip(means, slopes)]
    squares = [s * 0.999 + g * g * 0.001 for s, g in zip(squares, slopes)]
    a, b = 1 - 0.9**number, 1 - 0.999**number
    moved = [p * (1 - rate * DECAY) - rate * (m / a) / (jnp.sqrt(s / b) + 1e-8) for p, m, s in zip(parameters, means, squares)]
    return (moved, means, squares, running), value


def rate(part):
    def cosine(start, end, part):
        return end + (start - end) * 0.5 * (1 + math.cos(math.pi * part))

    return cosine(MOST_RATE / 25, MOST_RATE, part / 0.3) if part < 0.3 else cosine(MOST_RATE, MOST_RATE / 25e4, (part - 0.3) / 0.7)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int)
    parser.add_argument("--seed", type=int, default=20)
    options = parser.parse_args()
    random = numpy.random.default_rng(options.seed)
    pixels = numpy.load(FOLDER / "train_images.npy").astype(numpy.float32) / 16
    labels = numpy.load(FOLDER / "train_labels.npy").astype(numpy.int32)
    run = jax.jit(step, donate_argnums=0)
    state = jax.tree.map(jnp.array, start(random))
    done, steps, spent = 0, len(labels) // BATCH, []
    for _ in range(EPOCHS):
        order = random.permutation(len(labels))
        for place in range(steps):
            if options.steps and done == options.steps:
                break
            chosen = order[place * BATCH : (place + 1) * BATCH]
            images = numpy.roll(pixels[chosen], random.integers(-1, 2, 2), (2, 3))
            part = done / (EPOCHS * steps)
            done += 1
            began = time.perf_counter()
            state, loss = run(state, images, labels[chosen], numpy.float32(rate(part)), numpy.float32(done))
            loss.block_until_ready()
            spent.append(time.perf_counter() - began)
    spent = sorted(spent[5:])
    print(f"{spent[len(spent) // 2] * 1e6:.0f} us a step in the middle, {spent[0] * 1e6:.0f} at least")
    if options.steps:
        return
    images, truth = numpy.load(FOLDER / "test_images.npy"), numpy.load(FOLDER / "test_labels.npy")
    parameters, _, _, running = state
    scores = jax.jit(lambda p, r, x: network(p, x, lambda layer, _: (r[layer], r[3 + layer])))(parameters, running, images)
    right = int((numpy.asarray(scores).argmax(1) == truth).sum())
    print(f"{len(truth)} pictures, {right} right: {right / len(truth):.2%}")


if __name__ == "__main__":
    main()

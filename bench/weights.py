#!/usr/bin/env python3
"""Measures products with weights of few bits in blocks (`MatMulNBits`) beside a plain reader.

    python3 bench/race.py --setup DIR                    make DIR/venv with the peers (once)
    DIR/venv/bin/python bench/weights.py [--rounds N]    the table is kept in bench/results/

Each product is measured in a process of its own, and so is a C program (gcc, AVX-512) that reads as
many bytes as the weights and their scales have in the file, by turns; both from pages of 4 KiB, and
the reader from pages of 2 MiB, too. Products of many rows have beside them the product of the same
extents with floats for weights, in bf16. Printed are the least times of all rounds, and the median
of the quotients of what stands beside and product within a round.
"""

import pathlib
import re
import resource
import statistics
import subprocess
import sys
import tempfile

import common
import products
from common import Failed

READER = r"""
#define _GNU_SOURCE
#include <immintrin.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

int main(int count, char **words) {
    size_t bytes = strtoull(words[1], 0, 10);
    int huge = atoi(words[2]);
    unsigned char *memory =
        mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (count != 3 || memory == MAP_FAILED) return 1;
    madvise(memory, bytes, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    memset(memory, 1, bytes);
    double least = 1e9;
    for (int turn = 0; turn < 40; turn++) {
        double begin = seconds();
        __m512i sums[4] = {{0}};
        for (size_t at = 0; at + 256 <= bytes; at += 256)
            for (int k = 0; k < 4; k++)
                sums[k] = _mm512_add_epi64(sums[k], _mm512_loadu_si512(memory + at + 64 * k));
        volatile long long sum = _mm512_reduce_add_epi64(_mm512_add_epi64(
            _mm512_add_epi64(sums[0], sums[1]), _mm512_add_epi64(sums[2], sums[3])));
        (void)sum;
        double end = seconds();
        if (end - begin < least) least = end - begin;
    }
    printf("%.6f\n", 1e3 * least);
    return 0;
}
"""

# Rows from which a product is one of arithmetic, not of reading.
MANY = 16

# Rows, terms, columns, block, bits, and what is said of the data: of `--activations`, or
# `--precision`.
PRODUCTS = [
    (1, 8192, 16384, 32, 4, "int8"),
    (1, 8192, 16384, 32, 4, "as-given"),
    (1, 8192, 16384, 128, 4, "int8"),
    (1, 8192, 16384, 128, 4, "as-given"),
    (1, 8192, 16384, 32, 8, "int8"),
    (1, 8192, 16384, 32, 8, "as-given"),
    (1, 2048, 8192, 32, 4, "int8"),
    (1, 2048, 8192, 32, 4, "as-given"),
    (4, 8192, 16384, 32, 4, "int8"),
    (8, 8192, 16384, 32, 4, "int8"),
    (128, 4096, 4096, 32, 4, "int8"),
    (128, 4096, 4096, 32, 4, "bf16"),
    (128, 4096, 4096, 32, 4, "as-given"),
    (128, 4096, 4096, 32, 8, "int8"),
    (128, 4096, 4096, 32, 8, "bf16"),
]


def main():
    options = common.parser(__doc__)
    options.add_argument("--rounds", type=int, default=3)
    given = options.parse_args()
    result = {"origin": common.origin(), "products": []}
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "reader.c").write_text(READER)
        reader = folder / "reader"
        build = ["gcc", "-O3", "-march=native", folder / "reader.c", "-o", reader]
        subprocess.run(build, check=True)
        for product in PRODUCTS:
            path, floats = folder / "product.onnx", folder / "floats.onnx"
            stored = save(product, path)
            rows, terms, columns = product[:3]
            if rows >= MANY:
                products.save((rows, terms, columns), "constant", floats)
            rounds = []
            for _ in range(given.rounds):
                took = ours(given.tilewright, path, product[-1])
                if rows >= MANY:
                    rounds.append([took, ours(given.tilewright, floats, "bf16")])
                    continue
                read = [float(output([reader, stored, huge])) for huge in (0, 1)]
                rounds.append([took, *read])
            result["products"].append({"product": product, "bytes": stored, "rounds": rounds})
            print(row(result["products"][-1]), flush=True)
    common.keep(given.name or "weights", "Weights of few bits, 1 thread", result, report(result))


def save(product, path):
    """Writes the model; the bytes of the weights and their scales."""
    import numpy
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    rows, terms, columns, block, bits, _ = product
    random = numpy.random.default_rng(1)
    shape = (columns, terms // block, block * bits // 8)
    weights = random.integers(0, 256, shape, dtype=numpy.uint8)
    scales = random.random(columns * (terms // block), dtype=numpy.float32) * 0.01 + 0.001
    attributes = {"K": terms, "N": columns, "bits": bits, "block_size": block}
    node = helper.make_node(
        "MatMulNBits", ["x", "w", "s"], ["y"], domain="com.microsoft", **attributes
    )
    graph = helper.make_graph(
        [node],
        "product",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, terms])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [rows, columns])],
        [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(scales, "s")],
    )
    domains = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=domains)
    model.ir_version = 10
    onnx.save(model, path)
    return weights.nbytes + scales.nbytes


def ours(binary, path, data):
    """Milliseconds of a run: the fastest by the clock or, where the machine is shared and that is
    more, the processor's time of all runs but for what a shorter series took."""
    series = []
    for seconds in (0.2, 1.0):
        begin = resource.getrusage(resource.RUSAGE_CHILDREN)
        option = "--precision" if data == "bf16" else "--activations"
        words = [binary, "bench", path, "--threads", 1, option, data]
        text = output([*words, "--seconds", seconds])
        end = resource.getrusage(resource.RUSAGE_CHILDREN)
        took = end.ru_utime - begin.ru_utime + end.ru_stime - begin.ru_stime
        runs = int(re.search(r"of (\d+) runs", text).group(1))
        fastest = float(re.search(r"^fastest +([0-9.]+) ms", text, re.MULTILINE).group(1))
        series.append((took, runs, fastest))
    (short, few, _), (long, many, fastest) = series
    return min(fastest, 1e3 * (long - short) / (many - few)) if many > few else fastest


def output(command):
    found = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if found.returncode:
        raise Failed(found.stderr.strip() or f"{command[0]} failed")
    return found.stdout


def row(found):
    rows, terms, columns, block, bits, data = found["product"]
    took, *beside = (min(times) for times in zip(*found["rounds"]))
    cells = [f"{rows} x {terms} x {columns}", f"{bits}, {block}", data, f"{took:.3f}"]
    for number, least in enumerate(beside, 1):
        share = statistics.median(one[number] / one[0] for one in found["rounds"])
        cells += [f"{least:.3f}", f"{share:.2f}"]
    if len(beside) == 1:
        cells[4:4] = [""] * 4
    else:
        cells += [""] * 2
    operations = 2e-9 * rows * terms * columns / (1e-3 * took)
    return "| " + " | ".join([*cells, f"{operations:.0f}"]) + " |"


def report(result):
    head = ["product", "bits, block", "data", "ms", "reader, ms", "of it", "of pages of 2 MiB, ms"]
    head += ["of it", "product of bf16, ms", "of it", "GOP/s"]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    return "\n".join([*lines, *map(row, result["products"])])


if __name__ == "__main__":
    try:
        main()
    except Failed as error:
        sys.exit(f"error: {error}")

#!/usr/bin/env python3
"""How much faster models run on all cores than on one, and how much faster they could.

    DIR/venv/bin/python bench/scaling.py MODEL...    the table is kept in bench/results/

Runs on one thread and on several alternate, each in a process of its own; printed are medians over
the rounds, and of the ratios within them. Beside them stands the ratio of the two rooflines: the
time that `cargo xtask peak` leaves each kernel, the larger of its arithmetic and of its constants
read from memory, added up for one thread and for several. What is computed on the way may stay in
the caches and counts nothing, which favours the roofline.
"""

import json
import statistics
import sys

import common
from common import Failed


def main():
    options = common.parser(__doc__)
    options.add_argument("--threads", type=int, default=2)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--seconds", type=float, default=0.5, help="of measuring in each process")
    given = options.parse_args()
    result = {"origin": common.origin(), "threads": given.threads, "peak": common.peak()}
    result["models"] = [scaled(path, result["peak"], given) for path in given.models]
    title = f"From one thread to {given.threads}, f32"
    common.keep(given.name or f"scaling-t{given.threads}", title, result, report(result))


def scaled(path, peak, given):
    """All rounds of one model."""
    both = [1, given.threads]
    rounds = []
    for index in range(given.rounds):
        ordered = both[::-1] if index % 2 else both
        rounds.append({threads: run(path, threads, given) for threads in ordered})
    ratios = [times[1] / times[given.threads] for times in rounds]
    least = [roofline(path, threads, peak, given) for threads in both]
    row = {
        "model": path.stem,
        "ms": {threads: statistics.median(times[threads] for times in rounds) for threads in both},
        "ratio": statistics.median(ratios),
        "ratios": ratios,
        "roofline_ms": dict(zip(both, least)),
        "roofline_ratio": least[0] / least[1],
        "load": common.load_average(),
    }
    print(f"{row['model']}: {row['ratio']:.3f} of {row['roofline_ratio']:.3f}", file=sys.stderr)
    return row


def command(verb, path, threads, given):
    words = [given.tilewright.resolve(), verb, path, "--json", "--random", "--threads", threads]
    return words + [word for dim in given.dim for word in ("--dim", dim)]


def run(path, threads, given):
    words = [*command("bench", path, threads, given), "--seconds", given.seconds]
    return json.loads(common.run_pinned(words, threads))["median_ms"]


def roofline(path, threads, peak, given):
    """Milliseconds that the ceilings of so many threads leave all kernels."""
    rows = json.loads(common.run_pinned(command("explain", path, threads, given), threads))["rows"]
    figures = peak["figures"]
    of = "one_thread" if threads == 1 else "all_threads"
    flops_per_ms = max(figures[f"f32_fma_{row}"][of] for row in ("avx2", "avx512")) * 1e6
    bytes_per_ms = figures["dram_read"][of] * 1e6
    return sum(max(r["flops"] / flops_per_ms, r["constant_bytes"] / bytes_per_ms) for r in rows)


def report(result):
    several = result["threads"]
    header = ["model", "ms on 1", f"on {several}", "ratio", "of the rooflines", "share", "load"]
    rows = [
        [
            row["model"],
            row["ms"][1],
            row["ms"][several],
            f"{row['ratio']:.3f}",
            f"{row['roofline_ratio']:.3f}",
            f"{row['ratio'] / row['roofline_ratio']:.3f}",
            row["load"],
        ]
        for row in result["models"]
    ]
    figures = result["peak"]["figures"].values()
    ceilings = [f"{f['what']} {f['one_thread']} and {f['all_threads']} {f['unit']}" for f in figures]
    note = f"Ceilings, of one thread and of all: {'; '.join(ceilings)}."
    return "\n\n".join([common.table(header, rows), note])


if __name__ == "__main__":
    try:
        main()
    except Failed as error:
        sys.exit(str(error))

#!/usr/bin/env python3
"""How much faster models run on all cores than on one, and how much faster they could.

    DIR/venv/bin/python bench/scaling.py MODEL...    the table is kept in bench/results/

Runs on one thread and on several alternate, each in a process of its own; printed are medians over
the rounds, and of the ratios within them. Beside them stands the ratio of the two rooflines: the
time that `cargo xtask peak` leaves each kernel, the larger of its arithmetic and of its constants
read from memory, added up for one thread and for several. What is computed on the way may stay in
the caches and counts nothing, which favours the roofline. Ceilings are measured before every model,
because those of a machine that others use come and go; medians count.
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
    result = {"origin": common.origin(), "threads": given.threads, "peaks": [], "models": []}
    for path in given.models:
        result["peaks"].append(common.peak() or sys.exit("`cargo xtask peak` does not run"))
        result["models"].append(scaled(path, given))
    result["ceilings"] = ceilings(result["peaks"])
    for row in result["models"]:
        add_rooflines(row, result["ceilings"])
    title = f"From one thread to {given.threads}, f32"
    common.keep(given.name or f"scaling-t{given.threads}", title, result, report(result))


def ceilings(peaks):
    """Medians of the figures: {name: {unit, one_thread, all_threads}}."""
    names = peaks[0]["figures"]
    of = ["one_thread", "all_threads"]
    medians = {
        name: {key: statistics.median(peak["figures"][name][key] for peak in peaks) for key in of}
        for name in names
    }
    return {name: {"unit": names[name]["unit"], **medians[name]} for name in names}


def scaled(path, given):
    """All rounds of one model, and what its kernels do."""
    both = [1, given.threads]
    rounds = []
    for index in range(given.rounds):
        ordered = both[::-1] if index % 2 else both
        rounds.append({threads: run(path, threads, given) for threads in ordered})
    ratios = [times[1] / times[given.threads] for times in rounds]
    row = {
        "model": path.stem,
        "ms": {threads: statistics.median(times[threads] for times in rounds) for threads in both},
        "ratio": statistics.median(ratios),
        "ratios": ratios,
        "work": {threads: work(path, threads, given) for threads in both},
        "load": common.load_average(),
    }
    print(f"{row['model']}: {row['ratio']:.3f}", file=sys.stderr)
    return row


def command(verb, path, threads, given):
    words = [given.tilewright.resolve(), verb, path, "--json", "--random", "--threads", threads]
    return words + [word for dim in given.dim for word in ("--dim", dim)]


def run(path, threads, given):
    words = [*command("bench", path, threads, given), "--seconds", given.seconds]
    return json.loads(common.run_pinned(words, threads))["median_ms"]


def work(path, threads, given):
    """Operations of each kernel, and bytes of its constants."""
    rows = json.loads(common.run_pinned(command("explain", path, threads, given), threads))["rows"]
    return [(row["flops"], row["constant_bytes"]) for row in rows]


def add_rooflines(row, figures):
    """What the ceilings leave all kernels, in ms, on one thread and on several."""
    least = {}
    for threads, kernels in row.pop("work").items():
        of = "one_thread" if threads == 1 else "all_threads"
        flops_per_ms = max(figures[f"f32_fma_{name}"][of] for name in ("avx2", "avx512")) * 1e6
        bytes_per_ms = figures["dram_read"][of] * 1e6
        least[threads] = sum(max(f / flops_per_ms, b / bytes_per_ms) for f, b in kernels)
    row["roofline_ms"] = least
    row["roofline_ratio"] = least[min(least)] / least[max(least)]


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
    figures = result["ceilings"].items()
    shown = [f"{name} {f['one_thread']:.4g} and {f['all_threads']:.4g} {f['unit']}" for name, f in figures]
    note = f"Ceilings of one thread and of all, medians: {'; '.join(shown)}."
    return "\n\n".join([common.table(header, rows), note])


if __name__ == "__main__":
    try:
        main()
    except Failed as error:
        sys.exit(str(error))

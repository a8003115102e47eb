"""JAX's own tests on the plugin, against the platform that jaxlib brings.

usage: jax_tests.py CHECKOUT LIBRARY [--share S] [--behind B] [--cases N] [--seconds T] [--only FILE,...] [--no-oracle] [--name NAME]

CHECKOUT is JAX's repository at the tag of the version that is installed, LIBRARY the plugin's
(`cargo build --release -p tilewright-pjrt`). S of each file's tests are run, drawn by their names,
those behind the first B of them, with N generated cases each; a file that takes longer than T
seconds is cut there. Needs jax, pytest, pytest-timeout and absl-py.

A test counts where it passes on jaxlib's CPU. Leaves results/NAME.json and results/NAME.md:
per file what passes, fails, crashes and hangs, and the failures by reason.
"""

import argparse
import collections
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FILES = [
    "lax_test", "lax_numpy_test", "lax_numpy_operators_test", "lax_numpy_indexing_test",
    "lax_numpy_reducers_test", "nn_test", "lax_control_flow_test", "lax_autodiff_test",
    "lax_vmap_test", "random_test", "pmap_test",
]
# Draws a share of the tests, and writes each outcome at once, so that a crash loses one.
DRAWING = '''
import hashlib, json, os

def pytest_collection_modifyitems(items):
    first, share = float(os.environ["BEHIND"]), float(os.environ["SHARE"])
    place = lambda item: int(hashlib.md5(item.nodeid.encode()).hexdigest()[:6], 16) / 2**24
    drawn = lambda item: first <= place(item) < first + share
    items[:] = [item for item in items if drawn(item)]

def put(entry):
    with open(os.environ["OUTCOMES"], "a") as file:
        file.write(json.dumps(entry) + chr(10))

def pytest_runtest_logstart(nodeid, location):
    put([nodeid, "began", ""])

def pytest_runtest_logreport(report):
    if report.when == "call" or report.outcome != "passed":
        reason = ""
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            reason = crash.message if crash else str(report.longrepr)
        put([report.nodeid, report.outcome, reason])
'''


def run(file, platform, options, folder):
    """The outcomes of a file's tests: a name each, with what came of it and the reason."""
    outcomes = folder / f"{file}.{platform}.jsonl"
    environment = os.environ | {
        "JAX_PLATFORMS": platform,
        "JAX_NUM_GENERATED_CASES": str(options.cases),
        "BEHIND": str(options.behind),
        "SHARE": str(options.share),
        "OUTCOMES": str(outcomes),
        "PYTHONPATH": os.pathsep.join([str(ROOT / "crates/pjrt/python"), str(folder)]),
        "TILEWRIGHT_PLUGIN": str(options.library),
        "TILEWRIGHT_DEVICES": "2" if file == "pmap_test" else "1",
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={2 if file == 'pmap_test' else 1}",
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "drawing"]
    command += ["--timeout", "120", f"tests/{file}.py"]
    cut = False
    try:
        subprocess.run(command, cwd=options.checkout, env=environment, timeout=options.seconds,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    except subprocess.TimeoutExpired:
        cut = True
    found = {}
    for line in outcomes.read_text().splitlines() if outcomes.exists() else []:
        name, outcome, reason = json.loads(line)
        if outcome == "began":
            found.setdefault(name, ("crashed", ""))
        else:
            found[name] = (outcome, reason)
    if cut:
        # What was running when the time was over says nothing.
        found = {name: it for name, it in found.items() if it[0] != "crashed"}
    return found


def reason_of(message):
    """A failure's reason in a few words."""
    refused = re.search(r"error\[TW\d+\]: ([^\n]*)", message)
    because = re.search(r"because: ([^\n]*)", message)
    if refused:
        return refused[1] + (f" ({because[1]})" if because and "this use" in refused[1] else "")
    first = next((line for line in message.splitlines() if line.strip()), "")
    return re.sub(r"0x[0-9a-f]+|\d+", "N", first)[:100]


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("library", type=Path)
    parser.add_argument("--share", type=float, default=0.1)
    parser.add_argument("--behind", type=float, default=0)
    parser.add_argument("--cases", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=900)
    parser.add_argument("--only", default=",".join(FILES))
    parser.add_argument("--no-oracle", action="store_true")
    parser.add_argument("--name", default="jax_tests")
    options = parser.parse_args()
    options.library = options.library.resolve()
    report, reasons = {}, collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        (folder / "drawing.py").write_text(DRAWING)
        for file in options.only.split(","):
            own = run(file, "tilewright", options, folder)
            other = own if options.no_oracle else run(file, "cpu", options, folder)
            judged = [name for name, (outcome, _) in own.items()
                      if outcome != "skipped"
                      and (options.no_oracle or other.get(name, ("",))[0] == "passed")]
            row = collections.Counter(own[name][0] for name in judged)
            for name in judged:
                if own[name][0] == "failed":
                    hangs = own[name][1].startswith("Failed: Timeout")
                    row["hung"] += hangs
                    reasons[reason_of(own[name][1])] += 1
            report[file] = dict(row) | {"judged": len(judged)}
            print(file, report[file], flush=True)
    results = ROOT / "bench/results"
    command = " ".join(["bench/jax_tests.py CHECKOUT LIBRARY", *sys.argv[3:]])
    data = {"command": command, "oracle": not options.no_oracle, "files": report,
            "reasons": dict(reasons.most_common())}
    (results / f"{options.name}.json").write_text(json.dumps(data, indent=1) + "\n")
    lines = [f"`{command}`", "", "| file | judged | passed | failed | crashed | hung |",
             "|---|---|---|---|---|---|"]
    for file, row in report.items():
        counts = [row.get(it, 0) for it in ("judged", "passed", "failed", "crashed", "hung")]
        lines.append(f"| {file} | " + " | ".join(map(str, counts)) + " |")
    lines += ["", "| failures | reason |", "|---|---|"]
    lines += [f"| {count} | {reason.replace('|', '/')} |" for reason, count in reasons.most_common()]
    (results / f"{options.name}.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Runs the official cases in every form that code has on this machine.

    python bench/cases.py [--tilewright BINARY] CASES [more arguments of `tilewright conformance`]

In process; as engine files, which some processes save and others load; as shared libraries. Every
case that passes in process passes as an engine file, too; why one does not elsewhere is kept in
`results/cases.md`.
"""

import argparse
import collections
import json
import pathlib
import subprocess
import sys
import tempfile

import common

STATUSES = ["total", "passed", "failed", "refused", "random"]


def cases(options, rest):
    """What `tilewright conformance` says of all cases, with these options."""
    command = [options.tilewright, "conformance", options.cases, "--json", *options.more, *rest]
    ran = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if ran.returncode not in (0, 3):
        sys.exit(ran.stderr)
    return json.loads(ran.stdout)


def main():
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("cases", help="a folder of cases")
    options.add_argument(
        "--tilewright",
        type=pathlib.Path,
        default=common.target_folder() / "release" / "tilewright",
        help="the binary (default: that of `cargo build --release`)",
    )
    options, options.more = options.parse_known_args()
    origin = common.origin()
    found = {"in process": cases(options, [])}
    with tempfile.TemporaryDirectory() as folder:
        engines = ["--engines", folder]
        found["engine files, saved"] = cases(options, engines)
        count = sum(1 for _ in pathlib.Path(folder).rglob("*.tw"))
        found["engine files, loaded"] = cases(options, engines)
    found["shared libraries"] = cases(options, ["--libraries"])
    passed = {row["name"] for row in found["in process"]["cases"] if row["status"] == "passed"}
    others, lost = {}, {}
    for form, result in found.items():
        missing = [row for row in result["cases"] if row["status"] != "passed"]
        others[form] = missing
        lost[form] = [row for row in missing if row["name"] in passed]
    reasons = collections.Counter(
        (form, row["status"], common.without_paths(row["reason"].split("\n")[0]))
        for form, rows in lost.items()
        for row in rows
    )
    counts = {form: {key: result[key] for key in STATUSES} for form, result in found.items()}
    header = ["form", *STATUSES, "passed in process, not so"]
    rows = [[form, *count.values(), len(lost[form])] for form, count in counts.items()]
    whys = [[count, form, status, why] for (form, status, why), count in reasons.most_common()]
    text = "\n\n".join(
        [
            f"Engine files that were saved: {count}.",
            common.table(header, rows),
            common.table(["cases", "form", "status", "why"], whys),
        ]
    )
    result = {"origin": origin, "counts": counts, "engines": count, "others": others}
    common.keep("cases", "Official cases in every form", result, text)
    sys.exit(3 if lost["engine files, loaded"] or lost["engine files, saved"] else 0)


if __name__ == "__main__":
    main()

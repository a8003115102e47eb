#!/usr/bin/env python3
"""Runs conformance cases as C sources on an emulated RISC-V processor.

    apt-get install qemu-user gcc-riscv64-linux-gnu libc6-dev-riscv64-cross
    python bench/riscv.py [--tilewright BINARY] CASES [more arguments of `tilewright conformance`]

`tilewright conformance --target rv64gc` compiles the sources of all cases to one program with the C
compiler that CC names. Here that is a script, which compiles for the other processor and puts the
program behind its emulator. What passed, and why cases were refused, is kept in
`results/riscv.md`, unless `--only` leaves cases out.
"""

import argparse
import collections
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import common

COMPILER = "riscv64-linux-gnu-gcc"
EMULATOR = "qemu-riscv64"

SCRIPT = f"""#!/bin/sh
{COMPILER} -static "$@" || exit 1
if [ -f main ] && [ ! -f main.rv64 ]; then
  mv main main.rv64
  printf '#!/bin/sh\\nexec {EMULATOR} "$(dirname "$0")/main.rv64" "$@"\\n' > main
  chmod +x main
fi
"""


def keep(result, origin):
    """Writes what is known of the cases to the results."""
    counts = {key: result[key] for key in ("total", "passed", "failed", "refused", "random")}
    others = [case for case in result["cases"] if case["status"] in ("failed", "refused")]
    reasons = collections.Counter((case["status"], case["reason"].split("\n")[0]) for case in others)
    rows = [[count, status, common.without_paths(why)] for (status, why), count in reasons.items()]
    rows.sort(key=lambda row: (row[1], -row[0], row[2]))
    text = "\n\n".join(
        [
            "Cases as C sources for `rv64gc`, compiled by `riscv64-linux-gnu-gcc`, run by `qemu-riscv64`.",
            common.table(list(counts), [list(counts.values())]),
            common.table(["cases", "status", "why"], rows),
        ]
    )
    kept = {"origin": origin, **counts, "others": others}
    common.keep("riscv", "Conformance cases on RISC-V", kept, text)


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
    options, others = options.parse_known_args()
    missing = [tool for tool in (COMPILER, EMULATOR) if not shutil.which(tool)]
    if missing:
        print(f"skipped: {', '.join(missing)} is missing; apt-get install qemu-user gcc-riscv64-linux-gnu")
        return
    with tempfile.TemporaryDirectory() as folder:
        script = pathlib.Path(folder) / "cc"
        script.write_text(SCRIPT)
        script.chmod(0o755)
        command = [options.tilewright, "conformance", options.cases, "--target", "rv64gc", *others]
        environment = dict(os.environ, CC=str(script))
        is_whole = not any(word.startswith("--only") for word in others)
        origin = common.origin()
        command += ["--json"] if is_whole else []
        output = subprocess.PIPE if is_whole else None
        ran = subprocess.run(list(map(str, command)), env=environment, stdout=output, text=True)
        if is_whole and ran.stdout:
            keep(json.loads(ran.stdout), origin)
        sys.exit(ran.returncode)


if __name__ == "__main__":
    main()

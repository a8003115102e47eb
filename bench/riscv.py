#!/usr/bin/env python3
"""Runs conformance cases as C sources on an emulated RISC-V processor.

    apt-get install qemu-user gcc-riscv64-linux-gnu libc6-dev-riscv64-cross
    python bench/riscv.py [--tilewright BINARY] CASES [more arguments of `tilewright conformance`]

`tilewright conformance --target rv64gc` compiles the sources of all cases to one program with the C
compiler that CC names. Here that is a script, which compiles for the other processor and puts the
program behind its emulator. What the command prints is its result.
"""

import argparse
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
        sys.exit(subprocess.run(list(map(str, command)), env=environment).returncode)


if __name__ == "__main__":
    main()

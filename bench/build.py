#!/usr/bin/env python3
"""What a first build costs, and how large what it leaves is.

    python3 bench/build.py

Everything starts from nothing, in a clone of the commit, without the network (crates are fetched
before the clock starts). Processor time is of all processes, user and system.

- first command: the first of the README, which builds the compiler and runs the digits;
- check: `cargo check` of an empty crate that uses `tilewright` as it is;
- debug, advised: a program that compiles the digits, built for debugging, as it is and with the
  lines that the README advises; and how long it takes over the model;
- install: `cargo install --locked`, as the README has it, and the size of the program.
"""

import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile
import time

import common

PROGRAM = """
fn main() -> tilewright::Result<()> {
    let model = std::env::args().nth(1).expect("a model");
    let options = tilewright::Options::default().with_threads(1).with_dim("batch", 1);
    let start = std::time::Instant::now();
    tilewright::compile(model, &options)?;
    println!("{}", start.elapsed().as_secs_f64() * 1e3);
    Ok(())
}
"""


def timed(command, folder):
    """Seconds on the clock and of processors, and what was printed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    done = subprocess.run(command, cwd=folder, text=True, capture_output=True)
    clock = time.perf_counter() - start
    if done.returncode != 0:
        sys.exit(f"{command}: {done.stderr}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return clock, processor, done.stdout


def bytes_in(folder):
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())


def main():
    options = common.parser(__doc__).parse_args()
    readme = (common.REPOSITORY / "README.md").read_text()
    first = re.search(r"^(cargo run .*?) +#", readme, re.M).group(1).split()
    install = re.search(r"^(cargo install .*?) +#", readme, re.M).group(1).split()
    advice = re.search(r"```toml\n(\[profile\.dev.*?)```", readme, re.S).group(1)
    os.environ.pop("CARGO_TARGET_DIR", None)
    result, rows = {"origin": common.origin()}, []

    def record(name, clock, processor, size, note):
        row = {"clock_s": clock, "processor_s": processor, "bytes": size, "note": note}
        result[name] = row
        rows.append([name, f"{clock:.0f}", f"{processor:.0f}", f"{size / 1e6:.1f}", note])
        print(*rows[-1], flush=True)

    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        clone = folder / "clone"
        subprocess.run(["git", "clone", "-q", common.REPOSITORY, clone], check=True)
        subprocess.run(["cargo", "fetch", "-q", "--locked"], cwd=clone, check=True)

        clock, processor, printed = timed(first, clone)
        right = next(line for line in printed.splitlines() if "right" in line)
        record("first command", clock, processor, bytes_in(clone / "target"), right)

        def crate(name, manifest, program):
            place = folder / name
            (place / "src").mkdir(parents=True)
            # As the crates that the clone is built of, not as the newest.
            (place / "Cargo.lock").write_bytes((clone / "Cargo.lock").read_bytes())
            (place / "Cargo.toml").write_text(
                f'[package]\nname = "{name}"\nversion = "0.1.0"\nedition = "2024"\n\n'
                f'[dependencies]\ntilewright = {{ path = "{clone}/crates/tilewright" }}\n\n'
                f"{manifest}"
            )
            (place / "src" / "main.rs").write_text(program)
            return place

        empty = crate("empty", "", "fn main() {}\n")
        clock, processor, _ = timed(["cargo", "check", "-q", "--offline"], empty)
        record("check", clock, processor, bytes_in(empty / "target"), "an empty crate")

        for name, manifest in (("debug", ""), ("advised", advice)):
            place = crate(name, manifest, PROGRAM)
            clock, processor, _ = timed(["cargo", "build", "-q", "--offline"], place)
            model = clone / "models" / "digits" / "digits.onnx"
            program = [place / "target" / "debug" / name, model]
            took = min(float(timed(program, place)[2]) for _ in range(5))
            result[f"{name}_compile_ms"] = took
            note = f"compiles the digits in {took:.1f} ms"
            record(name, clock, processor, bytes_in(place / "target"), note)

        root = folder / "root"
        clock, processor, _ = timed([*install, "--root", root], clone)
        program = root / "bin" / "tilewright"
        stripped = folder / "stripped"
        subprocess.run(["strip", "-o", stripped, program], check=True)
        size = program.stat().st_size
        note = f"the program; {stripped.stat().st_size / 1e6:.1f} MB without symbols"
        record("install", clock, processor, size, note)

    text = common.table(["what", "clock s", "processor s", "MB", ""], rows)
    common.keep(options.name or "build", "What a first build costs", result, text)


main()

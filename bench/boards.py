#!/usr/bin/env python3
"""Runs models as C sources on emulated microcontrollers, against recorded outputs.

    apt-get install qemu-system-arm gcc-arm-none-eabi
    python bench/boards.py [--tilewright BINARY] [--board m7]... [--rounds 3] NAME=CASE_DIR...
    python bench/boards.py --case CASE_DIR OUT      writes case.c and case.mk for examples/boards

A CASE_DIR holds model.onnx and test_data_set_<i>/{input,output}_<j>.pb; of each tensor the first row
is taken, if it is a batch. Symbolic extents are those of the recorded
inputs. Each board is a row of the target table; `examples/boards` has its start-up code, linker script
and emulator. What is printed of a model on a board:

- wrong: elements that are not the recorded ones (bytes), or farther off than 1e-5 (floats);
- instructions of one run, in thousands, by the timer of the core, which the emulator feeds with
  instructions; they are not cycles;
- RAM: arena, inputs, outputs, data and the painted stack below the caller; of the stack also the
  bound that the compiler's account of each function gives;
- code and constants: `.text` of model.o, less the block of constants, and that block.

`anchor` beside them are TensorFlow Lite Micro with CMSIS-NN at 90b983c2 and 99f736a6, gcc 12.2, of
the MLPerf Tiny models: instructions, bytes of its arena alone (its stack is not in it), code, flash.
"""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import common

BOARDS = common.REPOSITORY / "examples" / "boards"
TARGETS = {"m4": "cortex-m4", "m7": "cortex-m7", "m55": "cortex-m55"}

# Thousands of instructions and kilobytes: (M7, M55), (arena M7, arena M55), code, flash.
ANCHOR = {
    "kws": ((7720, 1790), (22.8, 27.3), 93, 147.8),
    "vww": ((24400, 6440), (100.7, 100.8), 93, 454),
    "resnet": ((31200, 4810), (55.0, 55.0), 93, 195),
    "ad": ((580, 300), (2.6, 5.2), 94, 372),
}


def tensors(folder, kind):
    import onnx

    files = sorted(folder.glob(f"{kind}_*.pb"), key=lambda path: int(path.stem.split("_")[1]))
    return [onnx.numpy_helper.to_array(onnx.load_tensor(path)) for path in files]


def first_rows(inputs, outputs):
    """Of a recorded batch, which all tensors have as their first axis, the first row."""
    extents = {tensor.shape[0] if tensor.ndim else 1 for tensor in inputs + outputs}
    if len(extents) > 1:
        return inputs, outputs
    return [tensor[:1] for tensor in inputs], [tensor[:1] for tensor in outputs]


def write_case(case, out):
    """Writes case.c and case.mk of a folder of recorded tensors."""
    out.mkdir(parents=True, exist_ok=True)
    text, sizes, floats = "#include <stdint.h>\n", {}, False
    rows = first_rows(tensors(case, "input"), tensors(case, "output"))
    for kind, own in zip(("input", "output"), rows):
        data, ends = b"", []
        for tensor in own:
            data += tensor.tobytes()
            ends.append(len(data))
            floats = floats or kind == "output" and tensor.dtype.kind == "f"
        lines = ",\n".join(",".join(map(str, data[i : i + 24])) for i in range(0, len(data), 24))
        text += f"const unsigned char case_{kind}s[] __attribute__((aligned(16))) = {{\n{lines}}};\n"
        text += f"const uint32_t case_{kind}_ends[] = {{{','.join(map(str, ends))}}};\n"
        sizes[kind] = len(data)
    (out / "case.c").write_text(text)
    flags = f"-DINPUT_BYTES={sizes['input']} -DOUTPUT_BYTES={sizes['output']}"
    flags += " -DFLOATS=10" if floats else ""
    (out / "case.mk").write_text(f"CASE_FLAGS = {flags}\n")
    return sizes


def run(command):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=600)
    return done.returncode, done.stdout + done.stderr


def dimensions(model, case):
    """Symbolic extents of inputs, as the recorded inputs have them."""
    import onnx

    recorded, _ = first_rows(tensors(case, "input"), tensors(case, "output"))
    found = {}
    for port, tensor in zip(onnx.load(model).graph.input, recorded):
        for axis, extent in zip(port.type.tensor_type.shape.dim, tensor.shape):
            if axis.dim_param:
                found[axis.dim_param] = extent
    return [f"--dim={name}={extent}" for name, extent in sorted(found.items())]


def measure(options, case, board, rounds, folder):
    """What one model does on one board."""
    # Functions are named after the file.
    model = folder / "model.onnx"
    shutil.copy(case / "model.onnx", model)
    sources = folder / board
    command = [options.tilewright, "compile", model, "-o", sources, "--emit", "c"]
    sets = sorted(case.glob("test_data_set_*"))[:rounds]
    code, said = run(command + ["--target", TARGETS[board]] + dimensions(model, sets[0]))
    if code != 0:
        raise common.Failed(said.strip().splitlines()[0])
    header = (sources / "model.h").read_text()
    size = lambda name: int(re.search(rf"MODEL_{name}_BYTES (\d+)", header)[1])
    row = {"wrong": 0, "instructions": 0, "stack": 0}
    for recorded in sets:
        data = folder / "case"
        sizes = write_case(recorded, data)
        out = folder / f"build-{board}"
        shutil.rmtree(out, ignore_errors=True)
        code, said = run(
            ["make", "-s", "-C", folder, "-f", BOARDS / "Makefile", "run", f"BOARD={board}"]
            + [f"MODEL={sources}", f"CASE={data}", f"OUT={out}"]
        )
        found = re.search(r"status (\d+) wrong (\d+) most (\d+) thousands (\d+) stack (\d+)", said)
        if not found or found[1] != "0":
            lines = said.strip().splitlines() or ["no output"]
            # What the linker says of memory stands in front of what make says of the linker.
            full = [line[line.index("region") :] for line in lines if "overflowed" in line]
            raise common.Failed((full + lines[-1:])[0])
        row["wrong"] += int(found[2])
        row["instructions"] = max(row["instructions"], int(found[4]))
        row["stack"] = max(row["stack"], int(found[5]))
    row["cases"] = len(sets)
    code, said = run(
        ["make", "-s", "-C", folder, "-f", BOARDS / "Makefile", "stack", f"BOARD={board}"]
        + [f"MODEL={sources}", f"CASE={data}", f"OUT={out}"]
    )
    row["bound"] = int(re.search(r"stack bound (\d+)", said)[1])
    row["ram"] = size("ARENA") + sizes["input"] + sizes["output"] + row["stack"]
    _, said = run(["arm-none-eabi-size", out / "model.o"])
    text, data, bss = map(int, said.splitlines()[-1].split()[:3])
    row["ram"] += data + bss
    row["constants"] = size("CONSTANTS")
    row["code"] = text - row["constants"]
    _, said = run(["arm-none-eabi-nm", "--undefined-only", out / "model.o"])
    row["undefined"] = sorted(line.split()[-1] for line in said.splitlines())
    return row


def compared(name, board, row):
    """Cells of a row, with the anchor's figure and the ratio where there is one."""
    anchor = ANCHOR.get(name)
    place = {"m7": 0, "m55": 1}.get(board)
    cells = [name, board, f"{row['wrong']} in {row['cases']}"]
    kilo = lambda value: f"{value / 1000:.1f}"
    if anchor is None or place is None:
        cells += [f"{row['instructions']}", "-", kilo(row["ram"]), "-"]
        cells += [kilo(row["code"]), kilo(row["code"] + row["constants"]), "-"]
    else:
        counts, arenas, _, flash = anchor
        cells += [f"{row['instructions']} / {counts[place]}"]
        cells += [f"{row['instructions'] / counts[place]:.3f}"]
        cells += [f"{kilo(row['ram'])} / {arenas[place]}"]
        cells += [f"{row['ram'] / 1000 / arenas[place]:.2f}"]
        cells += [kilo(row["code"]), f"{kilo(row['code'] + row['constants'])} / {flash}"]
        cells += [f"{(row['code'] + row['constants']) / 1000 / flash:.2f}"]
    return cells + [f"{row['stack']} of {row['bound']}", ", ".join(row["undefined"]) or "none"]


def main():
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("cases", nargs="*", help="NAME=CASE_DIR; with --case CASE_DIR OUT")
    options.add_argument("--case", action="store_true", help="only writes a case")
    options.add_argument("--board", action="append", choices=sorted(TARGETS), help="default: all")
    options.add_argument("--rounds", type=int, default=3, help="recorded inputs of each model")
    options.add_argument("--name", default="boards", help="name of the files in bench/results/")
    options.add_argument(
        "--tilewright",
        type=pathlib.Path,
        default=common.target_folder() / "release" / "tilewright",
        help="the binary (default: that of `cargo build --release`)",
    )
    options = options.parse_args()
    if options.case:
        write_case(*map(pathlib.Path, options.cases))
        return
    missing = [tool for tool in ("qemu-system-arm", "arm-none-eabi-gcc", "make") if not shutil.which(tool)]
    if missing:
        print(f"skipped: {', '.join(missing)} is missing; apt-get install qemu-system-arm gcc-arm-none-eabi")
        return
    rows, ratios, origin = [], {}, common.origin()
    for case in options.cases:
        name, path = case.split("=", 1)
        for board in options.board or sorted(TARGETS):
            with tempfile.TemporaryDirectory() as folder:
                try:
                    row = measure(options, pathlib.Path(path), board, options.rounds, pathlib.Path(folder))
                except common.Failed as failed:
                    reason = common.without_paths(str(failed))
                    rows.append([name, board, reason] + [""] * 9)
                else:
                    rows.append(compared(name, board, row))
                    if name in ANCHOR and board != "m4":
                        share = row["instructions"] / ANCHOR[name][0][board == "m55"]
                        ratios.setdefault(board, []).append(share)
            print(" | ".join(rows[-1]), flush=True)
    heads = "model|board|wrong|instructions, thousands|ratio|RAM kB|ratio|code kB|flash kB|ratio|stack of its bound|undefined"
    means = {board: round(common.mean(own), 3) for board, own in sorted(ratios.items())}
    text = (
        "Emulated by QEMU, one nanosecond an instruction, `arm-none-eabi-gcc -O2`; instructions are no "
        "cycles. Behind a slash: TensorFlow Lite Micro with CMSIS-NN, whose RAM is its arena alone, "
        "without its stack; ours is arena, inputs, outputs, data and stack.\n\n"
        + common.table(heads.split("|"), rows)
        + f"\n\nGeometric means of the ratios of instructions: {means}"
    )
    result = {"origin": origin, "rows": rows, "means": means}
    common.keep(options.name, "C sources on emulated microcontrollers", result, text)
    sys.exit(any(not row[2].startswith("0 in") for row in rows))


if __name__ == "__main__":
    main()

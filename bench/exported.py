#!/usr/bin/env python3
"""Saves architectures by `torch.export.save`, and runs the files by the command line, without Python.

    pip install torch torchvision transformers
    python bench/exported.py [--tilewright BINARY] [NAME...]      names of architectures; all without

The architectures are those of `torch_compile.py`. Each is saved as exported, and after
`run_decompositions()`. A file is right if the larger of its outputs' largest differences from eager's
is at most 1e-4 of the output's largest value. What is refused is told.
"""

import json
import pathlib
import subprocess
import tempfile
import warnings

import common
import torch_compile

TOLERANCE = 1e-4


def command(*words):
    """What a command prints; what it says where it fails."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if done.returncode:
        raise common.Failed(" ".join(done.stderr.split("\n")[:2]).strip())
    return done.stdout


def ran(binary, path, given):
    """The outputs of a file on these arrays, in the order of its inputs and outputs."""
    import numpy as np

    ports = json.loads(command(binary, "info", path, "--json"))
    inputs = []
    for port, array in zip(ports["inputs"], given, strict=True):
        place = path.with_name(f"{port['name']}.npy")
        np.save(place, array)
        inputs += ["--input", f"{port['name']}={place}"]
    output = path.with_name("outputs.npz")
    command(binary, "run", path, *inputs, "--threads", 1, "--output", output)
    found = np.load(output)
    return [found[port["name"]] for port in ports["outputs"]]


def look_at(maker, binary, folder):
    """The differences of an architecture's two files, or why they are refused."""
    import torch

    torch.manual_seed(0)
    module, arguments, named = maker()
    module = module.eval()
    wanted = torch_compile.tensors(module(*arguments, **named))
    given = [it.numpy() for it in torch_compile.tensors((arguments, named))]
    program, row = torch.export.export(module, arguments, named), {}
    for form in ("exported", "decomposed"):
        program = program if form == "exported" else program.run_decompositions()
        path = folder / f"{form}.pt2"
        torch.export.save(program, path)
        try:
            found = [torch.from_numpy(it) for it in ran(binary, path, given)]
            row[form] = torch_compile.difference(found, wanted)
        except common.Failed as failed:
            row[form] = common.without_folder(str(failed))
    return row


def main():
    options = common.parser(__doc__)
    given = options.parse_args()
    import torch

    torch.set_num_threads(1)
    origin, makers, result = common.origin(), torch_compile.architectures(), {}
    for name in [str(it) for it in given.models] or makers:
        with torch.no_grad(), warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
            warnings.simplefilter("ignore")
            result[name] = look_at(makers[name], given.tilewright, pathlib.Path(folder))
        print(name, result[name], flush=True)
    forms = ["exported", "decomposed"]
    text = common.table(["architecture", *forms],
                        [[name, *(row[it] for it in forms)] for name, row in result.items()])  # fmt: skip
    for form in forms:
        right = [isinstance(row[form], float) and row[form] <= TOLERANCE for row in result.values()]
        text += f"\n\n{sum(right)} of {len(right)} right as {form}."
    title = "Exported programs as files, 1 thread, f32"
    common.keep(given.name or "exported", title, {"origin": origin, "architectures": result}, text)


if __name__ == "__main__":
    main()

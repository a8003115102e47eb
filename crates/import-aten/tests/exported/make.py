#!/usr/bin/env python3
"""Writes the programs beside this file, with inputs and the outputs that are right.

    pip install torch numpy
    python crates/import-aten/tests/exported/make.py

Each `NAME.pt2` has a `NAME.npz`: inputs as `in.NAME`, outputs as `out.NAME` with the names that the
importer gives them. Programs that are to be refused have none. Made with PyTorch 2.15.
"""

import pathlib
import zipfile

import numpy as np
import torch
from torch.export import Dim, export, save

FOLDER = pathlib.Path(__file__).parent


class State(torch.nn.Module):
    """Buffers that are written to, constants, and an output of every kind within others."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)
        self.norm = torch.nn.BatchNorm1d(3)
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.register_buffer("seen", torch.ones(3), persistent=False)

    def forward(self, x, more):
        self.count.add_(1)
        self.seen.mul_(2).add_(more["b"].sum(0))
        y = torch.relu_(self.norm(self.linear(x)) + more["b"] * self.seen)
        constant = torch.tensor([1.0, 2.0, 3.0])
        return {"y": y, "z": [y.exp(), y.sum(0)], "n": x.shape[0], "t": (constant, 5, None)}


class Types(torch.nn.Module):
    """A weight of each element type."""

    TYPES = (
        torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32,
        torch.int16, torch.int8, torch.uint8, torch.bool, torch.float8_e4m3fn, torch.float8_e5m2,
        torch.uint16, torch.uint32, torch.uint64,
    )  # fmt: skip

    def __init__(self):
        super().__init__()
        for number, dtype in enumerate(self.TYPES):
            values = torch.tensor([0.0, 1.0, 3.0, 2.5]).to(dtype)
            self.register_buffer(f"weight{number}", values)

    def forward(self, x):
        found = [getattr(self, f"weight{it}").to(torch.float32) for it in range(len(self.TYPES))]
        return tuple(found) + (torch.full((2,), -torch.inf) + x,)


class Strides(torch.nn.Module):
    """Weights that share memory, lie turned, begin behind others or repeat themselves."""

    def __init__(self):
        super().__init__()
        base = torch.arange(24.0)
        self.register_buffer("whole", base)
        self.register_buffer("turned", base.view(4, 6).t())
        self.register_buffer("behind", base[6:12])
        self.register_buffer("repeated", base[2:5].expand(2, 3))
        self.register_buffer("empty", torch.zeros(0, 3))
        self.tied = torch.nn.Linear(3, 3, bias=False)
        self.other = torch.nn.Linear(3, 3, bias=False)
        self.other.weight = self.tied.weight

    def forward(self, x):
        y = self.other(self.tied(x)) + self.repeated[:, :3]
        return y, self.turned * 1, self.whole.sum() + self.behind, self.empty + 1


class Sizes(torch.nn.Module):
    """Sizes that follow from those of inputs, and one that is an input itself."""

    def forward(self, x, count):
        rows, columns = x.shape
        twice = torch.cat([x, x])
        half = x[:, : columns // 2]
        flat = x.reshape(rows * columns)
        return {
            "twice": twice, "half": half, "flat": flat, "ones": x.new_ones(rows + 1),
            "area": rows * columns - 1, "counted": x.new_ones(count) * 2,
        }  # fmt: skip


class Wrapped(torch.nn.Module):
    """Regions without gradients and without automatic types."""

    def forward(self, x):
        y = x * 2
        with torch.no_grad():
            y, z = y.sin(), y.max(0)
        with torch.autocast("cpu", enabled=False):
            w = y.float() @ y.float().t()
        return y + 1, z.values, z.indices, w


class Parts(torch.nn.Module):
    """Nodes with several results, some of which nothing reads."""

    def forward(self, x):
        first, _, third = x.chunk(3, 1)
        best = x.topk(2, 1)
        return first + third, best.indices, torch.stack(x.unbind(0))


class Slices(torch.nn.Module):
    """Writes to slices of values, which the values see."""

    def forward(self, x):
        y = x * 1
        y[:, 0].add_(1)
        y[1:, 1:3].fill_(5)
        y[0][-1:] *= 2
        return torch.roll(y, 1, 1), y


class Views(torch.nn.Module):
    """Writes to memory that another value sees otherwise than as a slice."""

    def forward(self, x):
        y = x * 1
        y.t().add_(1)
        return y


class Unknown(torch.nn.Module):
    """An operator that there is none for."""

    def forward(self, x):
        return torch.linalg.det(x)


class Counted(torch.nn.Module):
    """A size that data decide."""

    def forward(self, x):
        return x.nonzero()


def flat(value, path=""):
    """The leaves with the names that the importer gives them."""
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, (list, tuple)):
        items = [(f"{it}" if path else f"result{it}", one) for it, one in enumerate(value)]
    else:
        return {} if value is None else {path or "result": np.asarray(value)}
    found = {}
    for key, one in items:
        found.update(flat(one, f"{path}.{key}" if path else key))
    return found


def without_places(program):
    """The program without the places in files that its nodes come from."""
    for module in program.graph_module.modules():
        for node in module.graph.nodes if hasattr(module, "graph") else ():
            node.meta.pop("stack_trace", None)
    return program


def write(program, name):
    """Saves a program."""
    save(without_places(program), FOLDER / f"{name}.pt2")


def keep(name, module, inputs, expected, states=()):
    """Writes inputs and outputs."""
    given = {f"in.{key}": np.asarray(value) for key, value in inputs.items()}
    wanted = {f"out.{key}": value for key, value in flat(expected).items()}
    wanted.update({f"out.{key}": module.get_buffer(key).numpy() for key in states})
    np.savez_compressed(FOLDER / f"{name}.npz", **given, **wanted)


def main():
    torch.manual_seed(0)
    batch = Dim("batch", min=2, max=64)
    x, more = torch.randn(5, 4), {"b": torch.randn(5, 3)}
    for name, decomposed in [("state", False), ("state-decomposed", True)]:
        module = State().eval()
        program = export(module, (x, more), dynamic_shapes=({0: batch}, {"b": {0: batch}}))
        write(program.run_decompositions() if decomposed else program, name)
        with torch.no_grad():
            result = module(x, more)
        keep(name, module, {"x": x, "more_b": more["b"]}, result, ("count", "seen"))
    for name, module, given in [
        ("types", Types(), torch.randn(2)),
        ("strides", Strides(), torch.randn(2, 3)),
        ("wrapped", Wrapped(), torch.randn(3, 4)),
        ("parts", Parts(), torch.randn(4, 9)),
    ]:
        program = export(module, (given,))
        write(program, name)
        with torch.no_grad():
            keep(name, module, {"x": given}, module(given))
    given = torch.randn(3, 6)
    free = {0: Dim.DYNAMIC, 1: Dim.DYNAMIC}
    program = export(Sizes(), (given, 4), dynamic_shapes=(free, Dim.DYNAMIC))
    write(program, "sizes")
    lengths = {"x": given, "count": np.zeros(4, np.bool_)}
    keep("sizes", None, lengths, Sizes()(given, 4))
    for name, module, given in [
        ("views", Views(), torch.randn(2, 3)),
        ("unknown", Unknown(), torch.randn(3, 3)),
        ("counted", Counted(), torch.randn(3)),
    ]:
        write(export(module, (given,)), name)
    earlier(State().eval(), x, more)
    given = torch.randn(3, 4)
    write(export(Slices(), (given,)), "slices")
    keep("slices", None, {"x": given}, Slices()(given))


def earlier(module, x, more):
    """The layout of PyTorch before 2.8."""
    from torch._export.serde.serialize import serialize

    made = serialize(without_places(export(module, (x, more))))
    with zipfile.ZipFile(FOLDER / "earlier.pt2", "w") as file:
        file.writestr("version", "8.1")
        file.writestr("serialized_exported_program.json", made.exported_program)
        file.writestr("serialized_state_dict.pt", made.state_dict)
        file.writestr("serialized_constants.pt", made.constants)
        file.writestr("serialized_example_inputs.pt", made.example_inputs)
    with torch.no_grad():
        result = module(x, more)
    keep("earlier", module, {"x": x, "more_b": more["b"]}, result, ("count", "seen"))


if __name__ == "__main__":
    main()

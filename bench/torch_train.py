#!/usr/bin/env python3
"""Steps of training by `torch.compile`, against eager's losses and Inductor's time.

    pip install dist/tilewright-*.whl torch torchvision transformers
    python bench/torch_train.py [NAME...]          resnet18, encoder, gpt2, gpt2-128; all without

Batches of 4, GPT-2's of 32 words or as many as its name says, f32, one thread, no dropout, random weights and inputs from fixed seeds, AdamW with its
step compiled (`torch.compile(optimizer.step)`).

- Gradients: of the first step, the largest difference over the largest element of each parameter's
  gradient, and the norm of all differences over that of all gradients, from eager's in f32 and, of
  both, from eager's in f64; a row a seed. Beside it how far eager's own gradients move at most if each
  weight is multiplied by 1 + 1e-7 times a random number, `--nudges` times: where an operand of a
  `relu` is that near to zero, they jump, whoever computes them. So the same is done with a smooth
  activation in each `relu`'s place, where nothing jumps, and with `relu`s that pass on in f32, f64,
  nudged and compiled what eager's do (`signs of eager`), so that what is left is rounding.
- Losses: of `--steps` steps from the same weights, the largest difference from eager's; beside it how
  far eager's own move if each weight is multiplied by 1 + 1e-7 at first.
- Time: forward, backward and step, the least of rounds that take turns with eager and Inductor, in
  processor time of this process and of wall clocks.
- Memory: with nothing said (1) and with `memory` at `--memory`, with what PyTorch's default partition
  keeps, which computes nothing again (all), by eager and by Inductor: bytes that forward keeps for backward, the most memory that a forward and backward pass takes
  beyond what is resident before it, gradients included, and its time; and what compiled code holds
  between runs for values between kernels, which is resident before.
"""

import argparse
import copy
import functools
import gc
import json
import math
import os
import pathlib
import subprocess
import sys
import time
import warnings

import common

NAMES = ("resnet18", "encoder", "gpt2", "gpt2-128")
PARTS = ("gradients", "losses", "times", "memory")


ACTIVATIONS = ("relu", "signs of eager", "smooth")


def signs(calls):
    """A `relu` that is called so often a pass, and lets through later what it did in its first."""
    import torch

    class Signs(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.at, self.known = 0, False

        def forward(self, values):
            name = f"signs{self.at}"
            if not self.known:
                self.register_buffer(name, values > 0)
            self.at = (self.at + 1) % calls
            self.known = self.known or self.at == 0
            return torch.where(getattr(self, name), values, 0.0)

    return Signs()


def made(name, seed=0, activation="relu"):
    """A module for training, with an activation, and a function from it to its loss."""
    module, loss = architecture(name, seed, activation)
    if activation == "signs of eager":
        # The first pass, by which the modules know their signs.
        loss(module.train())
    return module, loss


def architecture(name, seed, activation):
    import torch

    torch.manual_seed(seed)
    functional = torch.nn.functional
    other = {"smooth": lambda _: torch.nn.SiLU(), "signs of eager": signs}.get(activation)
    if name == "resnet18":
        import torchvision

        module = torchvision.models.resnet18()
        for block in list(module.modules()) if other else ():
            if hasattr(block, "relu"):
                block.relu = other(1 if block is module else 2)
        inputs, wanted = torch.randn(4, 3, 224, 224), torch.randint(0, 1000, (4,))
        return module, lambda it: functional.cross_entropy(it(inputs.to(kind(it))), wanted)
    if name == "encoder":
        layer = torch.nn.TransformerEncoderLayer(
            384, 6, 1536, dropout=0.0, batch_first=True,
            activation="gelu" if activation == "smooth" else "relu")
        module = torch.nn.TransformerEncoder(layer, 6)
        for each in module.layers if activation == "signs of eager" else ():
            each.activation = other(1)
        inputs, wanted = torch.randn(4, 128, 384), torch.randn(4, 128, 384)
        return module, lambda it: functional.mse_loss(it(inputs.to(kind(it))), wanted.to(kind(it)))
    import transformers

    config = transformers.GPT2Config(
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False
    )
    length = int(name.partition("-")[2] or 32)
    words = torch.randint(0, config.vocab_size, (4, length))
    module = transformers.GPT2LMHeadModel(config)
    return module, lambda it: it(input_ids=words, labels=words).loss


def kind(module):
    return next(module.parameters()).dtype


class Contender:
    """A copy of a module with its optimiser, compiled or not."""

    def __init__(self, module, loss, backend=None, options=None, rate=1e-4):
        import torch

        self.module, self.loss = copy.deepcopy(module).train(), loss
        self.optimiser = torch.optim.AdamW(self.module.parameters(), rate)
        self.call, self.update = self.module, self.optimiser.step
        if backend is not None:
            self.call = torch.compile(self.module, backend=backend, options=options)
            self.update = torch.compile(self.optimiser.step, backend=backend)

    def gradients(self):
        self.loss(self.call).backward()
        found = [it.grad.double() for it in self.module.parameters() if it.grad is not None]
        self.optimiser.zero_grad()
        return found

    def step(self):
        """The loss, and the seconds of forward, backward and step by each clock."""
        clocks = [self.clock()]
        loss = self.loss(self.call)
        clocks.append(self.clock())
        loss.backward()
        clocks.append(self.clock())
        self.update()
        clocks.append(self.clock())
        self.optimiser.zero_grad()
        spent = [[b - a for a, b in zip(*pair)] for pair in zip(clocks, clocks[1:])]
        return loss.item(), [list(each) for each in zip(*spent)]

    @staticmethod
    def clock():
        return time.perf_counter(), time.process_time()


def off(found, wanted):
    """The largest difference of any gradient over its largest element."""
    pairs = zip(found, wanted, strict=True)
    each = [((a - b).abs().max() / b.abs().max().clamp_min(1e-300)).item() for a, b in pairs]
    return max(each)


def norm_off(found, wanted):
    """The norm of all differences over that of all gradients."""
    apart = sum((a - b).square().sum() for a, b in zip(found, wanted, strict=True))
    return (apart / sum(it.square().sum() for it in wanted)).sqrt().item()


def gradients_of(name, seeds, nudges):
    import torch

    rows = []
    # The third model has no `relu`.
    for activation in ("smooth",) if name.startswith("gpt2") else ACTIVATIONS:
        torch._dynamo.reset()
        compiled = None
        for seed in range(seeds):
            module, loss = made(name, seed, activation)
            exact = Contender(copy.deepcopy(module).double(), loss).gradients()
            if compiled is None:
                compiled = Contender(module, loss, "tilewright")
            compiled.module.load_state_dict(module.state_dict())
            compiled.loss = loss
            ours, eager = compiled.gradients(), Contender(module, loss).gradients()
            row = {"activation": activation, "seed": seed}
            for kind_of, measure in (("", off), ("_norm", norm_off)):
                row[f"from_eager{kind_of}"] = measure(ours, eager)
                row[f"nudge_moves{kind_of}"] = 0.0
                row[f"ours_from_f64{kind_of}"] = measure(ours, exact)
                row[f"eager_from_f64{kind_of}"] = measure(eager, exact)
            for number in range(nudges):
                moved = Contender(nudged(module, number), loss).gradients()
                for kind_of, measure in (("", off), ("_norm", norm_off)):
                    key = f"nudge_moves{kind_of}"
                    row[key] = max(row[key], measure(moved, eager))
            rows.append(row)
            print(name, row, file=sys.stderr, flush=True)
    return rows


def nudged(module, seed=None):
    """A copy whose weights are multiplied by 1 + 1e-7, or that times random numbers."""
    import torch

    module, generator = copy.deepcopy(module), torch.Generator()
    generator.manual_seed(seed or 0)
    with torch.no_grad():
        for each in module.parameters():
            random = 1 if seed is None else torch.randn(each.shape, generator=generator)
            each.mul_(1 + 1e-7 * random)
    return module


def losses_of(name, count):
    import tilewright.torch

    module, loss = made(name)
    tilewright.torch.kept_reports().clear()
    contenders = {
        "ours": Contender(module, loss, "tilewright"),
        "eager": Contender(module, loss),
        "nudged": Contender(nudged(module), loss),
    }
    losses = {who: [it.step()[0] for _ in range(count)] for who, it in contenders.items()}
    apart = lambda a, b: max(abs(x - y) for x, y in zip(losses[a], losses[b]))  # noqa: E731
    reports = tilewright.torch.reports()
    return {
        "from_eager": apart("ours", "eager"), "nudge_moves": apart("nudged", "eager"),
        "eager_nodes": sum(len(it.eager) for it in reports), "losses": losses["ours"],
        "compiles": sum(it.compiles for it in reports),
    }  # fmt: skip


def times_of(name, rounds):
    """The least seconds of forward, backward and step of each contender, by each clock."""
    module, loss = made(name)
    found = {}
    contenders = {
        "ours": Contender(module, loss, "tilewright"),
        "eager": Contender(module, loss),
    }
    for each in contenders.values():
        each.step()
        each.step()
    contenders["inductor"] = Contender(module, loss, "inductor")
    for each in contenders.values():
        each.step()
        each.step()
    for who in contenders:
        found[who] = [[math.inf] * 3, [math.inf] * 3]
    for _ in range(rounds):
        for who, each in contenders.items():
            spent = each.step()[1]
            found[who] = [
                [min(pair) for pair in zip(*both)] for both in zip(found[who], spent)
            ]
    return {
        who: {"wall_ms": [1e3 * it for it in wall], "processor_ms": [1e3 * it for it in own]}
        for who, (wall, own) in found.items()
    }


def status(word):
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(word)) / 1024


def memory_of(name, way, rounds):
    """What one way of dividing the graph takes, a share or PyTorch's default one, or another backend."""
    import tilewright.torch
    import torch
    from torch._functorch import partitioners

    module, loss = made(name)
    if way == "all":
        tilewright.torch._divided = lambda *given, memory, **named: (
            partitioners.default_partition(*given, **named))
    backend = {"eager": None, "inductor": "inductor"}.get(way, "tilewright")
    options = None if way in ("eager", "inductor", "all", "1") else {"memory": float(way)}
    contender = Contender(module, loss, backend, options)
    weights = {it.untyped_storage().data_ptr() for it in contender.module.parameters()}
    contender.gradients()
    kept = {}

    def note(tensor):
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        value = loss(contender.call)
    value.backward()
    contender.optimiser.zero_grad()
    del value
    least = [math.inf, math.inf]
    for _ in range(rounds):
        clocks = [contender.clock()]
        loss(contender.call).backward()
        clocks.append(contender.clock())
        contender.optimiser.zero_grad()
        least = [min(old, b - a) for old, a, b in zip(least, *clocks)]
    gc.collect()
    before = status("VmRSS")
    pathlib.Path("/proc/self/clear_refs").write_text("5")
    loss(contender.call).backward()
    return {
        "kept_mib": sum(n for place, n in kept.items() if place not in weights) / 2**20,
        "peak_mib": status("VmHWM") - before,
        "arena_mib": sum(it.arena_bytes for it in tilewright.torch.reports()) / 2**20,
        "wall_ms": 1e3 * least[0], "processor_ms": 1e3 * least[1],
    }  # fmt: skip


def in_child(*words):
    """The result of a part of this script in a process of its own, whose freed memory goes back."""
    child = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
    child["TORCHINDUCTOR_FORCE_DISABLE_CACHES"] = "1"
    command = [sys.executable, __file__, "--part", *map(str, words)]
    done = subprocess.run(command, env=child, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def part(words, given):
    import torch

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    what, name, *rest = words
    parts = {
        "gradients": functools.partial(gradients_of, name, given.seeds, given.nudges),
        "losses": functools.partial(losses_of, name, given.steps),
        "times": functools.partial(times_of, name, given.rounds),
        "memory": functools.partial(memory_of, name, *rest, given.rounds),
    }
    print(json.dumps(parts[what]()))


def main():
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("names", nargs="*", help=" ".join(NAMES))
    options.add_argument("--steps", type=int, default=50, help="whose losses are compared")
    options.add_argument("--seeds", type=int, default=4, help="for gradients")
    options.add_argument("--nudges", type=int, default=8, help="of eager's weights, each seed")
    options.add_argument("--rounds", type=int, default=5, help="of steps that take turns")
    options.add_argument("--memory", type=float, default=0.2, help="the share to ask for")
    options.add_argument("--name", default="torch-train", help="of the files in bench/results/")
    options.add_argument("--add", action="store_true", help="to the models the kept result has")
    options.add_argument("--only", choices=PARTS, help="measure one part, and keep the others")
    options.add_argument("--part", action="store_true", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.part:
        part(given.names, given)
        return
    unknown = set(given.names) - set(NAMES)
    if unknown:
        options.error(f"no model is called {', '.join(unknown)}: {', '.join(NAMES)}")
    origin = common.origin()
    result = common.kept(given.name, "models") if given.add or given.only else {}
    same = ["--steps", given.steps, "--rounds", given.rounds, "--seeds", given.seeds]
    same += ["--nudges", given.nudges]
    for name in given.names or NAMES:
        row = {}
        for what in PARTS if given.only is None else (given.only,):
            if what == "memory":
                ways = ("eager", "inductor", "all", "1", str(given.memory))
                found = {way: in_child(what, name, way, *same) for way in ways}
            else:
                found = in_child(what, name, *same)
            row[what] = found
            row.setdefault("commits", {})[what] = origin["commit"]
        commits = {**result.get(name, {}).get("commits", {}), **row["commits"]}
        kept = {**result.get(name, {}), **row, "steps": given.steps, "commits": commits}
        result[name] = {**kept, "commit": origin["commit"]}
        print(name, json.dumps(row), flush=True)
    text = tables(result)
    title = "Training by torch.compile, 1 thread, f32, batch 4"
    common.keep(given.name, title, {"origin": origin, "models": result}, text)


def tables(result):
    """The tables of a result."""
    keys = ("from_eager", "nudge_moves", "ours_from_f64", "eager_from_f64")
    keys += tuple(f"{key}_norm" for key in keys)
    rows = [
        [name, each["activation"], each["seed"], *(each.get(key) for key in keys)]
        for name, row in result.items() for each in row.get("gradients", ())
    ]  # fmt: skip
    header = ["model", "activation", "seed", "gradients from eager's", "a nudge moves eager's"]
    header += ["ours from f64", "eager's", "norm: from eager's", "a nudge moves eager's"]
    header += ["ours from f64", "eager's"]
    text = common.table(header, rows) + "\n\n"
    keys = ("from_eager", "nudge_moves", "eager_nodes", "compiles")
    rows = [
        [name, row["steps"], *(row["losses"][key] for key in keys)]
        for name, row in result.items() if "losses" in row
    ]  # fmt: skip
    header = ["model", "steps", "losses from eager's", "a nudge moves eager's"]
    text += common.table([*header, "nodes left eager", "compiles"], rows) + "\n\n"
    rows = []
    for name, row in result.items():
        for who, each in row.get("times", {}).items():
            for clock in ("processor_ms", "wall_ms"):
                spent, theirs = each[clock], row["times"]["inductor"][clock]
                rows.append([name, who, clock, *spent, sum(spent), sum(theirs) / sum(spent)])
    header = ["model", "by", "clock", "forward", "backward", "step", "sum", "Inductor's over it"]
    text += common.table(header, rows) + "\n\n"
    rows = []
    for name, row in result.items():
        for share, each in row.get("memory", {}).items():
            usual = row["memory"]["1"]
            changes = [each[key] / usual[key] for key in ("peak_mib", "processor_ms", "wall_ms")]
            whole = row["memory"].get("all", usual)["peak_mib"]
            peaks = [each.get("arena_mib"), each["peak_mib"], each["peak_mib"] / whole]
            rows.append([name, share, each["kept_mib"], *peaks, *changes])
    header = ["model", "memory", "kept MiB", "arena MiB", "peak MiB", "peak over that of all"]
    header += ["over that at 1"]
    return text + common.table([*header, "processor time over", "wall time over"], rows) + "\n"


if __name__ == "__main__":
    main()

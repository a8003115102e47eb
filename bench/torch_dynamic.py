#!/usr/bin/env python3
"""Free sizes and changed weights by `torch.compile`: how often it compiles, and what a refit takes.

    pip install dist/tilewright-*.whl torch torchvision transformers
    python bench/torch_dynamic.py [NAME...]        perceptron, bert, gpt2; all without

Free sizes: batch and length are marked by `mark_dynamic`; `--shapes` of them are drawn from a fixed
seed. What is counted are graphs that Dynamo captured and compiles of each; right is what is within
1e-4 of eager's largest value. Refit: with fixed sizes, the time in this package of the call after all
weights were written to in place (`mul_`, what an optimiser outside of it does), and after
`load_state_dict`, over that of the first compile; the result has to be right at once. One thread.
"""

import argparse
import random
import warnings

import common
import torch_compile

NAMES = ("perceptron", "bert", "gpt2")
TOLERANCE = 1e-4


def made(name):
    """A module, and a function from batch and length to its arguments."""
    import torch

    torch.manual_seed(0)
    if name == "perceptron":
        layers = torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10)
        return torch.nn.Sequential(*layers).eval(), lambda batch, length: (
            (torch.randn(batch, length, 64),), {})  # fmt: skip
    module = torch_compile.architectures()[name]()[0].eval()
    return module, lambda batch, length: (
        (), {"input_ids": torch.randint(5, 90, (batch, length))})  # fmt: skip


def first(result):
    """The first tensor of what a module gives."""
    return result if hasattr(result, "detach") else result[0]


def off(compiled, module, given):
    import torch

    places, names = given
    with torch.no_grad():
        found, wanted = first(compiled(*places, **names)), first(module(*places, **names))
    return ((found - wanted).abs().max() / wanted.abs().max()).item()


def free_sizes(name, count):
    import tilewright.torch
    import torch

    torch._dynamo.reset()
    tilewright.torch.kept_reports().clear()
    module, given = made(name)
    compiled = torch.compile(module, backend="tilewright")
    generator, worst = random.Random(0), 0.0
    every = [(batch, length) for batch in range(2, 9) for length in range(4, 65)]
    shapes = generator.sample(every, count)
    for shape in shapes:
        drawn = given(*shape)
        for each in (*drawn[0], *drawn[1].values()):
            torch._dynamo.mark_dynamic(each, 0)
            torch._dynamo.mark_dynamic(each, 1)
        worst = max(worst, off(compiled, module, drawn))
    reports = tilewright.torch.reports()
    return {
        "shapes": len(set(shapes)), "graphs": len(reports),
        "compiles": sum(it.compiles for it in reports),
        "eager_nodes": sum(len(it.eager) for it in reports), "difference": worst,
    }  # fmt: skip


def refits(name, rounds=5):
    """What a refit takes, of a compile: of each the least of rounds, since machines are shared."""
    found = [refitted(name) for _ in range(rounds)]
    compiling, in_place, loaded = (min(times) for times in zip(*(it["seconds"] for it in found)))
    return {
        "refits": sum(it["refits"] for it in found), "compiles": sum(it["compiles"] for it in found),
        "compile_s": compiling, "in_place": in_place / compiling,
        "load_state_dict": loaded / compiling, "difference": max(it["worst"] for it in found),
    }  # fmt: skip


def refitted(name):
    """A compile, a refit behind weights that change in place, and one behind `load_state_dict`."""
    import tilewright.torch
    import torch

    torch._dynamo.reset()
    tilewright.torch.kept_reports().clear()
    module, given = made(name)
    drawn = given(2, 32)
    compiled = torch.compile(module, backend="tilewright")
    worst = off(compiled, module, drawn)
    kept = {key: it.clone() for key, it in module.state_dict().items()}

    def spent():
        return sum(it.compile_seconds for it in tilewright.torch.reports())

    seconds = [spent()]
    with torch.no_grad():
        for each in module.parameters():
            each.mul_(1.01)
    for change in (lambda: None, lambda: module.load_state_dict(kept)):
        change()
        before = spent()
        worst = max(worst, off(compiled, module, drawn))
        seconds.append(spent() - before)
    reports = tilewright.torch.reports()
    return {
        "refits": sum(it.refits for it in reports), "compiles": sum(it.compiles for it in reports),
        "seconds": seconds, "worst": worst,
    }  # fmt: skip


def main():
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("names", nargs="*", help=" ".join(NAMES))
    options.add_argument("--shapes", type=int, default=50, help="of each model")
    options.add_argument("--name", default="torch-dynamic", help="of the files in bench/results/")
    given = options.parse_args()
    unknown = set(given.names) - set(NAMES)
    if unknown:
        options.error(f"no model is called {', '.join(unknown)}: {', '.join(NAMES)}")
    import torch

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    origin, sizes, changed = common.origin(), {}, {}
    for name in given.names or NAMES:
        sizes[name], changed[name] = free_sizes(name, given.shapes), refits(name)
        print(name, sizes[name], changed[name], flush=True)
    right = all(row["difference"] <= TOLERANCE for row in [*sizes.values(), *changed.values()])
    header = ["model", "shapes", "graphs", "compiles", "nodes left eager", "difference"]
    text = common.table(header, [[name, *row.values()] for name, row in sizes.items()]) + "\n\n"
    header = ["model", "refits", "compiles", "seconds of the compile", "after mul_, of it"]
    header += ["after load_state_dict", "difference"]
    text += common.table(header, [[name, *row.values()] for name, row in changed.items()])
    text += f"\n\n{'All are' if right else 'Not all are'} within {TOLERANCE} of eager.\n"
    result = {"origin": origin, "sizes": sizes, "refits": changed}
    common.keep(given.name, "Free sizes and changed weights, 1 thread, f32", result, text)


if __name__ == "__main__":
    main()

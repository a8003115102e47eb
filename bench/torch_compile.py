#!/usr/bin/env python3
"""Compiles architectures of torchvision and transformers by `torch.compile`, and races Inductor.

    pip install dist/tilewright-*.whl torch torchvision transformers
    python bench/torch_compile.py [NAME...]        names of architectures; all without

Weights are random, inputs are from a fixed seed, batch 1, one thread, no gradients. An architecture
is right if the larger of its outputs' largest differences from eager's is at most 1e-4 of the
output's largest value, and no node stays with PyTorch. Transformers are small: two layers of 128.

With `--autocast` eager and compiled code run under `torch.autocast` in bf16: right is then a difference
of at most 1.6e-2 (what `torch.testing.assert_close` allows bf16), or one from eager in f32 that is not
larger than that of eager under autocast. With `--int8` torchao makes the weights of linear layers int8
(`Int8WeightOnlyConfig`) before both run; the tolerance is that of f32, and layers that torchao leaves
as they are, convolutions among them, stay f32.

With `--race` each is compiled by Inductor, too, with cold caches: calls alternate, ten at least, and
of each the least processor time counts, which other work on the machine disturbs less than the time
that passes. `seconds in the back end` are what this package spends after the capture, and what
Inductor's `compile_fx_inner` does.
"""

import argparse
import functools
import math
import os
import time
import warnings

import common

# By mode, of an output's largest value.
TOLERANCES = {"f32": 1e-4, "autocast": 1.6e-2, "int8": 1e-4}

# Calls of each side in a race.
LEAST_ROUNDS = 10

TORCHVISION = (
    "alexnet convnext_tiny densenet121 efficientnet_b0 maxvit_t mnasnet1_0 mobilenet_v2 "
    "mobilenet_v3_large regnet_y_400mf resnet18 resnet50 shufflenet_v2_x1_0 squeezenet1_1 swin_t "
    "vgg11 vit_b_16"
).split()

SMALL = {
    "hidden_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 256,
    "vocab_size": 100,
}

HALVES = {
    "d_model": 128,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 256,
    "decoder_ffn_dim": 256,
    "vocab_size": 100,
    "pad_token_id": 1,
    "bos_token_id": 0,
    "eos_token_id": 2,
}


def architectures():
    """Name to a maker of a module, its arguments and its named arguments."""
    import torch
    import torchvision
    import transformers

    made = {}

    def picture(size):
        return (torch.randn(1, 3, size, size),)

    def seen(name, size=224, **options):
        maker = getattr(torchvision.models, name)
        made[name] = lambda: (maker(weights=None, **options), picture(size), {})

    def read(name, model, config, halves=False, **more):
        def maker():
            given = {"input_ids": torch.randint(5, 90, (1, 32)), **more}
            if halves:
                given["decoder_input_ids"] = torch.randint(5, 90, (1, 8))
            return getattr(transformers, model)(config), (), given

        made[name] = maker

    for name in TORCHVISION:
        seen(name)
    seen("googlenet", init_weights=False, aux_logits=False)
    seen("inception_v3", 299, init_weights=False, aux_logits=False)
    segmentation = torchvision.models.segmentation.deeplabv3_mobilenet_v3_large
    made["deeplabv3_mobilenet_v3_large"] = lambda: (
        segmentation(weights=None, weights_backbone=None), picture(224), {},
    )  # fmt: skip
    video = torchvision.models.video.r3d_18
    made["r3d_18"] = lambda: (video(weights=None), (torch.randn(1, 3, 8, 64, 64),), {})
    read("bert", "BertModel", transformers.BertConfig(**SMALL))
    read("roberta", "RobertaModel", transformers.RobertaConfig(**SMALL))
    read("albert", "AlbertModel", transformers.AlbertConfig(embedding_size=64, **SMALL))
    read("electra", "ElectraModel", transformers.ElectraConfig(**SMALL))
    distil = transformers.DistilBertConfig(
        dim=128, n_layers=2, n_heads=4, hidden_dim=256, vocab_size=100
    )
    read("distilbert", "DistilBertModel", distil)
    gpt2 = transformers.GPT2Config(n_embd=128, n_layer=2, n_head=4, vocab_size=100)
    read("gpt2", "GPT2LMHeadModel", gpt2, use_cache=False)
    llama = transformers.LlamaConfig(num_key_value_heads=2, **SMALL)
    read("llama", "LlamaForCausalLM", llama, use_cache=False)
    qwen = transformers.Qwen2Config(num_key_value_heads=2, **SMALL)
    read("qwen2", "Qwen2ForCausalLM", qwen, use_cache=False)
    t5 = transformers.T5Config(
        d_model=128, d_kv=32, d_ff=256, num_layers=2, num_heads=4, vocab_size=100
    )
    read("t5", "T5ForConditionalGeneration", t5, halves=True, use_cache=False)
    read("bart", "BartModel", transformers.BartConfig(**HALVES), halves=True, use_cache=False)
    return made


def tensors(value):
    import torch

    leaves = torch.utils._pytree.tree_leaves(value)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def difference(found, wanted):
    """The largest difference of outputs, each over the largest value of its own."""
    pairs = zip(found, wanted, strict=True)
    each = [
        ((one.double() - two.double()).abs().max() / two.double().abs().max().clamp_min(1e-12)).item()
        for one, two in pairs
    ]
    return max(each)


def alternating(calls, seconds):
    """The least processor time of each call, in ms."""
    least = [math.inf] * len(calls)
    end, rounds = time.perf_counter() + seconds, 0
    while time.perf_counter() < end or rounds < LEAST_ROUNDS:
        rounds += 1
        for at, call in enumerate(calls):
            start = time.process_time()
            call()
            least[at] = min(least[at], (time.process_time() - start) * 1e3)
    return least


def look_at(maker, given):
    """A row of figures of an architecture."""
    import torch

    torch._dynamo.reset()
    torch.manual_seed(0)
    module, arguments, named = maker()
    module = module.eval()
    plain = tensors(module(*arguments, **named))
    if given.mode == "int8":
        from torchao.quantization import Int8WeightOnlyConfig, quantize_

        quantize_(module, Int8WeightOnlyConfig())
    with torch.autocast("cpu", torch.bfloat16, enabled=given.mode == "autocast"):
        return figures(module, arguments, named, plain, given)


def figures(module, arguments, named, plain, given):
    """A row of figures of a module; `plain` are its outputs in f32."""
    import tilewright.torch
    import torch
    from torch._dynamo.utils import compilation_time_metrics

    call = functools.partial(module, *arguments, **named)
    before = set(map(id, tilewright.torch.reports()))
    compiled = torch.compile(module, backend="tilewright")
    ours = functools.partial(compiled, *arguments, **named)
    wanted, found = tensors(call()), tensors(ours())
    reports = [it for it in tilewright.torch.reports() if id(it) not in before]
    row = {
        "difference": difference(found, wanted),
        "from_f32": difference(found, plain),
        "eager_from_f32": difference(wanted, plain),
        "nodes": sum(it.nodes for it in reports),
        "eager": sum(len(it.eager) for it in reports),
        "refused": sorted({f"{name}: {why.splitlines()[0]}"
                           for it in reports for _, name, why in it.eager}),
        "seconds": sum(it.seconds for it in reports),
    }
    if given.race:
        compilation_time_metrics.clear()
        other = functools.partial(torch.compile(module), *arguments, **named)
        other()
        row["inductor_seconds"] = sum(compilation_time_metrics.get("compile_fx_inner", [0]))
        row["ms"], row["inductor_ms"] = alternating([ours, other], given.seconds)
    return row


def is_right(row, mode):
    """Whether a row's outputs are right, and no node stayed with PyTorch."""
    reached = row["difference"] <= TOLERANCES[mode]
    if mode == "autocast":
        reached |= row["from_f32"] <= row["eager_from_f32"]
    return reached and not row["eager"]


def main():
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("names", nargs="*", help="architectures")
    options.add_argument("--race", action="store_true", help="beside Inductor")
    modes = options.add_mutually_exclusive_group()
    for mode in ("autocast", "int8"):
        modes.add_argument(f"--{mode}", dest="mode", action="store_const", const=mode)
    options.add_argument("--seconds", type=float, default=4.0, help="of calls, each architecture")
    options.add_argument("--name", help="of the files in bench/results/")
    options.add_argument(
        "--add", action="store_true", help="to the architectures that the kept result has"
    )
    options.set_defaults(mode="f32")
    given = options.parse_args()
    os.environ["TORCHINDUCTOR_FORCE_DISABLE_CACHES"] = "1"
    import torch

    torch.set_num_threads(1)
    origin, makers, result, failed = common.origin(), architectures(), {}, {}
    title = f"torch.compile, 1 thread, {given.mode}"
    usual = "torch-compile" if given.mode == "f32" else f"torch-compile-{given.mode}"
    if given.add:
        result = common.kept(given.name or usual, "architectures")
    measured = set(given.names or makers)
    unknown = [name for name in given.names if name not in makers]
    if unknown:
        options.error(f"no architecture is called {', '.join(unknown)}: {', '.join(makers)}")
    try:
        for name in given.names or makers:
            with torch.no_grad(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    result[name] = {**look_at(makers[name], given), "commit": origin["commit"]}
                except Exception as error:
                    said = f"{type(error).__name__}: {error}".splitlines()[0]
                    failed[name] = common.without_paths(said)
            print(name, result.get(name) or failed[name], flush=True)
    except KeyboardInterrupt:
        print("interrupted: what is done so far is kept")
    header = ["architecture", "difference", "nodes", "eager", "seconds in the back end"]
    keys = ["difference", "nodes", "eager", "seconds"]
    if given.race:
        header += ["Inductor's", "ms", "Inductor ms"]
        keys += ["inductor_seconds", "ms", "inductor_ms"]
    if given.mode == "autocast":
        header[2:2] = ["from eager in f32", "eager's under autocast"]
        keys[1:1] = ["from_f32", "eager_from_f32"]
    rows = [[name, *(row.get(key) for key in keys)] for name, row in result.items()]
    right = [is_right(row, given.mode) for row in result.values()]
    text = common.table(header, rows) + f"\n\n{sum(right)} of {len(right) + len(failed)} right.\n"
    earlier = [name for name, row in result.items() if name not in measured]
    if earlier:
        text += f"Of earlier runs, whose commits the JSON file has: {', '.join(earlier)}.\n"
    text += "".join(f"\n- {name}: {said}" for name, said in failed.items())
    for name, row in result.items():
        text += "".join(f"\n- {name}: {common.without_paths(it)}" for it in row["refused"])
    raced = [row for row in result.values() if "inductor_ms" in row]
    if given.race and raced:
        speeds = [row["inductor_ms"] / row["ms"] for row in raced]
        compiles = [row["inductor_seconds"] / row["seconds"] for row in raced]
        text += f"Of {len(raced)} Inductor's time over ours {common.mean(speeds):.2f} (least {min(speeds):.2f}), "
        text += f"in the back end {common.mean(compiles):.0f} (least {min(compiles):.0f}).\n"
    common.keep(given.name or usual, title, {"origin": origin, "architectures": result}, text)


if __name__ == "__main__":
    main()

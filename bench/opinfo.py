#!/usr/bin/env python3
"""Runs PyTorch's own samples of operators (OpInfo) through the compiler, and compares with eager.

    pip install dist/tilewright-*.whl torch expecttest
    python bench/opinfo.py [NAME...]               names of entries; those of core ATen without
    python bench/opinfo.py --every                 all that PyTorch has

Entries run in processes of their own, some one after the other; where one ends early, the entry it
was at counts as one sample that failed, and another goes on with the rest. An entry belongs to core ATen if an operator with that tag has its name, or if its first sample comes
to one operator alone, which has the tag. Of each entry and element type (f32, i64, bool, bf16) the first
samples count, at most `--samples`; those that eager refuses are left out. A sample is

- right, if each output has eager's type and shape, and eager's values within the tolerance that
  PyTorch's own tests have for the entry and the type; where results are random or not initialised,
  types and shapes count alone;
- nearer, if each element that is not within that tolerance of eager's is within it of what eager
  computes of the same values in f64, or not farther from that than eager is, or, in f32, than four
  units in the last place of the largest element; and places of sorted elements, if they are of the
  elements that eager has there;
- refused, if PyTorch ran a node of it, which `tilewright.torch.reports()` names;
- wrong otherwise.

Samples go through `aot_autograd`, as `torch.compile` calls it; those that it has no graph of (sizes
depend on data) through `torch.compile` itself, with `capture_dynamic_output_shape_ops`.
"""

import argparse
import collections
import concurrent.futures
import itertools
import json
import subprocess
import sys
import warnings

import common

# Entries that give places of elements, among which equal ones have no order.
SORTED = ("argsort", "sort", "topk")

DTYPES = ("float32", "int64", "bool", "bfloat16")

# How many entries one process looks at.
GROUP = 12


def core_operators():
    """The names of the operators that have the tag."""
    import torch

    packets = {name: getattr(torch.ops.aten, name) for name in dir(torch.ops.aten)}
    return {
        name
        for name, packet in packets.items()
        if hasattr(packet, "overloads")
        and any(torch.Tag.core in getattr(packet, it).tags for it in packet.overloads())
    }


def full_name(entry):
    return f"{entry.name}.{entry.variant_test_name}".rstrip(".")


def entries(names, every):
    """The entries of these names, with or without their variants', or all, or those of core ATen."""
    from torch.testing._internal.common_methods_invocations import op_db

    if names:
        return [it for it in op_db if it.name in names or full_name(it) in names]
    if every:
        return list(op_db)
    core = core_operators()
    return [it for it in op_db if is_core(it, core)]


def is_core(entry, core):
    import torch

    own = (entry.name, entry.aten_name, entry.name.rpartition(".")[2])
    if any(prefix + name in core for name in own for prefix in ("", "_", "native_")):
        return True
    dtypes = entry.supported_dtypes("cpu")
    dtype = torch.float32 if torch.float32 in dtypes else next(iter(dtypes), None)
    if dtype is None:
        return False
    try:
        sample = next(iter(entry.sample_inputs("cpu", dtype)))
        function, tensors = flat(entry, sample)
        with noting() as noted:
            function(*tensors)
    except Exception:
        # What has no sample, or none that runs here, is no entry to look at.
        return False
    return len(noted.names) == 1 and noted.names[0] in core


def noting():
    """A mode that notes the names of the operators that run."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Noting(TorchDispatchMode):
        def __init__(self):
            super().__init__()
            self.names = []

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            self.names.append(function.overloadpacket.__name__)
            return function(*args, **(kwargs or {}))

    return Noting()


def flat(entry, sample):
    """A function of a sample's tensors alone, which gives a list of tensors, and these."""
    import torch
    from torch.utils import _pytree

    leaves, tree = _pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
    places = [at for at, it in enumerate(leaves) if isinstance(it, torch.Tensor)]

    def function(*tensors):
        given = list(leaves)
        for at, tensor in zip(places, tensors, strict=True):
            given[at] = tensor
        own, args, kwargs = _pytree.tree_unflatten(given, tree)
        made = _pytree.tree_leaves(entry.op(own, *args, **kwargs))
        return [it for it in made if isinstance(it, torch.Tensor)]

    return function, [leaves[at].detach() for at in places]


def copies(tensors):
    return [it.detach().clone() for it in tensors]


def compiled(function, tensors):
    """What the compiler makes of a function of tensors, and the nodes that PyTorch ran."""
    import functorch.compile
    import tilewright.torch as backend
    import torch

    backend.kept_reports().clear()
    # The seed that OpInfo's samples of random operators set, which is no part of a graph.
    torch.manual_seed(42)
    options, _ = backend._options({"threads": 1})

    ended = []

    def inference(module, inputs):
        try:
            return backend._compiled(module, inputs, options=options)
        except Exception as error:
            ended.append(error)
            raise

    try:
        call = functorch.compile.aot_function(
            function, inference, inference_compiler=inference,
            decompositions=backend.decompositions(),
        )  # fmt: skip
        found = call(*copies(tensors))
    except Exception:
        # What the backend itself ends in says nothing of the sample.
        if ended:
            raise
        torch._dynamo.reset()
        backend.kept_reports().clear()
        torch.manual_seed(42)
        with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
            found = torch.compile(function, backend="tilewright", fullgraph=True)(*copies(tensors))
    eager = [it for report in backend.reports() for it in report.eager]
    return found, [(target, reason.splitlines()[0]) for _, target, reason in eager]


def is_same_kind(found, wanted):
    """Whether outputs agree in number, types and shapes."""
    kinds = [[(it.dtype, it.shape) for it in each] for each in (found, wanted)]
    return kinds[0] == kinds[1]


def tolerance(entry, dtype):
    """The relative and the absolute tolerance of a type: the largest that PyTorch's own tests of the
    entry on the CPU have."""
    import torch
    from torch.testing._comparison import default_tolerances

    pairs = [default_tolerances(dtype)]
    for told in entry.decorators:
        if getattr(told, "device_type", None) in (None, "cpu"):
            for inner in getattr(told, "decorators", [told]):
                own = getattr(inner, "overrides", {}).get(dtype)
                if hasattr(own, "rtol"):
                    pairs.append((own.rtol, own.atol))
    return [max(each) for each in zip(*pairs)]


def distance(found, wanted):
    """How far elements are from others, in f64; NaN is infinitely far from numbers."""
    import torch

    if found.is_complex():
        found, wanted = torch.view_as_real(found), torch.view_as_real(wanted.to(found.dtype))
    found, wanted = found.double(), wanted.double()
    same = (found == wanted) | (found.isnan() & wanted.isnan())
    return torch.where(same, 0.0, (found - wanted).abs().nan_to_num(nan=torch.inf))


def size(values):
    """The magnitudes of elements, in f64; of complex ones that of each part."""
    import torch

    return (torch.view_as_real(values) if values.is_complex() else values).double().abs()


def is_close(found, wanted, entry, truth=None):
    """Whether all elements are within tolerance of those wanted, or of the truth, or no farther from
    the truth than those wanted, or, in f32, than the rounding of a sum as large as the largest."""
    import torch

    for number, (one, two) in enumerate(zip(found, wanted, strict=True)):
        relative, absolute = tolerance(entry, two.dtype)
        reached = distance(one, two) <= absolute + relative * size(two)
        if truth is not None:
            exact = truth[number].to(two.dtype)
            off = distance(one, exact)
            reached |= off <= absolute + relative * size(exact)
            reached |= off <= distance(two, exact)
            if exact.dtype == torch.float32 and exact.numel():
                reached |= off <= 4 * torch.finfo(exact.dtype).eps * size(exact).max()
        if not reached.all():
            return False
    return True


def largest(found, wanted):
    """The largest distance of any element."""
    pairs = zip(found, wanted, strict=True)
    return max((distance(*pair).max().item() for pair in pairs if pair[0].numel()), default=0.0)


def in_f64(function, tensors):
    import torch

    return function(*(it.double() if it.is_floating_point() else it.clone() for it in tensors))


def look_at(entry, sample):
    """The kind of a sample's outcome, with what there is to say of it; none if eager refuses it."""
    import torch

    function, tensors = flat(entry, sample)
    try:
        wanted = []
        for seed in range(2):
            torch.manual_seed(seed)
            wanted.append(function(*copies(tensors)))
    except Exception:
        return None
    is_defined = is_same_kind(*wanted) and is_close(*wanted, entry) and "empty" not in entry.name
    wanted = wanted[0]
    try:
        found, eager = compiled(function, tensors)
    except torch._dynamo.exc.Unsupported as error:
        return "refused", f"torch.compile: {str(error).strip().splitlines()[0][:160]}"
    except Exception as error:
        return "failed", f"{type(error).__name__}: {str(error).strip().splitlines()[0][:160]}"
    if eager:
        return "refused", "; ".join(sorted({f"{name}: {reason}" for name, reason in eager}))
    if not is_same_kind(found, wanted):
        return "wrong", "other types or shapes"
    if not is_defined or is_close(found, wanted, entry):
        return "right", ""
    if entry.name in SORTED and is_close(*picked(tensors[0], found, wanted), entry):
        return "nearer", "other places of equal elements"
    try:
        truth = in_f64(function, tensors)
        ours, theirs = largest(found, truth), largest(wanted, truth)
    except Exception as error:
        return "wrong", f"in f64 eager says {type(error).__name__}"
    said = f"{ours:.3g} from f64, where eager is {theirs:.3g} from it"
    return ("nearer" if is_close(found, wanted, entry, truth) else "wrong"), said


def picked(source, found, wanted):
    """Outputs with places in a source replaced by its elements there; the axis is one along which all
    of eager's places are."""
    import torch

    pairs = [[], []]
    for one, two in zip(found, wanted, strict=True):
        if two.dtype == torch.int64 and two.dim() == source.dim() and two.numel():
            fits = lambda axis: all(  # noqa: E731
                n == m for at, (n, m) in enumerate(zip(two.shape, source.shape)) if at != axis
            ) and 0 <= one.min() and max(one.max(), two.max()) < source.shape[axis]
            for axis in filter(fits, range(source.dim())):
                own = [source.gather(axis, it) for it in (one, two)]
                if own[0].equal(own[1]):
                    one, two = own
                    break
        pairs[0].append(one)
        pairs[1].append(two)
    return pairs


def samples_of(entry, dtype, most):
    import torch

    torch.manual_seed(0)
    made = entry.sample_inputs("cpu", dtype, requires_grad=False)
    return itertools.islice(made, most)


def row_of(entry, most):
    """How many samples of an entry came to what, and what there is to say of them."""
    import torch

    outcomes, said = collections.Counter(), collections.Counter()
    for word in DTYPES:
        dtype = getattr(torch, word)
        if dtype not in entry.supported_dtypes("cpu"):
            continue
        for sample in samples_of(entry, dtype, most):
            with torch.no_grad():
                outcome = look_at(entry, sample)
            if outcome is not None:
                kind, text = outcome
                outcomes[kind] += 1
                if text:
                    said[f"{word} {kind}: {common.without_paths(text)}"] += 1
    return {**outcomes, "said": dict(said)}


def part(names, most):
    """Looks at entries, and prints a line of JSON for each."""
    import torch

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch._C._jit_set_profiling_executor(False)
    by_name = {full_name(it): it for it in entries(names, False)}
    for name in names:
        print("\n" + json.dumps([name, row_of(by_name[name], most)]), flush=True)


def in_children(names, most):
    """The rows of entries, by processes of their own; one that ends early is followed by another."""
    rows, left = {}, list(names)
    while left:
        command = [sys.executable, __file__, "--part", "--samples", str(most), *left]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for line in done.stdout.splitlines():
            if left and line.startswith(f'["{left[0]}", '):
                rows[left.pop(0)] = json.loads(line)[1]
        if left:
            last = (done.stderr.strip().splitlines() or [""])[-1][:160]
            said = f"the process ended with {done.returncode}: {common.without_paths(last)}"
            rows[left.pop(0)] = {"failed": 1, "said": {f"any failed: {said}": 1}}
    return rows


def main():
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("names", nargs="*", help="entries")
    options.add_argument("--every", action="store_true", help="not those of core ATen alone")
    options.add_argument("--samples", type=int, default=40, help="an entry and element type")
    options.add_argument("--jobs", type=int, default=1, help="processes at once")
    options.add_argument("--add", action="store_true", help="to the entries the kept result has")
    options.add_argument("--name", default="opinfo", help="of the files in bench/results/")
    options.add_argument("--part", action="store_true", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.part:
        part(given.names, given.samples)
        return
    warnings.simplefilter("ignore")
    origin = common.origin()
    rows = common.kept(given.name, "entries") if given.add else {}
    names = [full_name(it) for it in entries(given.names, given.every)]
    groups = [names[at : at + GROUP] for at in range(0, len(names), GROUP)]
    with concurrent.futures.ThreadPoolExecutor(given.jobs) as pool:
        for found in pool.map(lambda group: in_children(group, given.samples), groups):
            rows.update(found)
            for name, row in found.items():
                counts = {kind: n for kind, n in row.items() if kind != "said"}
                print(name, counts, *(f"\n    {n} {it}" for it, n in row["said"].items()), flush=True)
    kinds = ("right", "nearer", "refused", "failed", "wrong")
    total = {kind: sum(row.get(kind, 0) for row in rows.values()) for kind in kinds}
    count = sum(total.values())
    share = 100 * (total["right"] + total["nearer"]) / max(count, 1)
    text = f"{count} samples of {len(rows)} entries: " + ", ".join(
        f"{n} {kind}" for kind, n in total.items()
    )
    text += f"; {share:.2f} % right or nearer to f64 than eager.\n\n"
    odd = [
        [name, *(row.get(kind, 0) for kind in kinds)]
        for name, row in rows.items()
        if any(row.get(kind, 0) for kind in kinds[1:])
    ]
    text += common.table(["entry, where not all are right", *kinds], odd) + "\n\n"
    reasons = collections.Counter()
    for row in rows.values():
        for reason, n in row["said"].items():
            word, _, reason = reason.partition(" ")
            if not reason.startswith("nearer"):
                reasons[reason] += n
    listed = [[n, reason] for reason, n in reasons.most_common()]
    text += common.table(["samples", "what is said"], listed) + "\n"
    title = "Samples of PyTorch's operators"
    common.keep(given.name, title, {"origin": origin, "total": total, "entries": rows}, text)


if __name__ == "__main__":
    main()

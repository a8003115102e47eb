"""Random numbers in graphs: PyTorch's generator gives them, as it does to eager code, and what reads
them is compiled.

Nodes that draw numbers are made independent of all tensors, of which they take no more than a shape, so
that they stand in front of the compiled code and leave it in one piece. They keep their order, so a seed
means what it means to eager code.
"""

import torch

_ATEN = torch.ops.aten

# Operators that draw numbers of a shape, and read no tensor.
_DRAWING = (
    _ATEN.normal.float_float, _ATEN.rand.default, _ATEN.randn.default, _ATEN.randint.default,
    _ATEN.randint.low, _ATEN.randperm.default,
)  # fmt: skip

# What draws numbers of the shape and the type of a tensor, of which it takes no more.
_ALIKE = {
    _ATEN.rand_like.default: _ATEN.rand.default,
    _ATEN.randn_like.default: _ATEN.randn.default,
}

# What fills a tensor with numbers, whose shape and type it takes, and no element.
_FILLING = (
    _ATEN.bernoulli.p, _ATEN.cauchy.default, _ATEN.exponential.default, _ATEN.geometric.default,
    _ATEN.log_normal.default, _ATEN.normal_functional.default, _ATEN.random.default,
    getattr(_ATEN.random, "from"), _ATEN.random.to, _ATEN.uniform.default,
)  # fmt: skip

# The beginnings of the names of what draws, which is to stay as it is.
DRAWING_NAMES = tuple(
    f"aten.{name}" for name in (
        "bernoulli.", "cauchy", "exponential", "geometric", "log_normal", "normal", "rand",
        "uniform",
    )
)  # fmt: skip


def dropout(x, probability, train):
    """``native_dropout`` of PyTorch on the CPU: the result and the mask, by the same draws."""
    if train is False or probability == 0:
        return x.clone(), torch.ones_like(x, dtype=torch.bool)
    # Eager code draws in the order in which the elements lie in memory.
    order = list(range(x.dim()))
    if not x.is_contiguous():
        order.sort(key=x.stride, reverse=True)
    drawn = torch.empty([x.shape[axis] for axis in order], dtype=torch.bool)
    drawn = _ATEN.bernoulli.p(drawn, 1 - probability)
    mask = drawn.permute([order.index(axis) for axis in range(x.dim())])
    scale = 0.0 if probability == 1 else 1 / (1 - probability)
    return x * mask * scale, mask


def drawing_nodes(module):
    """The nodes of a graph that draw numbers, or make what they fill, once they are independent of
    tensors. The graph is changed for that."""
    found, graph = set(), module.graph
    for node in list(graph.nodes):
        value = node.meta.get("val")
        if node.op != "call_function" or not isinstance(value, torch.Tensor):
            continue
        if any(not isinstance(extent, int) for extent in value.shape):
            continue
        if node.target in _ALIKE and value.is_contiguous():
            with graph.inserting_before(node):
                drawn = _made(graph, _ALIKE[node.target], node)
            node.replace_all_uses_with(drawn)
            graph.erase_node(node)
            found.add(drawn)
        elif node.target in _DRAWING:
            found.add(node)
        elif node.target in _FILLING and value.is_contiguous():
            with graph.inserting_before(node):
                filled = _made(graph, _ATEN.empty.memory_format, node)
            node.update_arg(0, filled)
            found.update((filled, node))
    if found:
        graph.eliminate_dead_code()
        module.recompile()
    return found


def _made(graph, target, like):
    """A node that makes a tensor of the shape and the type that another gives."""
    value = like.meta["val"]
    made = graph.call_function(target, (list(value.shape),), {"dtype": value.dtype})
    made.meta["val"] = value
    return made

"""``torch.compile(model, backend="tilewright")``.

Dynamo captures a graph, PyTorch's aot_autograd makes it functional (mutation of inputs and buffers
becomes results that it writes back) and, where gradients are wanted, splits it into a forward and a
backward half. What is here turns each into a trace (:mod:`tilewright._trace`) and runs it.

Nodes that the compiler has no operator for are decomposed by PyTorch where it can; what is left is
run by PyTorch itself, and a warning names each such node with the reason. :func:`reports` says of
each graph compiled so far how many pieces it came to and what was left.

Parameters are shared, not copied. When one has changed since the last call, by an optimiser or
``load_state_dict``, what the compiler had made of it ahead of time is computed anew; nothing is
compiled. Sizes that Dynamo marks as dynamic stay symbols, so one compile serves all of them.

Options, as ``torch.compile(.., options={..})``: those of :func:`tilewright.compile` but ``dims`` and
``shapes``; threads are ``torch.get_num_threads()`` if nothing is said. In training ``memory``, from
0 to 1, is the share of what the backward half would keep of the forward one that it may keep (1 if
nothing is said); the rest it computes again. Where it is said, what is kept goes back to the system
as soon as the backward half has read it.
"""

import collections
import functools
import operator
import threading
import time
import warnings
import weakref

import numpy as np
import torch

from . import _native
from ._model import NO_OPTIONS
from ._model import options as checked_options
from ._random import DRAWING_NAMES, drawing_nodes, dropout
from ._trace import (
    Refused,
    Trace,
    Writer,
    asserted,
    condition,
    inverse,
    is_counted,
    is_size,
    stored_name,
    writes_back,
)

_REPORTS = collections.deque(maxlen=256)


class EagerWarning(UserWarning):
    """Nodes are run by PyTorch, not by compiled code."""


class Report:
    """What became of a graph: ``nodes`` compiled, ``pieces`` they came to, the ``eager`` nodes with
    reasons, ``seconds`` spent so far in this package, of which ``compile_seconds`` in the compiler,
    ``compiles`` and ``refits`` so far; ``arena_bytes``, what values between kernels take."""

    def __init__(self):
        self.nodes = self.pieces = self.compiles = self.refits = 0
        self.seconds = self.compile_seconds = 0.0
        self.eager = []
        self._made = weakref.WeakSet()

    @property
    def arena_bytes(self):
        return sum(piece.native.arena_bytes() for piece in self._made if piece.native is not None)

    def __repr__(self):
        return (f"<tilewright.torch.Report: {self.nodes} nodes in {self.pieces} pieces, "
                f"{len(self.eager)} eager, {self.compiles} compiles, {self.seconds:.3f} s>")

    def _repr_html_(self):
        from ._reports import _table

        names = ("nodes", "pieces", "compiles", "refits", "seconds", "compile_seconds")
        figures = [getattr(self, name) for name in names]
        shown = [f"{it:.3f}" if isinstance(it, float) else it for it in figures]
        text = _table(names, [(True, shown)])
        if not self.eager:
            return text
        rows = [(False, (name, target, why)) for name, target, why in self.eager]
        return text + "<p>left to PyTorch</p>" + _table(("node", "operator", "why"), rows)


def kept_reports():
    """Where reports are kept, as long as they are among the last."""
    return _REPORTS


def reports():
    """The reports of the last graphs, oldest first."""
    return list(_REPORTS)


@functools.lru_cache(maxsize=None)
def operators():
    """The names of the operators that the compiler has."""
    return frozenset(_native.aten_operators())


@functools.lru_cache(maxsize=None)
def decompositions():
    """PyTorch's decompositions of the operators that the compiler lacks."""
    from torch._decomp import core_aten_decompositions, decomposition_table

    table = {**decomposition_table, **core_aten_decompositions()}
    lacking = {key: it for key, it in table.items() if str(key) not in operators()}
    # What draws random numbers stays as it is, so that the draws are those of eager code.
    lacking = {key: it for key, it in lacking.items() if not str(key).startswith(DRAWING_NAMES)}
    return {**lacking, torch.ops.aten.native_dropout.default: dropout}


def backend(module, example_inputs, *, options=None, mode=None):
    """The backend, as ``torch.compile`` calls it."""
    from torch._dynamo.backends.common import aot_autograd

    del mode
    given, memory = _options(options)
    forward = functools.partial(_compiled, options=given)
    backward = functools.partial(
        _compiled, options=given, gradients=True,
        donated=_donated_placeholders if memory is not None else frozenset)
    inference = functools.partial(_compiled, options=given, static=_static_placeholders)
    share = 1.0 if memory is None else memory
    made = aot_autograd(
        fw_compiler=forward, bw_compiler=backward, inference_compiler=inference,
        partition_fn=functools.partial(_divided, memory=share), decompositions=decompositions(),
        # What a graph writes to its inputs is written where they lie.
        keep_inference_input_mutations=True,
    )  # fmt: skip
    from torch._functorch import config

    # A gradient comes in row-major order, or channels last. Were it given the strides of the result
    # that it is of, as is usual, of windows that overlap only one would keep its numbers.
    name = "guess_tangent_strides_as_outputs"
    with config.patch({name: False} if hasattr(config, name) else {}):
        return made(module, example_inputs)


def _divided(joint, inputs, *, memory, **given):
    """The forward and the backward half of a graph. Of the values that the backward half would keep,
    a share of the bytes stays; what else it reads it computes anew, the cheapest first. With all
    that may stay it still computes anew what costs less than keeping it."""
    from torch._functorch import config, partitioners

    with config.patch(activation_memory_budget=memory):
        return partitioners.min_cut_rematerialization_partition(joint, inputs, **given)


def _options(given):
    """The compiler's options, and the share of values for the backward half that stays, if said."""
    given = {"threads": torch.get_num_threads(), **(given or {})}
    memory = given.pop("memory", None)
    if memory is None:
        pass
    elif isinstance(memory, bool) or not isinstance(memory, (int, float)) or not 0 <= memory <= 1:
        raise TypeError(f"options['memory']: {memory!r} is no share from 0 to 1")
    for name in ("dims", "shapes"):
        if name in given:
            raise TypeError(f"options[{name!r}]: sizes are those of the tensors given")
    return checked_options(**{**NO_OPTIONS, **given}), memory


def _static_placeholders():
    """The numbers of inputs that are parameters and buffers, which stay where they are; without those
    that the graph itself changes, as an optimiser does, of which nothing is worth making ahead."""
    metadata = _metadata()
    changed = (
        number for number, it in enumerate(getattr(metadata, "input_info", ()))
        if it.mutates_data
    )  # fmt: skip
    return frozenset(getattr(metadata, "static_input_indices", None) or ()).difference(changed)


def _donated_placeholders():
    """The numbers of inputs of the backward half that nobody reads behind it."""
    return frozenset(getattr(_metadata(), "bw_donated_idxs", None) or ())


def _metadata():
    """What PyTorch knows of the graph being compiled, if it says."""
    context = torch._guards.TracingContext.try_get()
    return None if context is None else context.fw_metadata


def _compiled(module, example_inputs, *, options, static=frozenset, donated=frozenset,
              gradients=False):
    """A function for a graph of ATen operators, whose nodes have their values' types. ``static`` and
    ``donated`` give what :func:`compiled_graph` takes."""
    report = Report()
    del example_inputs
    made = compiled_graph(module, static(), options, report, donated(), gradients)
    _REPORTS.append(report)

    def run(arguments):
        given = list(arguments)
        arguments.clear()
        return made(given)

    # The one argument is the list of inputs, which is emptied.
    run._boxed_call = True
    return run


def compiled_graph(module, static, options, report, donated=frozenset(), gradients=False):
    """A function from the list of a graph's inputs to that of its outputs. The inputs of numbers in
    ``static`` are weights, those in ``donated`` nobody reads behind a run. Outputs lie in memory as
    PyTorch has them, or, where they are ``gradients``, as parameters do."""
    started = time.perf_counter()
    drawing = drawing_nodes(module)
    reasons = _unsupported(module, drawing)
    made = (
        _partitioned(module, static, options, report, reasons, drawing, donated)
        if reasons or drawing
        else _Piece(module, static, options, report, donated, gradients)
    )
    report.seconds += time.perf_counter() - started
    return made


def _unsupported(module, drawing):
    """Nodes that the compiler has no operator for, or refuses, with the reasons; those that draw
    random numbers apart."""
    reasons = {}
    for node in module.graph.nodes:
        if node not in drawing and node.op in ("call_function", "get_attr"):
            reason = _reason(node)
            if reason:
                reasons[node] = reason
    names = {node.name: node for node in module.graph.nodes}
    try:
        refused = _native.refused_nodes(Trace(module, given={*reasons, *drawing}).text)
    except Refused as error:
        return {node: str(error) for node in module.graph.nodes
                if node.op == "call_function" and node not in drawing}
    return {**reasons, **{names[name]: text for name, text in refused if name in names}}


def _reason(node):
    """Why a node cannot stand in a trace; none where it can."""
    value = node.meta.get("val")
    writer, name = Writer(), str(node.target)
    if is_counted(node):
        try:
            writer.words.size(value)
            writer.call_text(node)
        except Refused as refused:
            return str(refused)
        return None if name in operators() else f"there is no operator {name}"
    if node.op == "get_attr" or isinstance(value, (int, torch.SymInt, torch.SymBool)):
        return None
    if writes_back(node) or asserted(node) is not None:
        return None
    try:
        if condition(node) is not None:
            return None
    except Refused as refused:
        return str(refused)
    if node.target is not operator.getitem and name not in operators():
        return f"there is no operator {name}"
    try:
        writer.types(value)
        writer.call_text(node)
        for argument in node.all_input_nodes:
            if not is_size(argument.meta.get("val")):
                writer.types(argument.meta.get("val"))
    except Refused as refused:
        return str(refused)
    except AttributeError:
        return "it gives no tensor"
    return None


def _partitioned(module, static, options, report, reasons, drawing, donated):
    """The graph with what can be compiled in pieces; PyTorch runs the rest, and draws random numbers."""
    from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
    from torch.fx.passes.operator_support import OperatorSupportBase

    class Support(OperatorSupportBase):
        def is_node_supported(self, submodules, node):
            return (
                node.op == "call_function" and node not in reasons and node not in drawing
                and not writes_back(node))

    placeholders = [node.name for node in module.graph.nodes if node.op == "placeholder"]
    weights, donated = (
        {placeholders[it] for it in numbers if it < len(placeholders)}
        for numbers in (static, donated))
    report.eager = [(node.name, str(node.target), reason) for node, reason in reasons.items()]
    if report.eager:
        named = "\n".join(f"  {name} ({target}): {why}" for name, target, why in report.eager)
        warnings.warn(f"PyTorch runs these nodes:\n{named}", EagerWarning, stacklevel=2)
    partitioner = CapabilityBasedPartitioner(
        module, Support(), allows_single_node_partition=True)
    fused = partitioner.fuse_partitions(partitioner.propose_partitions())
    for node in list(fused.graph.nodes):
        if node.op != "call_module" or not node.target.startswith("fused_"):
            continue
        part = getattr(fused, node.target)
        own = frozenset(at for at, it in enumerate(node.args) if it.name in weights)
        spent = frozenset(
            at for at, it in enumerate(node.args) if it.name in donated and len(it.users) == 1)
        try:
            piece = _Piece(part, own, options, report, donated=spent)
        except Refused as refused:
            report.eager.append((node.target, "partition", str(refused)))
            warnings.warn(f"PyTorch runs {node.target}: {refused}", EagerWarning, stacklevel=2)
            continue
        single = not isinstance(_output_of(part), (list, tuple))
        setattr(fused, node.target, _PieceModule(piece, single))
    fused.recompile()
    return lambda given: fused(*given)


def _output_of(module):
    return next(node.args[0] for node in module.graph.nodes if node.op == "output")


class _PieceModule(torch.nn.Module):
    """A piece in the place of the submodule that it was made of."""

    def __init__(self, piece, single):
        super().__init__()
        self.piece, self.single = piece, single

    def forward(self, *arguments):
        results = self.piece(arguments)
        return results[0] if self.single else results


class _Piece:
    """A graph that compiled code runs. Code is made at the first call, when weights are there."""

    def __init__(self, module, static, options, report, donated=frozenset(), gradients=False):
        self.report, self.options, self.module = report, options, module
        self.static, self.donated, self.gradients = static, donated, gradients
        self.trace = Trace(module, static, gradients=gradients)
        report.nodes += self.trace.nodes
        report.pieces += 1
        report._made.add(self)
        self.native, self.state = None, None
        self.settling = threading.Lock()

    def __call__(self, given):
        trace = self.trace
        weights = [given[it] if isinstance(it, int) else it for it, _ in trace.weights]
        try:
            state = [(it.data_ptr(), it._version) for it in weights]
        except RuntimeError:
            # Tensors made under inference_mode do not count their changes: they are inputs.
            self.static, self.native = frozenset(), None
            self.trace = trace = Trace(self.module, gradients=self.gradients)
            weights = [tensor for tensor, _ in trace.weights]
            state = None
        if self.native is None or state != self.state:
            with self.settling:
                if self.native is None or state != self.state:
                    self._settle(weights, state)
        symbols = {
            name: given[number] if axis is None else given[number].shape[axis]
            for name, (number, axis) in trace.sources.items()
        }
        inputs = [
            _array(given[it], trace.dtypes[it], trace.orders[it]) if isinstance(it, int)
            else _length(symbols[it[0]])
            for it in trace.inputs
        ]  # fmt: skip
        changes = trace.updates or self.donated
        outputs = self._updated(given, inputs) if changes else self.native.run(inputs)
        for name, (number, axis) in trace.found.items():
            symbols[name] = outputs[number].shape[axis]
        for holds, message in trace.checks:
            if not holds(symbols):
                raise RuntimeError(message)
        for number, message in trace.asserted:
            if not outputs[number].all():
                raise RuntimeError(message)
        made = {}
        return [
            _shown(made, outputs, *it) if isinstance(it, tuple)
            else given[it] if isinstance(it, int) else it(symbols)
            for it in trace.outputs
        ]

    def _updated(self, given, inputs):
        """The outputs of a run, those that the graph writes to its inputs being written there; memory
        of inputs that nobody needs goes back to the system."""
        trace = self.trace
        places = {it: place for place, it in enumerate(trace.inputs) if isinstance(it, int)}
        changed = [*trace.updates, *((number, None) for number in self.donated)]
        pairs = [
            (places[number], result) for number, result in changed
            if number in places
            and _is_shared(given[number], trace.dtypes[number], trace.orders[number])
        ]  # fmt: skip
        outputs = self.native.run_updating(inputs, pairs)
        written = []
        for number, result in trace.updates:
            array = outputs[result]
            if array is None:
                written.append(given[number])
            else:
                with torch.no_grad():
                    tensor, order = _tensor(array, given[number].dtype), trace.orders[number]
                    given[number].copy_(tensor if order is None else tensor.permute(inverse(order)))
        if written:
            torch.autograd.graph.increment_version(written)
        return outputs

    def _settle(self, weights, state):
        """Compiles, or takes note of changed weights."""
        started = time.perf_counter()
        places = state and [pointer for pointer, _ in state]
        before = self.state and [pointer for pointer, _ in self.state]
        if self.native is not None and places == before and self.shared:
            self.native.refit()
            self.report.refits += 1
        else:
            arrays = [
                (_array(it, order=order), stored_name(it.dtype))
                for it, (_, order) in zip(weights, self.trace.weights)
            ]
            # A weight that had to be copied does not change where the compiler sees it.
            self.shared = all(
                array.ctypes.data == it.data_ptr() or it.numel() == 0
                for (array, _), it in zip(arrays, weights)
            )
            options = {**self.options, "symbolic": True} if self.trace.words.symbols else (
                self.options)
            self.native = _native.compile_trace(self.trace.text, arrays, options)
            self.report.compiles += 1
        self.state = state
        elapsed = time.perf_counter() - started
        self.report.seconds += elapsed
        self.report.compile_seconds += elapsed


# Types that NumPy lacks, as unsigned integers of the same width.
_AS_BITS = {torch.bfloat16: torch.uint16}


def _array(tensor, dtype=None, order=None):
    """The array that shares a tensor's memory, where that lies row-major and without gaps if its axes
    are in this order. What eager nodes give may be of another type, and lie in another way, than
    what PyTorch traced."""
    if not isinstance(tensor, torch.Tensor) or tensor.device.type != "cpu":
        raise TypeError(f"a dense tensor on the CPU is needed, not {type(tensor).__name__}")
    tensor = tensor.detach()
    if dtype is not None and tensor.dtype != dtype:
        tensor = tensor.to(dtype)
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.resolve_conj().resolve_neg()
    if order is not None:
        tensor = tensor.permute(order)
    if not tensor.is_contiguous():
        tensor = tensor.contiguous()
    if tensor.is_complex():
        # Both parts, side by side.
        tensor = torch.view_as_real(tensor)
    if tensor.dtype in _AS_BITS:
        tensor = tensor.view(_AS_BITS[tensor.dtype])
    return tensor.numpy()


def _is_shared(tensor, dtype, order):
    """Whether the array of a tensor, its axes in this order, is its own memory."""
    lies = tensor if order is None else tensor.permute(order)
    return tensor.dtype == dtype and lies.is_contiguous() and not (
        tensor.is_conj() or tensor.is_neg())


def _length(count):
    return np.empty(int(count), np.bool_)


def _tensor(array, dtype):
    """A tensor over an array's memory."""
    tensor = torch.from_numpy(array)
    if dtype.is_complex:
        return torch.view_as_complex(tensor)
    return tensor.view(dtype) if dtype in _AS_BITS else tensor


def _shown(made, arrays, number, dtype, lies):
    """A tensor over the memory of an array of results, with its axes in this order, or of this shape,
    with these steps and this offset. Those of one array count their changes together."""
    if number not in made:
        made[number] = _tensor(arrays[number], dtype)
        if lies is None and not made[number]._is_view():
            return made[number]
    tensor = made[number]
    if lies is not None:
        tensor = tensor.permute(lies) if isinstance(lies, list) else tensor.as_strided(*lies)
    # A view may not be written to where gradients are wanted; this is none.
    return tensor.detach()

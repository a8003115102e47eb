"""FX graphs as traces: the text that the compiler reads of a graph of PyTorch.

No operator is known here. A node is its name, its target as a string, its arguments and the types of
its results; sizes that are not fixed are expressions over the symbols of the graph's shapes, so what
computes sizes leaves nothing behind. ``Trace.text`` is the text, ``Trace.inputs`` and
``Trace.weights`` say which placeholders its inputs and weights are.
"""

import json
import math
import operator

import torch

# The compiler's names of element types.
DTYPES = {
    torch.float64: "f64", torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16",
    torch.int64: "i64", torch.int32: "i32", torch.int16: "i16", torch.int8: "i8",
    torch.uint64: "u64", torch.uint32: "u32", torch.uint16: "u16", torch.uint8: "u8",
    torch.bool: "bool", torch.complex64: "c64", torch.complex128: "c128",
}  # fmt: skip

# Of complex numbers, those of their parts, which lie side by side.
_PARTS = {"c64": "f32", "c128": "f64"}


class Refused(Exception):
    """What a trace has no words for: a message that names it."""


def dtype_name(dtype):
    """The compiler's name of an element type."""
    if dtype not in DTYPES:
        raise Refused(f"there is no element type like {dtype}")
    return DTYPES[dtype]


def stored_name(dtype):
    """The compiler's name of the type of the elements that lie in memory."""
    name = dtype_name(dtype)
    return _PARTS.get(name, name)


def is_size(value):
    """Whether a value is an integer of Python, known or not."""
    return isinstance(value, (int, torch.SymInt)) and not isinstance(value, bool)


# Relations of sizes, and what joins them, as Python has them.
_RELATIONS = {
    "GreaterThan": ">=", "LessThan": "<=", "StrictGreaterThan": ">", "StrictLessThan": "<",
    "Equality": "==", "Unequality": "!=",
}  # fmt: skip
_JOINED = {"And": " and ", "Or": " or "}


def is_counted(node):
    """Whether a node gives an element of a tensor as a size."""
    value = node.meta.get("val")
    return str(node.target) == "aten._local_scalar_dense.default" and (
        isinstance(value, torch.SymInt) and value.node.expr.is_Symbol)


def condition(node):
    """What a node asks of sizes, if it gives nothing and does no more, in words of Python: the text,
    its symbols, and what is said where it does not hold."""
    schema = getattr(node.target, "_schema", None)
    if node.op != "call_function" or schema is None or schema.returns:
        return None
    asked = [it.meta.get("val") for it in node.all_input_nodes]
    words = Words("//", "%")
    message = f"node {node.name} ({node.target}) does not hold"
    if len(asked) != 1:
        return None
    if isinstance(asked[0], (torch.SymBool, torch.SymInt)):
        words.check(asked[0])
    if isinstance(asked[0], torch.SymBool):
        message = next((it for it in node.args if isinstance(it, str)), message)
        return words.relation(asked[0].node.expr), words.symbols, message
    if isinstance(asked[0], torch.SymInt):
        low, high = node.kwargs.get("min"), node.kwargs.get("max")
        size = words.size(asked[0])
        bounds = [f"{low or 0} <= {size}", *([f"{size} <= {high}"] if high is not None else [])]
        return " and ".join(bounds), words.symbols, message
    return None


def writes_back(node):
    """Whether a node writes a value to one of the graph's inputs, of the same type."""
    if node.op != "call_function" or str(node.target) != "aten.copy_.default":
        return False
    if len(node.args) != 2 or not all(isinstance(it, torch.fx.Node) for it in node.args):
        return False
    place, value = (it.meta.get("val") for it in node.args)
    are_tensors = isinstance(place, torch.Tensor) and isinstance(value, torch.Tensor)
    return are_tensors and node.args[0].op == "placeholder" and (
        place.dtype == value.dtype and tuple(place.shape) == tuple(value.shape))


def asserted(node):
    """What a node says where an element of its tensor is false, if it does no more than look."""
    if str(node.target) not in ("aten._assert_async.default", "aten._assert_async.msg"):
        return None
    return node.args[1] if len(node.args) > 1 else f"node {node.name} ({node.target}) does not hold"


def lying(value):
    """The axes of a tensor in the order in which they lie in memory, the one with the longest steps
    first, where that is another order than that of the axes, and nothing is between elements; none
    elsewhere."""
    try:
        axes = [axis for axis, extent in enumerate(value.shape) if not _is(extent, 1)]
        by_steps = sorted(axes, key=lambda axis: -_hint(value.stride(axis)))
    except (TypeError, ValueError, RuntimeError):
        # It has no steps, or data decide how long they are.
        return None
    if by_steps == axes:
        return None
    step = 1
    for axis in reversed(by_steps):
        if not _is(value.stride(axis), step):
            return None
        step = step * value.shape[axis]
    # Axes of one element may lie anywhere.
    return [axis for axis in range(value.dim()) if axis not in axes] + by_steps


def _is(size, other):
    """Whether two sizes are the same whatever the symbols' values are."""
    one, two = (it.node.expr if isinstance(it, torch.SymInt) else it for it in (size, other))
    return bool(one == two)


def _hint(size):
    """A number that a size may be."""
    return size.node.hint if isinstance(size, torch.SymInt) else size


class Words:
    """Sizes as text: ``div`` and ``mod`` are the words for rounded quotients and their rest."""

    def __init__(self, div="div", mod="mod"):
        self.div, self.mod = div, mod
        self.symbols = {}

    def size(self, value):
        """An integer, known or not."""
        if isinstance(value, int):
            return str(value)
        self.check(value)
        return self.expression(value.node.expr)

    def check(self, value):
        """Refuses what follows from numbers that data decide, and that may be negative."""
        known = value.node.shape_env.var_to_range
        for symbol in value.node.expr.free_symbols:
            if str(symbol).startswith("u") and not (symbol in known and known[symbol].lower >= 0):
                raise Refused(f"the number {symbol}, which may be negative, is no size")

    def relation(self, expression):
        """A relation of integers, or several joined."""
        kind = type(expression).__name__
        if kind in _RELATIONS:
            left, right = map(self.expression, expression.args)
            return f"({left} {_RELATIONS[kind]} {right})"
        if kind in _JOINED:
            return "(" + _JOINED[kind].join(map(self.relation, expression.args)) + ")"
        if kind in ("BooleanTrue", "BooleanFalse"):
            return str(bool(expression))
        if kind == "Not":
            return f"(not {self.relation(expression.args[0])})"
        raise Refused(f"{expression} is no relation of whole numbers")

    def expression(self, expression):
        """An expression of sympy over integers."""
        kind = type(expression).__name__
        arguments = lambda: [self.expression(it) for it in expression.args]  # noqa: E731
        if expression.is_Integer:
            return str(int(expression)) if expression >= 0 else f"({int(expression)})"
        if expression.is_Symbol:
            name = str(expression)
            if not name.startswith(("s", "u")):
                raise Refused(f"{name} is no size")
            self.symbols[name] = expression
            return name
        if expression.is_Add:
            return "(" + " + ".join(arguments()) + ")"
        if expression.is_Mul:
            return "(" + " * ".join(arguments()) + ")"
        if expression.is_Pow and expression.exp.is_Integer and expression.exp > 0:
            return "(" + " * ".join([self.expression(expression.base)] * int(expression.exp)) + ")"
        if kind in ("FloorDiv", "CleanDiv"):
            return "({} {} {})".format(arguments()[0], self.div, arguments()[1])
        if kind in ("Mod", "PythonMod"):
            return "({} {} {})".format(arguments()[0], self.mod, arguments()[1])
        if kind == "ModularIndexing":
            base, divisor, modulus = arguments()
            return f"(({base} {self.div} {divisor}) {self.mod} {modulus})"
        if kind in ("Max", "Min"):
            first, *rest = arguments()
            for other in rest:
                first = f"{kind.lower()}({first}, {other})"
            return first
        raise Refused(f"the size {expression} is no formula of whole numbers")


def _of_size(value):
    """A function from the values of symbols, by name, to an integer that a graph gives."""
    return _function(Words("//", "%").size(value))


def _function(text):
    """The function of symbols' values, by name, that a text in words of Python is."""
    code = compile(text, "<size>", "eval")
    return lambda symbols: eval(code, {"min": min, "max": max}, symbols)  # noqa: S307


class Writer:
    """Types, arguments and calls as text."""

    def __init__(self):
        self.words = Words()

    def type(self, value):
        """The type of a tensor: element type and extents."""
        if value.layout != torch.strided or getattr(value, "is_nested", False):
            raise Refused(f"a tensor of layout {value.layout}")
        if value.device.type != "cpu":
            raise Refused(f"a tensor on {value.device}")
        if value.is_quantized:
            raise Refused("a quantised tensor")
        shape = ", ".join(self.words.size(extent) for extent in value.shape)
        strides = ""
        if all(isinstance(it, int) for it in (*value.shape, *value.stride())) and (
                not value.is_contiguous()):
            strides = f" strides [{', '.join(map(str, value.stride()))}]"
        return f"{dtype_name(value.dtype)}[{shape}]{strides}"

    def types(self, value):
        """The types of what a node gives."""
        if isinstance(value, (list, tuple)):
            types = [self.type(it) if isinstance(it, torch.Tensor) else "none" for it in value]
            return "(" + ", ".join(types) + ("," if len(types) == 1 else "") + ")"
        return self.type(value)

    def call_text(self, node):
        """An operator with its arguments."""
        target = str(node.target) if isinstance(node.target, torch._ops.OpOverload) else (
            getattr(node.target, "__name__", str(node.target)))
        arguments = [self.argument(it) for it in node.args]
        arguments += [f"{name} = {self.argument(it)}" for name, it in node.kwargs.items()]
        return f"{target}({', '.join(arguments)})"

    def argument(self, value):
        """An argument of a node."""
        if isinstance(value, torch.fx.Node):
            inner = value.meta.get("val")
            if is_size(inner) or isinstance(inner, (bool, float)):
                return self.argument(inner)
            if writes_back(value):
                return self.argument(value.args[1])
            if isinstance(inner, (torch.SymBool, torch.SymFloat)):
                raise Refused(f"a number that follows from sizes, {value.name}")
            return f"%{value.name}"
        if value is None or isinstance(value, (torch.layout, torch.memory_format)):
            return "none"
        if isinstance(value, torch.device):
            if value.type != "cpu":
                raise Refused(f"the device {value}")
            return "none"
        if isinstance(value, bool):
            return str(value).lower()
        if is_size(value):
            return self.words.size(value)
        if isinstance(value, float):
            return repr(value) if math.isfinite(value) else str(value)
        if isinstance(value, complex):
            return f"complex({self.argument(value.real)}, {self.argument(value.imag)})"
        if isinstance(value, str):
            return json.dumps(value)
        if isinstance(value, torch.dtype):
            return dtype_name(value)
        if isinstance(value, (list, tuple)):
            return "[" + ", ".join(self.argument(it) for it in value) + "]"
        raise Refused(f"an argument of type {type(value).__name__}")


def _memory(value):
    """What tells the memory of a tensor of known sizes apart from that of others; none of others."""
    if not isinstance(value, torch.Tensor) or value.layout != torch.strided:
        return None
    sizes = *value.shape, *value.stride(), value.storage_offset()
    return value.untyped_storage()._cdata if all(isinstance(it, int) for it in sizes) else None


def _bases(module):
    """By their memory the nodes of a graph that have all of it, without gaps."""
    found = {}
    for node in module.graph.nodes:
        value = node.meta.get("val")
        own = _memory(value) if node.op == "call_function" else None
        if own is not None and own not in found:
            is_whole = value.untyped_storage().nbytes() == value.numel() * value.itemsize
            has_order = value.is_contiguous() or lying(value) is not None
            if is_whole and has_order and value.storage_offset() == 0:
                found[own] = node
    return found


def inverse(order):
    """The order that takes axes back to where they were."""
    return order and sorted(range(len(order)), key=order.__getitem__)


def _read_results(node, values):
    """A node's values, with nothing in the place of those, but the first, that no other node reads."""
    users = list(node.users)
    if not all(it.target is operator.getitem and isinstance(it.args[1], int) for it in users):
        return values
    read = {it.args[1] % len(values) for it in users} | {0}
    return [it if place in read else None for place, it in enumerate(values)]


class Trace(Writer):
    """The trace of a graph. ``static`` are the numbers of placeholders whose tensors are weights,
    ``given`` nodes that are not computed: their values stand among the inputs, if there are words
    for them. Values lie in memory as PyTorch has them, where nothing is between elements; ``gradients``
    do so only where that is channels last, as parameters may lie."""

    def __init__(self, module, static=(), given=(), gradients=False):
        super().__init__()
        self.module, self.gives_gradients = module, gradients
        # For each input of the trace, the number of its placeholder.
        self.inputs = []
        # For each placeholder of a tensor, its element type as the graph has it.
        self.dtypes = {}
        # For each weight, the number of its placeholder, or the tensor itself, and its axes' order.
        self.weights = []
        # For each placeholder of a tensor, the order in which its axes lie, or none.
        self.orders = {}
        # For each symbol, how a call's arguments tell it: a placeholder, and an axis of it or none.
        self.sources = {}
        # For each output: a number of the trace's results, its element type and how the output lies
        # in it (the order of the axes, or a shape, steps and an offset, or none); the number of the
        # placeholder that it is, or a function of the symbols.
        self.outputs = []
        # Results that are written to placeholders: a placeholder's number and a result's.
        self.updates = []
        # For each symbol that data decide, where a run tells it: a result of the trace and an axis.
        self.found = {}
        # What is asked of sizes: a function of the symbols, and what to say where it is false.
        self.checks = []
        # Results of the trace no element of which may be false, and what to say where one is.
        self.asserted = []
        self.nodes = 0
        self._lines, self._declared, self._results = [], [], []
        # The numbers of placeholders, and, of those that are written to, what to.
        self._numbers, self._written = {}, {}
        # Symbols that data decide, with the value whose axis has them first.
        self._defined = {}
        # Values that have been brought in another order; those that outputs show, with their results.
        self._known_laid, self._seen = set(), {}
        self._bases = None
        number = 0
        for node in module.graph.nodes:
            if node in given or (node.target is operator.getitem and node.args[0] in given):
                self._given(node)
            elif node.op == "placeholder":
                self._numbers[node] = number
                self._placeholder(node, number, number in static)
                number += 1
            elif node.op == "get_attr":
                self._attribute(node)
            elif node.op == "call_function":
                self._call(node)
            elif node.op == "output":
                # What nodes are given for is to be judged node by node; who compiles gives none.
                if not given:
                    self._output(node.args[0])
            else:
                raise Refused(f"node {node.name}: a graph of {node.op}")
        self.text = self._text()

    def _placeholder(self, node, number, is_weight):
        value = node.meta.get("val")
        if isinstance(value, torch.SymInt):
            if value.node.expr.is_Symbol:
                self.sources.setdefault(str(value.node.expr), (number, None))
        elif isinstance(value, torch.Tensor):
            if not is_weight:
                self._tells_sizes(value, number)
            order = self._declare("weight" if is_weight else "input", node)
            if is_weight:
                self.weights.append((number, order))
            else:
                self.inputs.append(number)
            self.dtypes[number], self.orders[number] = value.dtype, order
        elif node.users:
            raise Refused(f"input {node.name} is no tensor")

    def _declare(self, kind, node):
        """Declares a tensor that a run is given as it lies in memory; the order of its axes there."""
        value = node.meta["val"]
        order = lying(value)
        if order is None:
            self._declared.append(f"  {kind} %{node.name}: {self.type(value)}")
        else:
            self._declared.append(f"  {kind} %{node.name}.given: {self._type_in(order, value)}")
            call = f"aten.permute.default(%{node.name}.given, {inverse(order)})"
            self._lines.append(f"  %{node.name}: {self.type(value)} = {call}")
        return order

    def _type_in(self, order, value):
        """The type of a tensor whose axes are brought in this order."""
        shape = ", ".join(self.words.size(value.shape[axis]) for axis in order)
        return f"{dtype_name(value.dtype)}[{shape}]"

    def _tells_sizes(self, value, number):
        for axis, extent in enumerate(value.shape):
            if isinstance(extent, torch.SymInt) and extent.node.expr.is_Symbol:
                self.sources.setdefault(str(extent.node.expr), (number, axis))

    def _given(self, node):
        value = node.meta.get("val")
        if is_counted(node):
            self.sources.setdefault(str(value.node.expr), (None, None))
        if isinstance(value, torch.Tensor):
            try:
                self._declared.append(f"  input %{node.name}: {self.type(value)}")
            except Refused:
                # What reads it has no words, either.
                return
            self._tells_sizes(value, None)

    def _attribute(self, node):
        value = self.module
        for part in node.target.split("."):
            value = getattr(value, part)
        if not isinstance(value, torch.Tensor):
            raise Refused(f"attribute {node.target} is no tensor")
        self._declared.append(f"  weight %{node.name}: {self.type(value)}")
        self.weights.append((value, None))

    def _call(self, node):
        value = node.meta.get("val")
        if any(it in self._written for it in node.all_input_nodes):
            raise Refused(f"node {node.name} ({node.target}): what it reads was written to")
        if writes_back(node):
            place, source = node.args
            self._written[place] = source
            number = self._numbers[place]
            self.updates.append((number, len(self._results)))
            self._results.append(self._laid(source, self.orders[number]))
            return
        if is_counted(node):
            self._counted(node)
            return
        if asserted(node) is not None:
            self.asserted.append((len(self._results), asserted(node)))
            self._results.append(self.argument(node.args[0]))
            return
        if is_size(value) or isinstance(value, (bool, float, torch.SymBool, torch.SymFloat)):
            return
        asked = condition(node)
        if asked is not None:
            text, symbols, message = asked
            self.checks.append((_function(text), message))
            self._read(symbols)
            return
        self.nodes += 1
        if isinstance(value, (list, tuple)):
            value = _read_results(node, value)
        try:
            self._lines.append(f"  %{node.name}: {self.types(value)} = {self.call_text(node)}")
        except Refused as refused:
            raise Refused(f"node {node.name} ({node.target}): {refused}") from None
        for axis, extent in enumerate(getattr(value, "shape", ())):
            if isinstance(extent, torch.SymInt) and extent.node.expr.is_Symbol:
                self._defined.setdefault(str(extent.node.expr), (node.name, axis))

    def _counted(self, node):
        """An element of a tensor as a size: the length of a value of its own."""
        self.nodes += 1
        name = self.words.size(node.meta["val"])
        self._lines.append(f"  %{node.name}: bool[{name}] = {self.call_text(node)}")
        self._defined.setdefault(name, (node.name, 0))

    def _output(self, values):
        read = {}
        for value in values if isinstance(values, (list, tuple)) else [values]:
            value = self._written.get(value, value) if isinstance(value, torch.fx.Node) else value
            inner = value.meta.get("val") if isinstance(value, torch.fx.Node) else value
            if isinstance(inner, torch.Tensor) and value in self._numbers:
                self.outputs.append(self._numbers[value])
            elif isinstance(inner, torch.Tensor):
                self._tensor_output(value)
            elif isinstance(inner, torch.SymInt):
                self.outputs.append(_of_size(inner))
                words = Words()
                words.size(inner)
                read.update(words.symbols)
            elif isinstance(inner, (list, tuple, torch.SymBool, torch.SymFloat)):
                raise Refused(f"output {value.name} is no tensor")
            else:
                # A number or nothing, the same in each run.
                self.outputs.append(lambda _, inner=inner: inner)
        self._read(read)

    def _tensor_output(self, value):
        inner = value.meta["val"]
        order = lying(inner)
        if self.gives_gradients and order != [0, *range(2, inner.dim()), 1]:
            order = None
        base = None if self.gives_gradients or order is not None else self._base(value)
        if base is None:
            lies = inverse(order)
        else:
            lies = tuple(inner.shape), inner.stride(), inner.storage_offset()
            value, order = base, lying(base.meta["val"])
        # Those of one memory share a result.
        if value not in self._seen:
            self._seen[value] = len(self._results)
            self._results.append(self._laid(value, order))
        self.outputs.append((self._seen[value], inner.dtype, lies))

    def _base(self, value):
        """The node whose memory an output has gaps in, or has the elements of more than once, if that
        is an output, too, or has no more elements; sizes must be known."""
        inner = value.meta["val"]
        own = _memory(inner)
        if own is None or inner.is_contiguous():
            return None
        if self._bases is None:
            self._bases = _bases(self.module)
        base = self._bases.get(own)
        if base is None or base is value or base.meta["val"].dtype != inner.dtype:
            return None
        is_small = base.meta["val"].numel() <= inner.numel()
        return base if is_small or base in self._returned() else None

    def _returned(self):
        output = next(node for node in self.module.graph.nodes if node.op == "output")
        return output.all_input_nodes

    def _laid(self, value, order):
        """A value whose axes are in this order, row-major."""
        name = self.argument(value)
        if order is None:
            return name
        laid = f"{name}.laid_{'_'.join(map(str, order))}"
        call = f"aten.permute.default({name}, {order})"
        line = f"  {laid}: {self._type_in(order, value.meta['val'])} = {call}"
        if laid not in self._known_laid:
            self._known_laid.add(laid)
            self._lines.append(line)
        return laid

    def _read(self, symbols):
        """Sees to it that a run tells the values of symbols."""
        self.words.symbols.update(symbols)
        for name in symbols:
            if name in self.found:
                continue
            if name not in self.sources and name in self._defined:
                result, axis = self._defined[name]
                self.found[name] = (len(self._results), axis)
                self._results.append(f"%{result}")

    def _text(self):
        symbols, axes = [], []
        for name, symbol in self.words.symbols.items():
            if name not in self.sources and name in self._defined:
                symbols.append(f"  symbol {name}: {self._range(symbol)} data")
                continue
            if name not in self.sources:
                raise Refused(f"no input has the size {name}, and no node defines it")
            number, axis = self.sources[name]
            symbols.append(f"  symbol {name}: {self._range(symbol)}")
            if axis is None or number not in self.inputs:
                # A size that no input has comes as the length of one.
                axes.append(f"  input %size_{name}: bool[{name}]")
                self.inputs.append((name,))
        returned = f"  return {', '.join(self._results)}".rstrip()
        lines = [*symbols, *self._declared, *axes, *self._lines, returned]
        return "\n".join(["trace {", *lines, "}"])

    def _range(self, symbol):
        environment = self._environment()
        known = environment.var_to_range.get(symbol) if environment is not None else None
        low = int(known.lower) if known is not None and known.lower.is_Integer else 0
        high = known.upper if known is not None else None
        is_bounded = high is not None and high.is_Integer and high < 2**40
        return f"{max(low, 0)}..={int(high)}" if is_bounded else f"{max(low, 0)}.."

    def _environment(self):
        for node in self.module.graph.nodes:
            value = node.meta.get("val")
            for it in [value, *getattr(value, "shape", ())]:
                if isinstance(it, torch.SymInt):
                    return it.node.shape_env
        return None

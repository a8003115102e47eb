"""Models of one TensorFlow Lite operator each: a function an operator, a model for each use of it."""

import itertools

import numpy as np

FLOAT, INT8, UINT8, INT16, INT32, INT64, BOOL = "f", "i8", "u8", "i16", "i32", "i64", "b"
NUMPY = {
    FLOAT: np.float32,
    INT8: np.int8,
    UINT8: np.uint8,
    INT16: np.int16,
    INT32: np.int32,
    INT64: np.int64,
    BOOL: np.bool_,
}
SAME, VALID = 0, 1
NONE, RELU, RELU_N1_TO_1, RELU6 = 0, 1, 2, 3


class Tensor:
    """A tensor: an input of the model, or a constant where it has data."""

    def __init__(self, dtype, shape, scale=None, zero=0, data=None, axis=0, free=()):
        self.dtype, self.shape, self.data = dtype, list(shape), data
        self.scales = None if scale is None else np.atleast_1d(np.float32(scale))
        self.zeros = None if scale is None else np.broadcast_to(np.int64(zero), self.scales.shape)
        self.axis, self.free = axis, free


def const(dtype, data, **named):
    data = np.asarray(data, NUMPY[dtype])
    return Tensor(dtype, data.shape, data=data, **named)


class Use:
    """One use of an operator; `graphs` are uses that are graphs of their own within it."""

    def __init__(self, operator, inputs, outputs, options=None, version=1, graphs=(), **fields):
        self.operator, self.inputs, self.outputs = operator, inputs, outputs
        self.options, self.fields, self.version, self.graphs = options, fields, version, graphs


def encoded(use):
    """The use as the bytes of a file."""
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

    model = schema.ModelT()
    model.version, model.description = 3, use.operator
    model.buffers, model.operatorCodes = [schema.BufferT()], []
    model.subgraphs = [graph_of(schema, model, it) for it in (use, *use.graphs)]
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def graph_of(schema, model, use):
    """The use as a graph of a model."""
    types = {
        FLOAT: schema.TensorType.FLOAT32,
        INT8: schema.TensorType.INT8,
        UINT8: schema.TensorType.UINT8,
        INT16: schema.TensorType.INT16,
        INT32: schema.TensorType.INT32,
        INT64: schema.TensorType.INT64,
        BOOL: schema.TensorType.BOOL,
    }
    graph, places = schema.SubGraphT(), []
    graph.tensors, graph.inputs, graph.outputs, graph.name = [], [], [], "main"
    for place, tensor in enumerate([*use.inputs, *use.outputs]):
        own = schema.TensorT()
        own.name, own.shape, own.type = f"t{place}", tensor.shape, types[tensor.dtype]
        own.hasRank, own.buffer = True, 0
        if tensor.free:
            own.shapeSignature = [
                -1 if axis in tensor.free else extent for axis, extent in enumerate(tensor.shape)
            ]
        if tensor.data is not None:
            own.buffer = len(model.buffers)
            model.buffers.append(schema.BufferT())
            model.buffers[-1].data = np.frombuffer(tensor.data.tobytes(), np.uint8)
        if tensor.scales is not None:
            own.quantization = schema.QuantizationParametersT()
            own.quantization.scale = tensor.scales
            own.quantization.zeroPoint = tensor.zeros
            own.quantization.quantizedDimension = tensor.axis
        number = len(graph.tensors)
        graph.tensors.append(own)
        places.append(number)
        if place >= len(use.inputs):
            graph.outputs.append(number)
        elif tensor.data is None:
            graph.inputs.append(number)
    operator, code = schema.OperatorT(), schema.OperatorCodeT()
    code.builtinCode = getattr(schema.BuiltinOperator, use.operator)
    code.deprecatedBuiltinCode, code.version = min(code.builtinCode, 127), use.version
    operator.opcodeIndex = len(model.operatorCodes)
    model.operatorCodes.append(code)
    operator.inputs, operator.outputs = places[: len(use.inputs)], places[len(use.inputs) :]
    if use.options:
        operator.builtinOptionsType = getattr(schema.BuiltinOptions, use.options)
        operator.builtinOptions = getattr(schema, use.options + "T")()
        for name, value in use.fields.items():
            if not hasattr(operator.builtinOptions, name):
                raise AttributeError(f"{use.options} has no {name}")
            setattr(operator.builtinOptions, name, value)
    graph.operators = [operator]
    return graph


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def integers(dtype, *shape, seed=0, least=None):
    limits = np.iinfo(NUMPY[dtype])
    low = limits.min if least is None else least
    return np.random.default_rng(seed).integers(low, limits.max, shape, endpoint=True)


ZEROS = {INT8: (-128, 3, 20), UINT8: (0, 128, 77), INT16: (0, 0, 0)}


def convolutions():
    shapes = [
        # data, kernel, outputs, stride, dilation, padding, groups
        ((1, 9, 7, 5), (3, 3), 6, (1, 1), (1, 1), SAME, 1),
        ((2, 8, 8, 4), (2, 3), 5, (2, 1), (1, 1), VALID, 1),
        ((1, 12, 11, 4), (3, 3), 8, (1, 1), (2, 2), SAME, 1),
        ((1, 6, 6, 8), (1, 1), 16, (1, 1), (1, 1), VALID, 1),
        ((1, 10, 10, 3), (3, 3), 8, (2, 2), (1, 1), SAME, 1),
    ]
    for number, (data, kernel, outputs, stride, dilation, padding, groups) in enumerate(shapes):
        options = {
            "padding": padding, "strideH": stride[0], "strideW": stride[1],
            "dilationHFactor": dilation[0], "dilationWFactor": dilation[1],
        }  # fmt: skip
        spatial = [
            -(-extent // step) if padding == SAME else (extent - (size - 1) * apart - 1) // step + 1
            for extent, size, step, apart in zip(data[1:3], kernel, stride, dilation, strict=True)
        ]
        activation = [NONE, RELU, RELU6, RELU_N1_TO_1][number % 4]
        for depthwise in (False, True):
            channels = data[3] * 2 if depthwise else outputs
            shape = (1, *kernel, channels) if depthwise else (outputs, *kernel, data[3] // groups)
            axis = 3 if depthwise else 0
            operator = "DEPTHWISE_CONV_2D" if depthwise else "CONV_2D"
            kind = "DepthwiseConv2DOptions" if depthwise else "Conv2DOptions"
            own = dict(options, fusedActivationFunction=activation)
            if depthwise:
                own["depthMultiplier"] = 2
            result = (data[0], *spatial, channels)
            yield Use(
                operator,
                [
                    Tensor(FLOAT, data),
                    const(FLOAT, numbers(*shape)),
                    const(FLOAT, numbers(channels, seed=1)),
                ],
                [Tensor(FLOAT, result)], kind, **own,
            )  # fmt: skip
            for dtype in (INT8, UINT8, INT16):
                each = dtype != UINT8 and number != 1
                weight = UINT8 if dtype == UINT8 else INT8
                scales = 0.004 * np.arange(1, channels + 1) / channels if each else 0.003
                zero = 120 if dtype == UINT8 else 0
                least = None if dtype == UINT8 else -127
                weights = const(
                    weight, integers(weight, *shape, least=least), scale=scales, zero=zero, axis=axis
                )
                step = 0.0002 if dtype == INT16 else 0.05
                bias_dtype = INT64 if dtype == INT16 else INT32
                bias = np.random.default_rng(2).integers(-4000, 4000, channels)
                bias = const(bias_dtype, bias, scale=step * np.asarray(scales))
                out = 0.0004 if dtype == INT16 else 0.09
                yield Use(
                    operator,
                    [Tensor(dtype, data, step, ZEROS[dtype][1]), weights, bias],
                    [Tensor(dtype, result, out, ZEROS[dtype][0])],
                    kind, version=3 if dtype == UINT8 else 4, **own,
                )  # fmt: skip


def transposed():
    for data, kernel, outputs, stride, padding in [
        ((1, 4, 5, 3), (3, 3), 6, (2, 2), SAME),
        ((1, 4, 4, 4), (2, 2), 5, (2, 2), VALID),
        ((2, 3, 3, 2), (4, 3), 3, (1, 2), VALID),
    ]:
        spatial = [
            extent * step if padding == SAME else (extent - 1) * step + size
            for extent, size, step in zip(data[1:3], kernel, stride, strict=True)
        ]
        result, shape = (data[0], *spatial, outputs), (outputs, *kernel, data[3])
        own = {"padding": padding, "strideH": stride[0], "strideW": stride[1]}
        yield Use(
            "TRANSPOSE_CONV",
            [const(INT32, result), const(FLOAT, numbers(*shape)), Tensor(FLOAT, data)],
            [Tensor(FLOAT, result)], "TransposeConvOptions", **own,
        )  # fmt: skip
        scales = 0.004 * np.arange(1, outputs + 1) / outputs
        weights = const(INT8, integers(INT8, *shape, least=-127), scale=scales)
        yield Use(
            "TRANSPOSE_CONV",
            [const(INT32, result), weights, Tensor(INT8, data, 0.05, 4)],
            [Tensor(INT8, result, 0.06, -20)], "TransposeConvOptions", version=2, **own,
        )  # fmt: skip


def products():
    for rows, depth, outputs, keep in [(1, 40, 10, False), (5, 7, 3, False), (3, 16, 33, True)]:
        data = (1, rows, depth) if keep else (rows, depth)
        result = (1, rows, outputs) if keep else (rows, outputs)
        own = {"keepNumDims": keep, "fusedActivationFunction": RELU if rows == 5 else NONE}
        yield Use(
            "FULLY_CONNECTED",
            [
                Tensor(FLOAT, data),
                const(FLOAT, numbers(outputs, depth)),
                const(FLOAT, numbers(outputs)),
            ],
            [Tensor(FLOAT, result)], "FullyConnectedOptions", version=5, **own,
        )  # fmt: skip
        for dtype, each in [(INT8, False), (INT8, True), (UINT8, False), (INT16, False)]:
            weight = UINT8 if dtype == UINT8 else INT8
            scales = 0.004 * np.arange(1, outputs + 1) / outputs if each else 0.00371
            zero = 120 if dtype == UINT8 else 0
            step = 0.0002 if dtype == INT16 else 0.05
            least = None if dtype == UINT8 else -127
            bias = np.random.default_rng(2).integers(-4000, 4000, outputs)
            yield Use(
                "FULLY_CONNECTED",
                [
                    Tensor(dtype, data, step, ZEROS[dtype][1]),
                    const(weight, integers(weight, outputs, depth, least=least), scale=scales, zero=zero),
                    const(INT64 if dtype == INT16 else INT32, bias, scale=step * np.asarray(scales)),
                ],
                [Tensor(dtype, result, 0.0004 if dtype == INT16 else 0.09, ZEROS[dtype][0])],
                "FullyConnectedOptions", version=5, **own,
            )  # fmt: skip
    for a, b, x, y in [
        ((2, 3, 4), (2, 4, 5), False, False),
        ((2, 3, 4), (2, 5, 4), False, True),
        ((1, 2, 4, 3), (1, 2, 4, 5), True, False),
    ]:
        rows = a[-1] if x else a[-2]
        columns = b[-2] if y else b[-1]
        result = (*a[:-2], rows, columns)
        yield Use(
            "BATCH_MATMUL", [Tensor(FLOAT, a), Tensor(FLOAT, b)], [Tensor(FLOAT, result)],
            "BatchMatMulOptions", adjX=x, adjY=y,
        )  # fmt: skip
        yield Use(
            "BATCH_MATMUL",
            [Tensor(INT8, a, 0.0173, 5), Tensor(INT8, b, 0.0219, -7)],
            [Tensor(INT8, result, 0.0431, 9)],
            "BatchMatMulOptions", version=2, adjX=x, adjY=y,
        )  # fmt: skip


def pools():
    for data, window, stride, padding in [
        ((1, 8, 8, 4), (2, 2), (2, 2), VALID),
        ((2, 7, 9, 3), (3, 2), (2, 3), SAME),
        ((1, 5, 5, 16), (5, 5), (1, 1), VALID),
        ((1, 25, 5, 64), (25, 5), (25, 5), VALID),
    ]:
        spatial = [
            -(-extent // step) if padding == SAME else (extent - size) // step + 1
            for extent, size, step in zip(data[1:3], window, stride, strict=True)
        ]
        result = (data[0], *spatial, data[3])
        own = {
            "padding": padding, "strideH": stride[0], "strideW": stride[1],
            "filterHeight": window[0], "filterWidth": window[1],
        }  # fmt: skip
        for operator in ("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D"):
            for activation in (NONE, RELU6):
                own["fusedActivationFunction"] = activation
                yield Use(operator, [Tensor(FLOAT, data)], [Tensor(FLOAT, result)], "Pool2DOptions", **own)
                for dtype in (INT8, UINT8, INT16):
                    if operator != "L2_POOL_2D":
                        zero = ZEROS[dtype][1]
                        yield Use(
                            operator, [Tensor(dtype, data, 0.04, zero)],
                            [Tensor(dtype, result, 0.04, zero)],
                            "Pool2DOptions", version=3 if dtype == INT16 else 2, **own,
                        )  # fmt: skip


PAIRS = [((2, 3, 4), (2, 3, 4)), ((1, 5, 6, 3), (3,)), ((4, 1), (1, 5)), ((2, 6), ())]


def elementwise():
    for operator, kind in [
        ("ADD", "AddOptions"), ("SUB", "SubOptions"), ("MUL", "MulOptions"), ("DIV", "DivOptions"),
    ]:  # fmt: skip
        for number, (a, b) in enumerate(PAIRS):
            result = np.broadcast_shapes(a, b)
            activation = [NONE, RELU, RELU6, RELU_N1_TO_1][number]
            for dtype in (FLOAT, INT32):
                if operator == "DIV" and dtype == INT32:
                    continue
                yield Use(
                    operator, [Tensor(dtype, a), Tensor(dtype, b)], [Tensor(dtype, result)],
                    kind, fusedActivationFunction=activation,
                )  # fmt: skip
            if operator == "DIV":
                continue
            for dtype in (INT8, UINT8, INT16):
                for first, second, out in [(0.03, 0.0713, 0.0911), (0.11, 0.02, 0.15)]:
                    zeros = ZEROS[dtype]
                    if dtype == INT16:
                        first, second, out = first / 256, second / 256, out / 256
                    if operator == "MUL":
                        out *= 8 if dtype != INT16 else 30
                    named = {} if operator == "MUL" else {"potScaleInt16": False}
                    yield Use(
                        operator,
                        [Tensor(dtype, a, first, zeros[1]), Tensor(dtype, b, second, zeros[2])],
                        [Tensor(dtype, result, out, zeros[1])],
                        kind, version=2, fusedActivationFunction=activation, **named,
                    )  # fmt: skip
    for dtype in (FLOAT, INT8):
        for number, (a, b) in enumerate(PAIRS):
            quantised = dtype == INT8
            yield Use(
                "SQUARED_DIFFERENCE",
                [
                    Tensor(dtype, a, *((0.031, 4) if quantised else ())),
                    Tensor(dtype, b, *((0.057, -9) if quantised else ())),
                ],
                [Tensor(dtype, np.broadcast_shapes(a, b), *((0.8, -128) if quantised else ()))],
                version=2 if quantised else 1,
            )
            for operator in ("MAXIMUM", "MINIMUM"):
                own = (0.03, 4) if quantised else ()
                yield Use(
                    operator, [Tensor(dtype, a, *own), Tensor(dtype, b, *own)],
                    [Tensor(dtype, np.broadcast_shapes(a, b), *own)],
                    "MaximumMinimumOptions", version=2 if quantised else 1,
                )  # fmt: skip
    for operator in ("LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL", "EQUAL", "NOT_EQUAL"):
        for a, b in PAIRS[:2]:
            result = Tensor(BOOL, np.broadcast_shapes(a, b))
            for dtype in (FLOAT, INT32, INT64):
                yield Use(operator, [Tensor(dtype, a), Tensor(dtype, b)], [result])
            for dtype in (INT8, UINT8):
                own = [Tensor(dtype, a, 0.031, ZEROS[dtype][1]), Tensor(dtype, b, 0.057, ZEROS[dtype][2])]
                yield Use(operator, own, [result], version=2)
    for operator in ("LOGICAL_AND", "LOGICAL_OR"):
        yield Use(operator, [Tensor(BOOL, (3, 4)), Tensor(BOOL, (3, 4))], [Tensor(BOOL, (3, 4))])
    yield Use("LOGICAL_NOT", [Tensor(BOOL, (3, 4))], [Tensor(BOOL, (3, 4))])
    for operator in ("FLOOR_DIV", "FLOOR_MOD"):
        yield Use(operator, [Tensor(FLOAT, (3, 4)), Tensor(FLOAT, (3, 4))], [Tensor(FLOAT, (3, 4))])
        divisor = const(INT32, [[3, -2, 5, 1]])
        yield Use(operator, [Tensor(INT32, (3, 4)), divisor], [Tensor(INT32, (3, 4))])
    yield Use("ATAN2", [Tensor(FLOAT, (3, 4)), Tensor(FLOAT, (3, 4))], [Tensor(FLOAT, (3, 4))])
    yield Use("POW", [Tensor(FLOAT, (3, 4)), const(FLOAT, 2.0)], [Tensor(FLOAT, (3, 4))])
    yield Use("ADD_N", [Tensor(FLOAT, (3, 4))] * 1 + [Tensor(FLOAT, (3, 4)), Tensor(FLOAT, (3, 4))],
              [Tensor(FLOAT, (3, 4))])  # fmt: skip
    for operator in ("SELECT", "SELECT_V2"):
        kind = "SelectOptions" if operator == "SELECT" else "SelectV2Options"
        yield Use(operator, [Tensor(BOOL, (3, 4)), Tensor(FLOAT, (3, 4)), Tensor(FLOAT, (3, 4))],
                  [Tensor(FLOAT, (3, 4))], kind)  # fmt: skip
    yield Use("SELECT", [Tensor(BOOL, (3,)), Tensor(FLOAT, (3, 4)), Tensor(FLOAT, (3, 4))],
              [Tensor(FLOAT, (3, 4))], "SelectOptions")  # fmt: skip
    yield Use("SELECT_V2", [Tensor(BOOL, (4,)), Tensor(INT32, (3, 4)), Tensor(INT32, (1,))],
              [Tensor(INT32, (3, 4))], "SelectV2Options")  # fmt: skip


def unary():
    shape = (3, 5, 7)
    for operator in ("ABS", "CEIL", "COS", "EXP", "FLOOR", "NEG", "ROUND", "SIN", "SIGN", "SQUARE",
                     "TANH", "LOGISTIC", "RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1", "ELU",
                     "HARD_SWISH", "ZEROS_LIKE"):  # fmt: skip
        yield Use(operator, [Tensor(FLOAT, shape)], [Tensor(FLOAT, shape)])
    for operator in ("LOG", "SQRT", "RSQRT"):
        yield Use(operator, [Tensor(FLOAT, shape)], [Tensor(FLOAT, shape)])
    for dtype in (INT32, INT64):
        yield Use("NEG", [Tensor(dtype, shape)], [Tensor(dtype, shape)])
    for approximate in (False, True):
        yield Use("GELU", [Tensor(FLOAT, shape)], [Tensor(FLOAT, shape)], "GeluOptions",
                  approximate=approximate)  # fmt: skip
    for dtype in (INT8, UINT8):
        zero = ZEROS[dtype]
        for step in (0.03, 0.1):
            for operator in ("RELU", "RELU6", "RELU_N1_TO_1"):
                for out in (step, step * 0.6):
                    yield Use(operator, [Tensor(dtype, shape, step, zero[1])],
                              [Tensor(dtype, shape, out, zero[2])],
                              version=1 if operator == "RELU_N1_TO_1" else 2)  # fmt: skip
            low = -128 if dtype == INT8 else 0
            yield Use("LOGISTIC", [Tensor(dtype, shape, step, zero[1])],
                      [Tensor(dtype, shape, 1 / 256, low)], version=2)  # fmt: skip
            yield Use("TANH", [Tensor(dtype, shape, step, zero[1])],
                      [Tensor(dtype, shape, 1 / 128, low + 128)], version=2)  # fmt: skip
            yield Use("HARD_SWISH", [Tensor(dtype, shape, step, zero[1])],
                      [Tensor(dtype, shape, step * 0.7, zero[2])])  # fmt: skip
            for approximate in (False, True):
                yield Use("GELU", [Tensor(dtype, shape, step, zero[1])],
                          [Tensor(dtype, shape, step * 0.6, zero[2])], "GeluOptions", version=2,
                          approximate=approximate)  # fmt: skip
            for slope in (0.1, -0.3, 1.7):
                yield Use("LEAKY_RELU", [Tensor(dtype, shape, step, zero[1])],
                          [Tensor(dtype, shape, step * 1.3, zero[2])], "LeakyReluOptions", version=2,
                          alpha=slope)  # fmt: skip
        slopes = const(dtype, integers(dtype, 1, 1, 7), scale=0.007, zero=zero[2])
        yield Use("PRELU", [Tensor(dtype, (1, *shape), 0.05, zero[1]), slopes],
                  [Tensor(dtype, (1, *shape), 0.06, zero[2])])  # fmt: skip
    for step in (0.03, 0.1):
        yield Use("ELU", [Tensor(INT8, shape, step, 3)], [Tensor(INT8, shape, step, 20)])
        yield Use("EXP", [Tensor(INT8, shape, step, 100)], [Tensor(INT8, shape, step, -128)], version=2)
        yield Use("ABS", [Tensor(INT8, shape, step, 3)], [Tensor(INT8, shape, step, -128)], version=2)
        yield Use("ABS", [Tensor(INT8, shape, step, 3)], [Tensor(INT8, shape, step * 1.1, -128)], version=2)
    for slope in (0.1, -0.3):
        yield Use("LEAKY_RELU", [Tensor(FLOAT, shape)], [Tensor(FLOAT, shape)], "LeakyReluOptions",
                  alpha=slope)  # fmt: skip
    slopes = const(FLOAT, numbers(1, 1, 7))
    yield Use("PRELU", [Tensor(FLOAT, (1, *shape)), slopes], [Tensor(FLOAT, (1, *shape))])
    for a, b in itertools.permutations((FLOAT, INT32, INT64, BOOL, INT8, UINT8, INT16), 2):
        yield Use("CAST", [Tensor(a, shape)], [Tensor(b, shape)], "CastOptions")
    for dtype in (INT8, UINT8, INT16):
        zero = ZEROS[dtype]
        for step in (0.013, 0.0004 if dtype == INT16 else 0.5):
            yield Use("QUANTIZE", [Tensor(FLOAT, shape)], [Tensor(dtype, shape, step, zero[1])])
            yield Use("DEQUANTIZE", [Tensor(dtype, shape, step, zero[1])], [Tensor(FLOAT, shape)],
                      version=3 if dtype == INT16 else 2)  # fmt: skip
    for a, b in [(INT8, UINT8), (UINT8, INT8), (INT8, INT8), (INT16, INT8), (INT8, INT16), (INT16, INT16)]:
        for step, out in [(0.1, 0.1), (0.03, 0.07), (0.3, 0.09)]:
            yield Use("QUANTIZE", [Tensor(a, shape, step, ZEROS[a][1])],
                      [Tensor(b, shape, out, ZEROS[b][2])], version=2)  # fmt: skip


def along_axes():
    for shape, beta in [((1, 12), 1.0), ((5, 3), 0.7), ((2, 3, 100), 1.0), ((1, 1, 1, 4), 2.0)]:
        yield Use("SOFTMAX", [Tensor(FLOAT, shape)], [Tensor(FLOAT, shape)], "SoftmaxOptions", beta=beta)
        yield Use("LOG_SOFTMAX", [Tensor(FLOAT, shape)], [Tensor(FLOAT, shape)])
        for dtype in (INT8, UINT8):
            for step in (0.0123, 0.1, 0.39):
                low = -128 if dtype == INT8 else 0
                yield Use("SOFTMAX", [Tensor(dtype, shape, step, ZEROS[dtype][1])],
                          [Tensor(dtype, shape, 1 / 256, low)], "SoftmaxOptions", version=2,
                          beta=beta)  # fmt: skip
    for axes, keep in [([1], True), ([-1], False), ([0, 2], False), ([1, 2], True)]:
        shape = (4, 5, 6, 3)
        true = {axis % 4 for axis in axes}
        result = [1 if axis in true else extent for axis, extent in enumerate(shape) if keep or axis not in true]
        own = {"keepDims": keep}
        axes = const(INT32, axes)
        for operator in ("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD"):
            yield Use(operator, [Tensor(FLOAT, shape), axes], [Tensor(FLOAT, result)], "ReducerOptions", **own)
            if operator != "MEAN":
                yield Use(operator, [Tensor(INT32, shape), axes], [Tensor(INT32, result)],
                          "ReducerOptions", **own)  # fmt: skip
            for dtype in (INT8, UINT8, INT16):
                if operator == "REDUCE_PROD" or dtype == INT16 and operator.startswith("REDUCE"):
                    continue
                zero = ZEROS[dtype]
                for out in (0.04, 0.0613):
                    if operator.startswith("REDUCE") and out != 0.04:
                        continue
                    out = out * 6 if operator == "SUM" else out
                    yield Use(operator, [Tensor(dtype, shape, 0.04, zero[1]), axes],
                              [Tensor(dtype, result, out, zero[1] if operator.startswith("REDUCE") else zero[2])],
                              "ReducerOptions", version=2, **own)  # fmt: skip
        for operator in ("REDUCE_ANY", "REDUCE_ALL"):
            yield Use(operator, [Tensor(BOOL, shape), axes], [Tensor(BOOL, result)], "ReducerOptions", **own)
    for operator in ("ARG_MAX", "ARG_MIN"):
        kind = "ArgMaxOptions" if operator == "ARG_MAX" else "ArgMinOptions"
        for dtype, out in [(FLOAT, INT32), (INT8, INT64), (INT32, INT32)]:
            own = (0.1, 3) if dtype == INT8 else ()
            yield Use(operator, [Tensor(dtype, (3, 4, 5), *own), const(INT32, 1)], [Tensor(out, (3, 5))],
                      kind, outputType=2 if out == INT32 else 4)  # fmt: skip
    for exclusive, reverse in itertools.product((False, True), repeat=2):
        yield Use("CUMSUM", [Tensor(FLOAT, (3, 4, 5)), const(INT32, 1)], [Tensor(FLOAT, (3, 4, 5))],
                  "CumsumOptions", exclusive=exclusive, reverse=reverse)  # fmt: skip
    yield Use("L2_NORMALIZATION", [Tensor(FLOAT, (3, 4))], [Tensor(FLOAT, (3, 4))], "L2NormOptions")
    for dtype in (FLOAT, INT32):
        yield Use("TOPK_V2", [Tensor(dtype, (3, 9)), const(INT32, 4)], [Tensor(dtype, (3, 4)), Tensor(INT32, (3, 4))])


def movement():
    def of(dtype):
        return (0.05, 3) if dtype in (INT8, UINT8) else ()

    for dtype in (FLOAT, INT8, INT32):
        own = of(dtype)
        x = Tensor(dtype, (2, 6, 4), *own)

        def out(*shape, own=own, dtype=dtype):
            return Tensor(dtype, shape, *own)

        yield Use("RESHAPE", [x, const(INT32, [4, -1])], [out(4, 12)], "ReshapeOptions", newShape=[4, -1])
        yield Use("RESHAPE", [x], [out(3, 16)], "ReshapeOptions", newShape=[3, 16])
        yield Use("SQUEEZE", [Tensor(dtype, (1, 3, 1, 4), *own)], [out(3, 4)], "SqueezeOptions", squeezeDims=[])
        yield Use("SQUEEZE", [Tensor(dtype, (1, 3, 1, 4), *own)], [out(1, 3, 4)], "SqueezeOptions", squeezeDims=[-2])
        yield Use("EXPAND_DIMS", [x, const(INT32, -1)], [out(2, 6, 4, 1)])
        yield Use("TRANSPOSE", [x, const(INT32, [2, 0, 1])], [out(4, 2, 6)])
        yield Use("CONCATENATION", [x, Tensor(dtype, (2, 3, 4), *own)], [out(2, 9, 4)], "ConcatenationOptions", axis=-2)
        yield Use("SPLIT", [const(INT32, 1), x], [out(2, 3, 4), out(2, 3, 4)], "SplitOptions", numSplits=2)
        yield Use("SPLIT_V", [x, const(INT32, [1, -1, 2]), const(INT32, 1)], [out(2, 1, 4), out(2, 3, 4), out(2, 2, 4)],
                  "SplitVOptions", numSplits=3)  # fmt: skip
        yield Use("SLICE", [x, const(INT32, [0, 1, 2]), const(INT32, [2, 3, -1])], [out(2, 3, 2)])
        lists = [const(INT32, [0, 5, -3]), const(INT32, [1, 0, 4]), const(INT32, [1, -2, 1])]
        yield Use("STRIDED_SLICE", [x, *lists], [out(3, 3)], "StridedSliceOptions", shrinkAxisMask=1,
                  beginMask=0, endMask=0)  # fmt: skip
        lists = [const(INT32, [0, 1, 0]), const(INT32, [0, 3, 0]), const(INT32, [1, 2, 1])]
        yield Use("STRIDED_SLICE", [x, *lists], [out(2, 1, 4)], "StridedSliceOptions", beginMask=5, endMask=5)
        yield Use("PAD", [x, const(INT32, [[0, 0], [1, 2], [3, 0]])], [out(2, 9, 7)])
        fill = const(dtype, 7, **({"scale": 0.05, "zero": 3} if own else {}))
        yield Use("PADV2", [x, const(INT32, [[0, 0], [1, 2], [3, 0]]), fill], [out(2, 9, 7)])
        for mode, pads in [(0, [[0, 0], [5, 2], [3, 0]]), (1, [[1, 2], [6, 2], [4, 1]])]:
            shape = [extent + sum(pad) for extent, pad in zip((2, 6, 4), pads, strict=True)]
            yield Use("MIRROR_PAD", [x, const(INT32, pads)], [out(*shape)], "MirrorPadOptions", mode=mode)
        yield Use("PACK", [x, x], [out(2, 6, 2, 4)], "PackOptions", axis=2, valuesCount=2)
        yield Use("UNPACK", [x], [out(2, 4)] * 6, "UnpackOptions", axis=1, num=6)
        index = const(INT32, [[0, 5], [2, 2]])
        yield Use("GATHER", [x, index], [out(2, 2, 2, 4)], "GatherOptions", axis=1)
        yield Use("GATHER", [x, const(INT32, [[0, 3, 1], [2, 2, 0]])], [out(2, 6, 3)], "GatherOptions", axis=2, batchDims=1)
        yield Use("GATHER_ND", [x, const(INT32, [[0, 5], [1, 2], [1, 0]])], [out(3, 4)])
        yield Use("TILE", [x, const(INT32, [2, 1, 3])], [out(4, 6, 12)])
        yield Use("REVERSE_V2", [x, const(INT32, [1])], [out(2, 6, 4)])
        picture = Tensor(dtype, (1, 4, 6, 8), *own)
        yield Use("SPACE_TO_DEPTH", [picture], [out(1, 2, 3, 32)], "SpaceToDepthOptions", blockSize=2)
        yield Use("DEPTH_TO_SPACE", [picture], [out(1, 8, 12, 2)], "DepthToSpaceOptions", blockSize=2)
        if dtype != INT32:
            block, pads = const(INT32, [2, 3]), const(INT32, [[1, 1], [0, 0]])
            yield Use("SPACE_TO_BATCH_ND", [picture, block, pads], [out(6, 3, 2, 8)])
            back = Tensor(dtype, (6, 3, 2, 8), *own)
            yield Use("BATCH_TO_SPACE_ND", [back, block, pads], [out(1, 4, 6, 8)])
        yield Use("BROADCAST_TO", [Tensor(dtype, (1, 4), *own), const(INT32, [3, 2, 4])], [out(3, 2, 4)], version=2)
        yield Use("FILL", [const(INT32, [2, 3]), Tensor(dtype, (), *own)], [out(2, 3)])
    yield Use("CONCATENATION", [Tensor(UINT8, (2, 3), 0.1, 5), Tensor(UINT8, (2, 4), 0.07, 90)],
              [Tensor(UINT8, (2, 7), 0.09, 40)], "ConcatenationOptions", axis=1)  # fmt: skip
    yield Use("CONCATENATION", [Tensor(FLOAT, (2, 3)), Tensor(FLOAT, (2, 4))],
              [Tensor(FLOAT, (2, 7))], "ConcatenationOptions", axis=1, fusedActivationFunction=NONE)  # fmt: skip
    yield Use("SHAPE", [Tensor(FLOAT, (2, 3))], [Tensor(INT32, (2,))], "ShapeOptions", outType=2)
    yield Use("RANK", [Tensor(FLOAT, (2, 3))], [Tensor(INT32, ())])
    yield Use("ONE_HOT", [Tensor(INT32, (4,)), const(INT32, 6), const(FLOAT, 2.0), const(FLOAT, -1.0)],
              [Tensor(FLOAT, (4, 6))], "OneHotOptions", axis=-1)  # fmt: skip
    yield Use("SCATTER_ND", [const(INT32, [[1], [3], [1]]), Tensor(FLOAT, (3, 2)), const(INT32, [5, 2])],
              [Tensor(FLOAT, (5, 2))])  # fmt: skip
    yield Use("RANGE", [const(INT32, 2), const(INT32, 11), const(INT32, 3)], [Tensor(INT32, (3,))])


def resizes():
    for source, size in [((1, 4, 5, 3), (8, 10)), ((2, 7, 6, 2), (3, 11)), ((1, 3, 3, 4), (3, 3)), ((1, 4, 4, 1), (1, 9))]:
        for corners, half in [(False, False), (True, False), (False, True)]:
            result = (source[0], *size, source[3])
            for operator in ("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"):
                kind = "ResizeBilinearOptions" if "BIL" in operator else "ResizeNearestNeighborOptions"
                for dtype in (FLOAT, INT8, UINT8, INT16):
                    own = () if dtype == FLOAT else (0.05, ZEROS[dtype][1])
                    yield Use(operator, [Tensor(dtype, source, *own), const(INT32, size)],
                              [Tensor(dtype, result, *own)], kind, version=1 if dtype == FLOAT else 3,
                              alignCorners=corners, halfPixelCenters=half)  # fmt: skip


def control():
    x = Tensor(FLOAT, (2, 3))
    double = Use("ADD", [x, const(FLOAT, numbers(2, 3))], [x], "AddOptions")
    square = Use("MUL", [x, const(FLOAT, numbers(3, seed=2))], [x], "MulOptions")
    yield Use("IF", [Tensor(BOOL, ()), x], [x], "IfOptions", graphs=(double, square),
              thenSubgraphIndex=1, elseSubgraphIndex=2)  # fmt: skip
    count = Tensor(INT32, ())
    below = Use("LESS", [count, const(INT32, 25)], [Tensor(BOOL, ())])
    more = Use("ADD", [count, const(INT32, 7)], [count], "AddOptions")
    yield Use("WHILE", [count], [count], "WhileOptions", graphs=(below, more), condSubgraphIndex=1,
              bodySubgraphIndex=2)  # fmt: skip
    yield Use("WHERE", [Tensor(BOOL, (3, 4))], [Tensor(INT64, (1, 2), free=(0,))])


GROUPS = (control, convolutions, transposed, products, pools, elementwise, unary, along_axes, movement, resizes)


def write(folder, only=None):
    """Writes a file for each use; their names and paths."""
    written, counts = [], {}
    for use in itertools.chain.from_iterable(group() for group in GROUPS):
        dtypes = {it.dtype: None for it in [*use.inputs, *use.outputs] if it is not None}
        name = f"{use.operator}_{'_'.join(dtypes)}"
        counts[name] = counts.get(name, 0) + 1
        name = f"{name}_{counts[name]}"
        if only and only not in name:
            continue
        path = folder / f"{name}.tflite"
        path.write_bytes(encoded(use))
        written.append((name, path))
    return written

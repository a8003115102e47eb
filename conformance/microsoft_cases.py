#!/usr/bin/env python3
"""Makes cases of ONNX Runtime's own operators, with what ONNX Runtime computes as what is right.

    pip install numpy onnx onnxruntime
    python conformance/microsoft_cases.py crates/import-onnx/tests/microsoft.cases [NAME...]

A case is one node, run without optimisation on the CPU, or a small model as ONNX Runtime has saved
it with blocked channels. The file holds a model a case, behind its
length in four bytes, the lowest first: the node, its inputs as initializers, and the outputs that
are right as initializers named `expected:NAME`. Inputs whose names begin with `const_` must be
constants. What ONNX Runtime refuses is listed, and is no case. NAMEs choose operators.
"""

import argparse
import collections
import pathlib
import struct
import sys
import tempfile
import zlib

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

MICROSOFT = "com.microsoft"
BUILDERS = {}
rng = np.random.default_rng(0)


class Known:
    """An input that must be a constant."""

    def __init__(self, value):
        self.value = value


class Sparse:
    """A matrix whose zeros are not stored: an input of ONNX Runtime's, in the file a constant, which
    ONNX Runtime would make dense."""

    def __init__(self, value):
        self.value = value
        self.places = np.ascontiguousarray(np.argwhere(value))
        self.numbers = value[tuple(self.places.T)]

    def fed(self):
        device = onnxruntime.OrtDevice.make("cpu", 0)
        made = onnxruntime.SparseTensor.sparse_coo_from_numpy
        shape = np.array(self.value.shape, np.int64)
        tensor = made(shape, self.numbers, self.places, device)
        return onnxruntime.OrtValue.ort_value_from_sparse_tensor(tensor)

    def proto(self, name):
        numbers = numpy_helper.from_array(self.numbers, name)
        places = numpy_helper.from_array(self.places, "")
        return helper.make_sparse_tensor(numbers, places, self.value.shape)

    def info(self, name):
        kind = helper.np_dtype_to_tensor_dtype(self.value.dtype)
        return helper.make_sparse_tensor_value_info(name, kind, self.value.shape)


def cases(name, domain=MICROSOFT):
    """Registers a function that yields the cases of an operator: inputs, attributes and, where
    there are several, which outputs are wanted."""

    def register(function):
        BUILDERS[(domain, name)] = function
        return function

    return register


def same(names, domain=MICROSOFT):
    """Registers a function of a name for several operators."""

    def register(function):
        for name in names:
            BUILDERS[(domain, name)] = lambda name=name: function(name)
        return function

    return register


def f(*shape, scale=1.0, dtype=np.float32):
    """Floats of few digits."""
    return (np.round(rng.normal(size=shape) * 64 * scale) / 64).astype(dtype)


def positive(*shape, low=0.01, high=0.1):
    return rng.uniform(low, high, size=shape).astype(np.float32)


def i(low, high, *shape, dtype=np.int32):
    return rng.integers(low, high, size=shape).astype(dtype)


def u8(*shape):
    return i(0, 256, *shape, dtype=np.uint8)


def i8(*shape):
    return i(-128, 128, *shape, dtype=np.int8)


def q(dtype, *shape):
    return u8(*shape) if dtype == np.uint8 else i8(*shape)


def point(dtype):
    return np.array(rng.integers(100, 150) if dtype == np.uint8 else rng.integers(-20, 20), dtype)


def number(value):
    return np.array(value, np.float32)


# --- functions of elements ---


@cases("BiasGelu")
def bias_gelu():
    for shape in [(4,), (2, 8), (3, 5), (1, 7), (2, 3, 8), (2, 3, 9), (1, 1, 16), (2, 2, 2, 4), (5, 33), (6, 12)]:
        yield [f(*shape, scale=2), f(shape[-1])], {}


@cases("FastGelu")
def fast_gelu():
    for number, shape in enumerate([(4,), (2, 8), (3, 5), (1, 7), (2, 3, 8), (2, 3, 9), (1, 1, 16), (2, 2, 2, 4), (5, 33), (6, 12)]):
        yield [f(*shape, scale=2)] + ([f(shape[-1])] if number % 2 else []), {}


@cases("Gelu")
def gelu():
    for shape in [(4,), (2, 8), (3, 5), (1, 7), (2, 3, 8), (2, 3, 9), (1, 1, 16), (2, 2, 2, 4), (5, 33), (6, 12)]:
        yield [f(*shape, scale=2)], {}


@cases("QuickGelu")
def quick_gelu():
    for shape in [(4,), (2, 8), (3, 5), (2, 3, 9), (5, 33)]:
        for attributes in [{}, {"alpha": 1.0}, {"alpha": -0.5}]:
            yield [f(*shape, scale=2)], attributes


@cases("ScaledSiLU")
def scaled_silu():
    for shape in [(4,), (2, 8), (3, 5), (2, 3, 9)]:
        for alpha in [1.0, 0.25, -2.0]:
            yield [f(*shape, scale=2)], {"alpha": alpha}
        yield [f(*shape), number(0.75)], {"alpha": 3.0}


@cases("GatedAdd")
def gated_add():
    for shape in [(4,), (2, 8), (3, 5), (2, 3, 9), (1, 2, 3, 4), (7, 1), (2, 6), (9, 3), (1, 1, 5), (2, 2, 17)]:
        yield [f(*shape), f(*shape), f(*shape[:-1], 1)], {}


@cases("LinearAttentionGate")
def linear_attention_gate():
    for b, t, h in [(1, 1, 2), (1, 4, 3), (2, 3, 4), (2, 1, 8), (1, 7, 5)]:
        for both in [False, True]:
            inputs = [f(b, t, h), f(h), -np.abs(f(h))] + ([f(b, t, h)] if both else [])
            yield inputs, {}, [1, int(both)]


@cases("HyperConnectionPreMix")
def pre_mix():
    for b, s, c, h in [(1, 2, 2, 4), (2, 3, 4, 5), (1, 1, 3, 8)]:
        for gate in [(c,), (c, 1), (c, h)]:
            yield [f(b, s, c, h), f(b, s, *gate)], {"reduction_scale": 0.5}
        yield [f(b, s, c * h), f(b, s, c * h)], {"num_branches": c}
        yield [f(b, s, c * h), f(b, s, c)], {"num_branches": c}


@cases("HyperConnectionPostMix")
def post_mix():
    for b, s, c, h in [(1, 2, 2, 4), (2, 3, 4, 5), (1, 1, 3, 8)]:
        for gate in [(c,), (c, 1), (c, h)]:
            yield [f(b, s, c, h), f(b, s, h), f(b, s, *gate)], {}
        yield [f(b, s, c, h), f(b, s, h), f(b, s, c), f(b, s, c, c)], {}
        yield [f(b, s, c * h), f(b, s, h), f(b, s, c), f(b, s, c, c)], {"num_branches": c}


# --- normalisations ---


@cases("SimplifiedLayerNormalization", "")
def simplified():
    for shape in [(2, 8), (3, 5), (1, 2, 16), (2, 3, 9)]:
        for attributes in [{"axis": -1}, {"axis": -1, "epsilon": 1e-3}, {"axis": len(shape) - 1, "epsilon": 1e-6, "stash_type": 1}]:
            yield [f(*shape), f(shape[-1])], attributes


@same(["SkipLayerNormalization", "SkipSimplifiedLayerNormalization"])
def skip(name):
    simple = "Simplified" in name
    for b, s, h in [(1, 2, 4), (2, 3, 8), (3, 1, 16), (2, 5, 12)]:
        for kind in range(4):
            rest = [f(h)] if simple else [f(h), f(h) if kind != 1 else None]
            other = [(b, s, h), (b, s, h), (1, s, h), (s, h)][kind]
            bias = [f(h)] if kind != 0 else []
            outputs = [1, 0, 0, int(kind != 2)]
            yield [f(b, s, h), f(*other)] + rest + bias, {"epsilon": [1e-5, 1e-12, 1e-3, 1e-6][kind]}, outputs


def embedding_ids(b, s):
    return i(0, 11, b, s), i(0, 2, b, s)


@cases("EmbedLayerNormalization")
def embed():
    for b, s, h in [(1, 3, 4), (2, 5, 8), (3, 2, 6)]:
        for kind in range(4):
            ids, segments = embedding_ids(b, s)
            mask = np.array(rng.integers(0, 2, size=(b, s)), np.int32)
            places = i(0, 7, b, s)
            inputs = [ids, segments if kind != 1 else None, f(11, h), f(7, h), f(2, h) if kind != 1 else None, f(h), f(h)]
            inputs += [[], [mask], [mask], [None, places]][kind]
            yield inputs, {"epsilon": 1e-5}, [1, 1, int(kind == 2)]


@cases("QEmbedLayerNormalization")
def quantised_embed():
    for b, s, h in [(1, 3, 4), (2, 5, 8), (3, 2, 6), (2, 2, 16), (1, 6, 5)]:
        for with_segments in [False, True]:
            ids, segments = embedding_ids(b, s)
            tables = [u8(11, h), u8(7, h), u8(2, h), u8(h), u8(h)]
            scales = [number(positive()) for _ in range(5)]
            points = [np.array(rng.integers(100, 150), np.uint8) for _ in range(5)]
            if not with_segments:
                segments, tables[2], scales[2], points[2] = None, None, None, None
            mask = np.array(rng.integers(0, 2, size=(b, s)), np.int32)
            yield [ids, segments] + tables + [mask] + scales + points, {"epsilon": 1e-5}, [1, 1]


@cases("GatedRMSNorm")
def gated_norm():
    for lead, groups, size in [((2,), 1, 8), ((2, 3), 2, 4), ((1, 4), 3, 5), ((2, 1), 1, 16)]:
        for activation in ["silu", "swish", "sigmoid"]:
            shape = lead + (groups * size,)
            yield [f(*shape), f(size), f(*shape)], {"activation": activation, "epsilon": 1e-5}


@cases("BranchwiseRMSNorm")
def branchwise():
    for b, c, h in [(1, 2, 4), (2, 3, 5), (4, 4, 8)]:
        yield [f(b, c, h)], {}
        yield [f(b, c, h), f(c, h)], {"epsilon": 1e-3}
        yield [f(b, c, h), f(h)], {}
        yield [f(b, c * h), f(c * h)], {"num_branches": c}


@cases("EngramGate")
def engram():
    for b, s, c, h in [(1, 2, 2, 4), (2, 3, 3, 8), (1, 1, 4, 16), (2, 2, 1, 6), (1, 5, 2, 12)]:
        for both in [False, True]:
            inputs = [f(b, s, c, h), f(b, s, c, h), f(b, s, h), f(c, h), f(c, h)] + ([f(c, h)] if both else [])
            yield inputs, {}, [1, int(both)]


# --- strings ---

WORDS = ["a", "", "Straße", "two words", "tile-wright", "x,y;z", "naïve 東京", "a  b", " lead", "0"]


def text(*shape):
    """Strings of few words."""
    return np.array([WORDS[rng.integers(len(WORDS))] for _ in range(int(np.prod(shape)))], object).reshape(shape)


@cases("MurmurHash3")
def murmur():
    for positive_only in [0, 1]:
        for values in [i(-9, 9, 4), i(-9, 9, 2, 3, dtype=np.int64), i(0, 9, 5, dtype=np.uint32), f(3, 2), f(4, dtype=np.float64), text(6), text(2, 3)]:
            yield [values], {"seed": int(rng.integers(0, 1000)), "positive": positive_only}


@cases("Tokenizer")
def tokenizer():
    for mark in [0, 1]:
        base = {"mark": mark, "pad_value": "#", "mincharnum": 1}
        yield [text(4)], {**base, "separators": [" "]}
        yield [text(2, 3)], {**base, "separators": [" ", ","]}
        yield [text(5)], {**base, "separators": [""]}
        yield [text(5)], {**base, "tokenexp": "[a-z]+"}
        yield [text(3)], {**base, "tokenexp": "."}
        yield [text(2, 2)], {**base, "mincharnum": 2, "separators": [" "]}


# --- products and convolutions ---

FUNCTIONS = [
    {"activation": "Relu"},
    {"activation": "Sigmoid"},
    {"activation": "Tanh"},
    {"activation": "LeakyRelu", "activation_params": [0.1]},
    {"activation": "Clip", "activation_params": [-0.5, 1.5]},
    {"activation": "HardSigmoid", "activation_params": [0.3, 0.4]},
]


@cases("FusedConv")
def fused_conv():
    for number, activation in enumerate(FUNCTIONS):
        for shape in range(3):
            group = 2 if shape == 1 else 1
            x, w = f(2, 4, 6, 5), f(4, 4 // group, 3, 3, scale=0.5)
            attributes = {"kernel_shape": [3, 3], "group": group, "pads": [1, 1, 1, 1], **activation}
            if shape == 2:
                attributes.update(strides=[2, 1], pads=[0, 1, 2, 0], dilations=[1, 2])
                out = None
            else:
                out = (2, 4, 6, 5)
            inputs = [x, w] + ([f(4)] if number % 2 or shape == 1 else [None] if shape == 1 else [])
            if shape == 1:
                inputs.append(f(*out))
            yield inputs, attributes


@cases("FusedGemm")
def fused_gemm():
    for activation in [
        {"activation": "Relu"},
        {"activation": "Sigmoid"},
        {"activation": "Tanh"},
        {"activation": "LeakyRelu", "activation_alpha": 0.1},
        {"activation": "Softplus"},
        {"activation": "Softsign"},
        {"activation": "Elu", "activation_alpha": 0.7},
        {"activation": "HardSigmoid", "activation_alpha": 0.3, "activation_beta": 0.4},
        {"activation": "ThresholdedRelu", "activation_alpha": 0.5},
    ]:
        yield [f(3, 5), f(5, 4), f(4)], {"alpha": 0.5, "beta": 2.0, **activation}
        yield [f(5, 3), f(4, 5), f(3, 4)], {"transA": 1, "transB": 1, **activation}


@same(["FusedMatMul", "TransposeMatMul"])
def fused_matmul(name):
    for a, b in [(0, 0), (0, 1), (1, 0), (1, 1)]:
        for lead in [(), (2,), (2, 3)]:
            left = lead + ((5, 3) if a else (3, 5))
            right = lead + ((4, 5) if b else (5, 4))
            yield [f(*left), f(*right)], {"transA": a, "transB": b, "alpha": 0.5}
    if name == "FusedMatMul":
        yield [f(3, 2, 5), f(2, 5, 4)], {"transBatchA": 1}
        yield [f(2, 3, 5), f(5, 2, 4)], {"transBatchB": 1}
        yield [f(5, 2, 3), f(2, 5, 4)], {"transBatchA": 1, "transA": 1}
        yield [f(3, 2, 6, 5), f(2, 6, 5, 4)], {"transBatchA": 1}


@cases("SparseToDenseMatMul")
def sparse_product():
    for m, k, n in [(3, 5, 4), (1, 7, 9), (6, 2, 2), (16, 24, 17)]:
        for a, b in [(0, 0), (0, 1), (1, 0), (1, 1)]:
            # Shapes are inferred as if nothing were turned.
            left, right = f(k if a else m, k), f(k, k if b else n)
            left *= i(0, 2, *left.shape)
            left[0, 0] = 1
            attributes = {"transA": a, "transB": b} | ({"alpha": 0.5} if m == 3 else {})
            yield [Sparse(left), right], attributes


@cases("ConvTransposeWithDynamicPads")
def dynamic_pads():
    for stride in [1, 2]:
        for pads in [[0, 0, 0, 0], [1, 1, 1, 1], [1, 0, 0, 1]]:
            for group in [1, 2]:
                yield [f(2, 4, 4, 3), f(4, 3, 3, 3), Known(np.array(pads, np.int64)), f(3 * group)], {"strides": [stride, stride], "group": group, "kernel_shape": [3, 3]}


@cases("Inverse")
def inverse():
    for lead in [(), (2,), (2, 3)]:
        for size in [1, 2, 4, 7]:
            yield [f(*lead, size, size) + 4 * np.eye(size, dtype=np.float32)], {}


@cases("CDist")
def cdist():
    for m, k, n in [(3, 4, 5), (1, 1, 2), (6, 2, 3), (2, 7, 8), (5, 5, 16)]:
        for metric in ["euclidean", "sqeuclidean"]:
            yield [f(m, n), f(k, n)], {"metric": metric}


@cases("WordConvEmbedding")
def word_embedding():
    for words, letters, window, filters, size in [((3,), 6, 2, 4, 3), ((4,), 5, 3, 3, 4), ((1,), 8, 1, 5, 2), ((5,), 7, 5, 6, 4), ((2,), 4, 4, 2, 2)]:
        for _ in range(2):
            sequence = np.zeros(words + (letters,), np.int32)
            for at in np.ndindex(words):
                length = rng.integers(1, letters + 1)
                sequence[at][:length] = rng.integers(1, 9, size=length)
            yield [sequence, f(filters, 1, window, size), f(filters), f(9, size)], {"embedding_size": filters, "conv_window_size": window, "char_embedding_size": size}


# --- attention ---


def masks(b, q, k, kind):
    if kind == 0:
        return None
    if kind == 1:
        mask = np.array(rng.integers(0, 2, size=(b, k)), np.int32)
        mask[:, 0] = 1
        return mask
    if kind == 2:
        return i(1, k + 1, b)
    if kind == 3:
        return np.concatenate([i(k - 1, k + 1, b), i(0, 2, b)]).astype(np.int32)
    mask = np.array(rng.integers(0, 2, size=(b, q, k)), np.int32)
    mask[:, :, 0] = 1
    return mask


@cases("Attention")
def attention():
    for b, s, heads, size, past in [(1, 3, 2, 4, 0), (2, 4, 2, 3, 0), (2, 2, 4, 2, 3)]:
        h = heads * size
        for kind in range(5):
            if past and kind in (2, 3):
                continue
            total = s + past
            inputs = [f(b, s, 5), f(5, 3 * h, scale=0.5), f(3 * h) if kind != 1 else None, masks(b, s, total, kind)]
            inputs.append(f(2, b, heads, past, size) if past else None)
            if kind in (0, 1):
                inputs.append(f(b, heads, s, total))
            attributes = {"num_heads": heads, "unidirectional": kind % 2}
            if kind == 4:
                attributes["scale"] = 0.3
            if kind == 1:
                attributes["mask_filter_value"] = -5000.0
            yield inputs, attributes, [1, int(past > 0 or kind == 0)]
    yield [f(2, 3, 4), f(4, 16), f(16)], {"num_heads": 2, "qkv_hidden_sizes": [4, 4, 8]}


@cases("MultiHeadAttention")
def multi_head():
    for b, q, k, heads, size, width in [(1, 3, 3, 2, 4, 4), (2, 2, 5, 2, 3, 5), (2, 4, 4, 4, 2, 2)]:
        h, v = heads * size, heads * width
        for kind in range(5):
            inputs = [f(b, q, h), f(b, k, h), f(b, k, v), f(2 * h + v) if kind % 2 else None]
            inputs.append(masks(b, q, k, [0, 1, 2, 4, 0][kind]))
            inputs.append(f(b if kind else 1, heads if kind < 3 else 1, q, k) if kind in (0, 2, 4) else None)
            attributes = {"num_heads": heads, "unidirectional": int(kind == 4 and q == k)}
            if kind == 3:
                attributes["scale"] = 0.4
            yield inputs, attributes
    for heads, size in [(2, 4), (3, 2)]:
        yield [f(2, 3, heads, 3, size)], {"num_heads": heads}
        yield [f(2, 3, heads * size), f(2, 4, heads, 2, size)], {"num_heads": heads}
        yield [f(2, 3, heads * size), f(2, heads, 4, size), f(2, heads, 4, size)], {"num_heads": heads}
        h = heads * size
        yield [f(2, 2, h), f(2, 2, h), f(2, 2, h), None, None, None, f(2, heads, 3, size), f(2, heads, 3, size)], {"num_heads": heads}, [1, 1, 1]
        yield [f(2, 2, h), f(2, 2, h), f(2, 2, h), f(3 * h), None, None, f(2, heads, 3, size), f(2, heads, 3, size)], {"num_heads": heads, "unidirectional": 1}, [1, 1, 1, 1]


@cases("DecoderMaskedMultiHeadAttention")
def decoder_masked():
    for b, heads, size, past in [(1, 2, 4, 3), (2, 2, 3, 1), (2, 4, 2, 5)]:
        h = heads * size
        for kind in range(4):
            room = past + 2
            cache = lambda: np.where(np.arange(room)[:, None] < past, f(b, heads, room, size), number(0))
            inputs = [f(b, 1, h), f(b, 1, h), f(b, 1, h), None, None, cache(), cache(), Known(np.array([past], np.int32))]
            if kind == 1:
                inputs += [None, None, f(3 * h)]
            if kind == 2:
                inputs[4] = f(1, heads, 1, past + 1)
            if kind == 3:
                inputs[3] = masks(b, 1, past + 1, 1)
            yield inputs, {"num_heads": heads, "past_present_share_buffer": 1}, [1, 1, 1]


@cases("GroupQueryAttention")
def group_query():
    for b, s, past, heads, shared, size in [(1, 4, 0, 2, 1, 16), (2, 3, 0, 4, 2, 16), (1, 1, 5, 4, 4, 16), (2, 1, 3, 4, 2, 16), (1, 2, 4, 2, 2, 16)]:
        for kind in range(7):
            total = s + past
            ends = np.full(b, total - 1, np.int32)
            inputs = [f(b, s, heads * size), f(b, s, shared * size), f(b, s, shared * size)]
            if kind == 2:
                inputs = [f(b, s, (heads + 2 * shared) * size), None, None]
            room = total + 2 if kind == 3 else past
            inputs += [np.where(np.arange(room)[:, None] < past, f(b, shared, room, size), number(0)) for _ in range(2)] if past or kind == 3 else [None, None]
            inputs += [ends, Known(np.array(total, np.int32))]
            attributes = {"num_heads": heads, "kv_num_heads": shared}
            if kind in (1, 2, 3):
                inputs += [f(16, size // 2), f(16, size // 2)]
                attributes.update(do_rotary=1, rotary_interleaved=int(kind == 3))
            if kind == 4:
                attributes.update(local_window_size=2)
            if kind == 5:
                attributes.update(softcap=3.0, smooth_softmax=1)
            if kind == 6:
                inputs += [None, None, None, f(b, 1, s, total), f(heads)]
                attributes.update(scale=0.4)
            yield inputs, attributes, [1, 1, 1]
    # Caches of little more than a window, all of whose rows are taken behind the call.
    for b, s, past, room, window in [(1, 6, 0, 6, 4), (1, 9, 0, 4, 4), (1, 1, 3, 4, 4), (1, 1, 4, 4, 4), (2, 1, 9, 4, 4), (1, 3, 5, 4, 3), (1, 1, 8, 6, 4), (1, 7, 2, 5, 5), (1, 4, 5, 6, 4), (1, 1, 31, 7, 3), (1, 6, 10, 4, 2)]:
        heads, shared, size, at_once = 4, 2, 16, room - window + 1
        kept = lambda length: length + min(0, (room - length) // at_once * at_once)
        assert kept(past + s) == room, (past, s, room, window, kept(past + s))
        inputs = [f(b, s, heads * size), f(b, s, shared * size), f(b, s, shared * size)]
        inputs += [np.where(np.arange(room)[:, None] < kept(past), f(b, shared, room, size), number(0)) for _ in range(2)]
        inputs += [np.full(b, past + s - 1, np.int32), Known(np.array(past + s, np.int32)), f(64, size // 2), f(64, size // 2)]
        yield inputs, {"num_heads": heads, "kv_num_heads": shared, "do_rotary": 1, "sliding_window_cache": 1, "local_window_size": window}, [1, 1, 1]


@cases("RotaryEmbedding")
def rotary():
    for b, s, heads, size in [(1, 3, 2, 8), (2, 4, 3, 4), (2, 1, 1, 16)]:
        for kind in range(4):
            x = f(b, heads, s, size) if kind == 1 else f(b, s, heads * size)
            places = np.array([2], np.int64) if kind == 2 else i(0, 9, b, s, dtype=np.int64)
            half = size // 4 if kind == 3 else size // 2
            attributes = {"interleaved": kind % 2}
            if kind == 3:
                attributes.update(num_heads=heads, rotary_embedding_dim=2 * half)
            yield [x, places, f(9, half), f(9, half)], attributes


@cases("MRotaryEmbedding")
def sectioned():
    for b, s, heads, sections in [(1, 3, 2, [1, 1, 2]), (2, 4, 3, [2, 1, 1]), (1, 2, 1, [2, 3, 3])]:
        for kind in range(4):
            half = sum(sections)
            size = 2 * half
            x = f(b, heads, s, size) if kind == 1 else f(b, s, heads * size)
            yield [x, i(0, 9, 3, b, s, dtype=np.int64), f(9, half), f(9, half)], {"interleaved": int(kind == 2), "num_heads": heads, "mrope_section": sections}


@cases("LinearAttention")
def linear_attention():
    for b, t, queries, shared, k, v in [(1, 1, 2, 2, 4, 3), (2, 3, 4, 2, 3, 4), (1, 5, 2, 1, 2, 2)]:
        for rule in ["linear", "gated", "delta", "gated_delta"]:
            inputs = [f(b, t, queries * k), f(b, t, shared * k, scale=0.3), f(b, t, shared * v), f(b, shared, k, v)]
            if "gated" in rule:
                inputs.append(-np.abs(f(b, t, shared)))
            elif rule == "delta":
                inputs.append(None)
            if "delta" in rule:
                inputs.append(positive(b, t, shared, low=0.1, high=0.9))
            yield inputs, {"q_num_heads": queries, "kv_num_heads": shared, "update_rule": rule}, [1, 1]


@cases("CausalConvWithState")
def causal_convolution():
    for b, c, length, window in [(1, 2, 4, 3), (2, 3, 5, 4), (1, 4, 1, 2)]:
        for kind in range(4):
            inputs = [f(b, c, length), f(c, 1, window), f(c) if kind % 2 else None]
            inputs.append(f(b, c, window - 1) if kind != 2 else None)
            yield inputs, {"activation": ["none", "silu", "swish", "none"][kind]}, [1, 1]


@cases("MoE")
def experts():
    for rows, h, inner, count in [(3, 4, 6, 3), (5, 8, 4, 4)]:
        for k in [1, 2]:
            for kind in ["relu", "gelu", "silu", "swiglu"]:
                wide = 2 * inner if kind == "swiglu" else inner
                inputs = [f(rows, h), rng.normal(size=(rows, count)).astype(np.float32), f(count, wide, h, scale=0.5), f(count, wide), f(count, h, inner, scale=0.5), f(count, h)]
                attributes = {"k": k, "activation_type": kind, "normalize_routing_weights": int(k == 2)}
                if kind == "swiglu":
                    attributes.update(swiglu_fusion=1, activation_alpha=1.702, activation_beta=1.0, swiglu_limit=7.0)
                yield inputs, attributes


@cases("MoEGroupRouter")
def group_router():
    logits = lambda *shape: rng.normal(size=shape).astype(np.float32)
    for rows, count in [((5,), 8), ((2, 3), 12), ((4,), 6)]:
        for groups, kept, chosen, best in [(1, 1, 2, 2), (2, 1, 2, 2), (2, 2, 3, 1), (2, 1, 1, 3)]:
            attributes = {"n_group": groups, "topk_group": kept, "top_k": chosen, "group_topk": best, "router_sentinel": -100.0}
            yield [logits(*rows, count), logits(count) * number(0.1)], attributes
        yield [logits(*rows, count), logits(count) * number(0.1)], {"n_group": 1, "topk_group": 1, "top_k": 2}, [0, 1, 1]


@cases("QMoE")
def quantised_experts():
    for rows, h, inner, count in [(3, 32, 32, 3), (2, 64, 32, 4)]:
        for k in [1, 2]:
            for bits in [4, 8]:
                for block in [0, 32]:
                    wide = 2 * inner
                    scales = lambda out, depth: positive(count, out, *([depth // block] if block else []), low=0.001, high=0.01)
                    inputs = [f(rows, h), rng.normal(size=(rows, count)).astype(np.float32), u8(count, wide, h * bits // 8), scales(wide, h), None, u8(count, h, inner * bits // 8), scales(h, inner), None]
                    attributes = {"k": k, "activation_type": "swiglu", "swiglu_fusion": 1, "expert_weight_bits": bits, "activation_alpha": 1.702, "activation_beta": 1.0, "swiglu_limit": 7.0}
                    if block:
                        attributes["block_size"] = block
                    yield inputs, attributes


# --- weights of few bits ---


@cases("MatMulNBits")
def few_bits():
    for m, n, k, block in [((3,), 4, 32, 16), ((1,), 5, 40, 16), ((2, 2), 3, 64, 32)]:
        blocks = (k + block - 1) // block
        for bits in [2, 4, 8]:
            for kind in range(4):
                inputs = [f(*m, k, scale=0.5), u8(n, blocks, block * bits // 8), positive(n, blocks)]
                if kind == 1:
                    inputs.append(u8(n, (blocks * bits + 7) // 8))
                if kind == 2:
                    inputs.append(f(n, blocks, scale=2))
                if kind == 3:
                    inputs += [None, None, f(n)]
                yield inputs, {"K": k, "N": n, "bits": bits, "block_size": block}


@cases("MatMulBnb4")
def bits_and_bytes():
    for m, n, k, block in [((3,), 4, 32, 16), ((1,), 6, 16, 32), ((2, 2), 3, 64, 64)]:
        for kind in [0, 1, 0, 1]:
            yield [f(*m, k, scale=0.5), u8((n * k + 1) // 2), positive((n * k + block - 1) // block)], {"K": k, "N": n, "block_size": block, "quant_type": kind}


@cases("MatMulFpQ4")
def blobs():
    for m, n, k in [((3,), 4, 32), ((1,), 5, 40), ((2, 2), 3, 64), ((), 2, 100), ((4,), 17, 33), ((1,), 1, 1)]:
        for kind in [0, 1]:
            data = u8(n, (k + 31) // 32, 20 + kind)
            data[:, :, :4] = positive(*data.shape[:2], 1).astype(np.float32).view(np.uint8)
            data[:, :, 4 : 4 + kind] &= 15
            weights = data.reshape(-1)
            shape = Known(np.array([k, n], np.int64))
            yield [f(*m, k, scale=0.5), weights, shape], {"blk_quant_type": kind}
            if m == (3,):
                yield [f(*m, k, scale=0.5), Known(weights), shape], {"blk_quant_type": kind}


def four_bits(signed, *shape):
    low, high = (-8, 8) if signed else (0, 16)
    values = rng.integers(low, high, size=shape)
    kind = TensorProto.INT4 if signed else TensorProto.UINT4
    return helper.make_tensor("", kind, shape, values.flatten().tolist())


@cases("GatherBlockQuantized")
def gather_quantised():
    for rows, k, block, index in [(5, 32, 16, (3,)), (7, 64, 32, (2, 2)), (4, 48, 16, (1,))]:
        blocks = k // block
        for bits in [2, 4, 8]:
            for with_points in [False, True]:
                inputs = [Known(u8(rows, k * bits // 8)), i(-rows, rows, *index, dtype=np.int64), Known(positive(rows, blocks))]
                if with_points:
                    inputs.append(Known(u8(rows, (blocks * bits + 7) // 8)))
                yield inputs, {"bits": bits, "block_size": block, "quantize_axis": 1, "gather_axis": 0}
        for signed in [False, True]:
            inputs = [Known(four_bits(signed, rows, k)), i(0, rows, *index, dtype=np.int32), Known(positive(rows, blocks)), Known(four_bits(signed, rows, blocks))]
            yield inputs, {"block_size": block, "quantize_axis": 1, "gather_axis": 0}


# --- quantised numbers ---


def pairs():
    return [(np.uint8, np.uint8), (np.uint8, np.int8), (np.int8, np.int8), (np.int8, np.uint8)]


@cases("QuantizeLinear")
def quantise():
    for dtype in [np.uint8, np.int8, np.uint16, np.int16]:
        yield [f(3, 4, scale=4), number(positive()), np.array(3, dtype)], {}
        yield [f(2, 3, 4, scale=4), positive(3), i(0, 5, 3, dtype=dtype)], {"axis": 1}
        yield [f(2, 3, scale=4), positive(3), i(0, 5, 3, dtype=dtype)], {"axis": -1}


@cases("DequantizeLinear")
def dequantise():
    for dtype in [np.uint8, np.int8, np.uint16, np.int16]:
        yield [i(0, 100, 3, 4, dtype=dtype), number(positive()), np.array(3, dtype)], {}
        yield [i(0, 100, 2, 3, 4, dtype=dtype), positive(3), i(0, 5, 3, dtype=dtype)], {"axis": 1}
        yield [i(0, 100, 2, 3, dtype=dtype), positive(3), i(0, 5, 3, dtype=dtype)], {"axis": -1}


@cases("MatMulInteger16")
def short_products():
    for lead in [(), (2,)]:
        for m, k, n in [(3, 4, 5), (1, 7, 2), (2, 1, 3), (4, 16, 4), (1, 1, 1)]:
            yield [i(-300, 300, *lead, m, k, dtype=np.int16), i(-300, 300, *lead, k, n, dtype=np.int16)], {}


@cases("MatMulIntegerToFloat")
def product_to_float():
    for a, b in pairs():
        for kind in range(4):
            inputs = [q(a, 3, 6), q(b, 6, 5), number(positive()), positive(5) if kind % 2 else number(positive())]
            inputs += [[], [point(a), i(0, 9, 5, dtype=b)], [point(a), point(b)], [None, None, f(5)]][kind]
            yield inputs, {}


@cases("DynamicQuantizeMatMul")
def dynamic_product():
    for dtype in [np.uint8, np.int8]:
        for lead in [(3,), (2, 2)]:
            for kind in range(3):
                inputs = [f(*lead, 6), q(dtype, 6, 5), positive(5) if kind else number(positive())]
                inputs += [[], [i(0, 9, 5, dtype=dtype)], [point(dtype), f(5)]][kind] if kind != 2 else [i(0, 9, 5, dtype=dtype), f(5)]
                yield inputs, {}


@cases("DynamicQuantizeLSTM")
def dynamic_lstm():
    for steps, batch, size, hidden, both in [(1, 1, 4, 3, False), (2, 2, 3, 2, False), (3, 1, 5, 4, True), (4, 3, 3, 3, False)]:
        for dtype in [np.uint8, np.int8]:
            for kind in range(2):
                d = 2 if both else 1
                w, r = q(dtype, d, size, 4 * hidden), q(dtype, d, hidden, 4 * hidden)
                columns = (d, 4 * hidden) if kind else (d,)
                points = lambda: np.zeros(columns, dtype) if dtype == np.int8 else i(120, 136, *columns, dtype=dtype)
                inputs = [f(steps, batch, size), Known(w), Known(r), f(d, 8 * hidden), None, None, None, None]
                inputs += [Known(positive(*columns, low=0.001, high=0.01)), Known(points()), Known(positive(*columns, low=0.001, high=0.01)), Known(points())]
                yield inputs, {"hidden_size": hidden, "direction": "bidirectional" if both else "forward"}, [1, 1, 1]


@cases("QAttention")
def quantised_attention():
    for b, s, heads, size, past in [(1, 3, 2, 4, 0), (2, 4, 2, 3, 0), (2, 2, 4, 2, 3)]:
        h = heads * size
        for kind in range(4):
            a, w = pairs()[kind % 2]
            total = s + past
            columns = (3 * h,) if kind == 2 else ()
            inputs = [q(a, b, s, 5), q(w, 5, 3 * h), f(3 * h), number(positive()), positive(*columns) if columns else number(positive())]
            inputs += [masks(b, s, total, 1 if kind == 3 else 0), point(a), i(0, 9, *columns, dtype=w) if columns else point(w)]
            if past:
                inputs.append(f(2, b, heads, past, size))
            yield inputs, {"num_heads": heads, "unidirectional": kind % 2}, [1, int(past > 0)]


@cases("QGemm")
def quantised_gemm():
    for a, b in pairs():
        for kind in range(4):
            turned = kind % 2
            inputs = [q(a, 3, 6), number(positive()), point(a), q(b, 5, 6) if turned else q(b, 6, 5)]
            inputs += [positive(5), i(0, 5, 5, dtype=b)] if kind == 2 else [number(positive()), point(b)]
            inputs.append(i(-500, 500, 5) if kind else None)
            if kind != 1:
                inputs += [number(positive(low=0.5, high=2.0)), point(a)]
            yield inputs, {"transB": turned, "alpha": 1.0 if kind != 3 else 0.5}


@cases("QLinearConv")
def quantised_conv():
    for x, w in pairs()[:3]:
        for kind in range(4):
            group = 2 if kind == 2 else 1
            last = kind == 1
            value = q(x, 2, 5, 4, 4) if last else q(x, 2, 4, 5, 4)
            scale, weights = number(positive()), Known(q(w, 6, 4 // group, 3, 3))
            columns = kind == 3
            own = [Known(positive(6)), Known(np.zeros(6, w))] if columns else [number(positive()), Known(np.array(0 if w == np.int8 else 128, w))]
            inputs = [value, scale, point(x), weights] + own + [number(positive(low=0.5, high=2.0)), point(x)]
            if kind:
                inputs.append(i(-500, 500, 6))
            yield inputs, {"channels_last": int(last), "group": group, "kernel_shape": [3, 3], "pads": [1, 1, 0, 1], "strides": [1, 1 + kind % 2]}


@same(["QLinearAdd", "QLinearMul"])
def quantised_pair(name):
    for dtype in [np.uint8, np.int8]:
        for a, b in [((3, 4), (3, 4)), ((2, 3, 4), (4,)), ((5,), (1,)), ((2, 1, 3), (1, 4, 1)), ((1, 33), (1, 33)), ((4, 17), ())]:
            yield [q(dtype, *a), number(positive()), point(dtype), q(dtype, *b), number(positive()), point(dtype), number(positive(low=0.05, high=0.3)), point(dtype)], {}


def quantised_unary(dtype, *shape, out=(0.005, 0.05)):
    return [q(dtype, *shape), number(positive()), point(dtype), number(positive(low=out[0], high=out[1])), point(dtype)]


@same(["QLinearSigmoid", "QLinearLeakyRelu"])
def quantised_function(name):
    for dtype in [np.uint8, np.int8]:
        for shape in [(3, 4), (2, 3, 4), (5,), (64,), (256,), (1, 1, 7)]:
            yield quantised_unary(dtype, *shape), {"alpha": 0.2} if "Leaky" in name else {}


@cases("QLinearSoftmax")
def quantised_softmax():
    for dtype in [np.uint8, np.int8]:
        for shape, axis in [((3, 4), -1), ((2, 3, 4), -1), ((2, 3, 4), 1), ((5,), 0), ((1, 64), -1)]:
            for opset in [13, 11]:
                x = [q(dtype, *shape), number(positive(low=0.01, high=0.05)), point(dtype), number(1 / 256), np.array(0 if dtype == np.uint8 else -128, dtype)]
                yield [x[0]] + [Known(v) for v in x[1:]], {"axis": axis, "opset": opset}


@cases("QLinearConcat")
def quantised_concat():
    for dtype in [np.uint8, np.int8]:
        for axis, shapes in [(0, [(2, 3), (1, 3)]), (1, [(2, 3), (2, 4), (2, 1)]), (-1, [(2, 3, 4), (2, 3, 2)]), (1, [(1, 2, 3, 3), (1, 4, 3, 3)]), (0, [(5,), (3,)])]:
            inputs = [number(positive()), point(dtype)]
            for shape in shapes:
                inputs += [q(dtype, *shape), number(positive()), point(dtype)]
            yield inputs, {"axis": axis}


@cases("QLinearWhere")
def quantised_where():
    for dtype in [np.uint8, np.int8]:
        for c, a, b in [((3, 4), (3, 4), (3, 4)), ((4,), (2, 4), (1,)), ((2, 1, 3), (1, 4, 1), (2, 4, 3)), ((5,), (5,), (5,)), ((1,), (7,), (7,))]:
            yield [rng.integers(0, 2, size=c).astype(bool), q(dtype, *a), Known(number(positive())), Known(point(dtype)), q(dtype, *b), Known(number(positive())), Known(point(dtype)), Known(number(positive())), Known(point(dtype))], {}


@cases("QLinearAveragePool")
def quantised_pool():
    for dtype in [np.uint8, np.int8]:
        for kind in range(6):
            last = int(kind in (1, 4))
            shape = (2, 5, 6, 3) if last else (2, 3, 5, 6)
            attributes = {"kernel_shape": [[2, 2], [3, 3], [2, 3]][kind % 3], "channels_last": last, "strides": [1 + kind % 2, 2]}
            if kind >= 3:
                attributes.update(pads=[1, 0, 1, 1], count_include_pad=kind % 2)
            yield quantised_unary(dtype, *shape, out=(0.01, 0.1)), attributes


@cases("QLinearGlobalAveragePool")
def quantised_global_pool():
    for dtype in [np.uint8, np.int8]:
        for shape in [(1, 3, 4, 4), (2, 5, 3, 7), (1, 16, 7, 7)]:
            for last in [0, 1]:
                yield quantised_unary(dtype, *shape, out=(0.01, 0.1)), {"channels_last": last}


@cases("NhwcMaxPool")
def nhwc_pool():
    for dtype in [np.uint8, np.int8]:
        for kind in range(6):
            attributes = {"kernel_shape": [[2, 2], [3, 3], [2, 3]][kind % 3], "strides": [1 + kind % 2, 2]}
            if kind >= 3:
                attributes.update(pads=[1, 0, 1, 1], ceil_mode=kind % 2)
            yield [q(dtype, 2, 5, 6, 3)], attributes


@cases("MaxpoolWithMask")
def masked_pool():
    for kind in range(12):
        mask = np.ones((2, 3, 5, 6), np.int32)
        mask[:, :, :, 4:] = rng.integers(0, 2)
        attributes = {"kernel_shape": [[2, 2], [3, 3], [2, 3]][kind % 3], "strides": [1 + kind % 2, 2]}
        if kind >= 6:
            attributes.update(pads=[1, 0, 1, 1])
        yield [f(2, 3, 5, 6), mask], attributes


# --- movement ---


@cases("SampleOp")
def sample():
    for shape in [(1,), (2, 3), (4, 1), (2, 3, 4), (5,), (1, 1, 1), (7, 2), (3, 3), (12,), (2, 2, 2, 2)]:
        yield [f(*shape)], {}


@cases("ExpandDims")
def expand_dims():
    for shape in [(4,), (2, 3), (2, 3, 4)]:
        for axis in range(-len(shape) - 1, len(shape) + 1):
            yield [f(*shape), Known(np.array([axis], np.int32))], {}


@cases("Range")
def number_range():
    for dtype in [np.float32, np.int32, np.int64, np.int16, np.float64]:
        yield [Known(np.array(v, dtype)) for v in (1, 10, 3)], {}
        yield [Known(np.array(v, dtype)) for v in (7, 2, -2)], {}
        yield [Known(np.array(v, dtype)) for v in (0, 5)], {}


@cases("Unique")
def unique():
    for size in [1, 2, 5, 9, 17, 30, 3, 4, 8, 12]:
        yield [(i(-3, 4, size) * 0.5).astype(np.float32)], {}, [1, 1, 1]


@cases("UnfoldTensor")
def unfold():
    for shape in [(6,), (5, 7), (2, 8, 3)]:
        for axis in [-1, 0]:
            for size, step in [(2, 1), (1, 1), (2, 2)]:
                yield [f(*shape)], {"dim": axis, "size": size, "step": step}


@cases("Trilu")
def triangle():
    for shape in [(3, 3), (2, 3, 4), (4, 2)]:
        for upper in [0, 1]:
            yield [f(*shape)], {"upper": upper}
            yield [f(*shape), np.array(1, np.int64)], {"upper": upper}


@cases("GatherND")
def gather_nd():
    for shape, index in [((3, 4), (2, 2)), ((3, 4), (2, 1)), ((2, 3, 4), (3, 2)), ((2, 3, 4), (2, 2, 3)), ((5,), (3, 1))]:
        for dtype in [np.int32, np.int64]:
            yield [f(*shape), i(0, 2, *index, dtype=dtype)], {}


@cases("Pad")
def pad():
    for mode in ["constant", "reflect", "edge"]:
        for shape, pads in [((4,), [1, 2]), ((3, 4), [0, 1, 2, 1]), ((2, 3, 4), [0, 1, 1, 1, 1, 2]), ((3, 5), [1, 0, 0, 2])]:
            yield [f(*shape), Known(np.array(pads, np.int64))] + ([number(1.5)] if mode == "constant" else []), {"mode": mode}


@cases("GridSample")
def grid_sample():
    for mode in ["bilinear", "nearest", "bicubic"]:
        for padding in ["zeros", "border", "reflection"]:
            for aligned in [0, 1]:
                # Between the edge and the centre of an outer element kernels of cubics differ.
                far = 0.7 if (mode, padding) == ("bicubic", "border") else 1.1
                yield [f(1, 2, 4, 5), positive(1, 3, 2, 2, low=-far, high=far)], {"mode": mode, "padding_mode": padding, "align_corners": aligned}


@cases("CropAndResize")
def crop():
    for mode in ["bilinear", "nearest"]:
        for size in [[2, 3], [1, 1], [4, 2], [3, 1]]:
            for far in [False, True]:
                regions = np.sort(positive(3, 2, 2, low=-0.2 if far else 0.0, high=1.2 if far else 1.0), axis=1).reshape(3, 4)
                yield [f(2, 3, 6, 5), regions, i(0, 2, 3), Known(np.array(size, np.int32))], {"mode": mode, "extrapolation_value": 0.25}


@cases("NGramRepeatBlock")
def repeats():
    for size in [1, 2, 3]:
        for b, length in [(1, 8), (2, 6), (3, 12), (2, 2)]:
            yield [i(0, 3, b, length, dtype=np.int64), f(b, 4)], {"ngram_size": size}


@cases("NGramHashMapping")
def ngram_hashes():
    for dtype in [np.int32, np.int64]:
        for b, s, most, heads in [(1, 4, 2, 1), (2, 5, 3, 2), (1, 1, 4, 2)]:
            count = (most - 1) * heads
            for kind in range(3):
                inputs = [i(0, 99, b, s, dtype=dtype), i(1, 999, most, dtype=dtype), i(7, 101, count, dtype=dtype)]
                inputs += [[], [i(0, 99, b, most - 1, dtype=dtype)], [None, i(0, 500, count, dtype=dtype)]][kind]
                yield inputs, {"max_ngram_size": most, "n_head_per_ngram": heads, "pad_id": 3}, [1, 1]


@cases("VarlenNGramHashMapping")
def packed_ngram_hashes():
    for dtype in [np.int32, np.int64]:
        for lengths, most, heads in [([4], 2, 1), ([5, 1, 3], 3, 2), ([2, 1], 4, 2)]:
            count, batch = (most - 1) * heads, len(lengths)
            bounds = np.cumsum([0] + lengths).astype(np.int32)
            for kind in range(3):
                inputs = [i(0, 99, sum(lengths), dtype=dtype), i(1, 999, most, dtype=dtype), i(7, 101, count, dtype=dtype), bounds]
                inputs += [[], [i(0, 99, batch, most - 1, dtype=dtype)], [None, i(0, 500, count, dtype=dtype)]][kind]
                yield inputs, {"max_ngram_size": most, "n_head_per_ngram": heads, "pad_id": 3}, [1, 1]


# --- making the file ---


def proto(name, value):
    if isinstance(value, onnx.TensorProto):
        result = onnx.TensorProto()
        result.CopyFrom(value)
        result.name = name
        return result
    return numpy_helper.from_array(np.asarray(value), name)


def make(domain, name, label, inputs, attributes, wanted):
    """The model of a case with what is right, or none where ONNX Runtime refuses it."""
    names, tensors, sparse = [], [], {}
    for index, value in enumerate(inputs):
        if value is None:
            names.append("")
            continue
        if isinstance(value, Sparse):
            names.append(f"const_x{index}")
            sparse[names[-1]] = value
            continue
        known = isinstance(value, Known)
        names.append(("const_" if known else "x") + str(index))
        tensors.append(proto(names[-1], value.value if known else value))
    while names and not names[-1]:
        names.pop()
    outputs = [f"y{index}" if want else "" for index, want in enumerate(wanted)]
    while outputs and not outputs[-1]:
        outputs.pop()
    node = helper.make_node(name, names, outputs, domain=domain, **attributes)
    results = [output for output in outputs if output]
    fed = [tensor for tensor in tensors if not tensor.name.startswith("const_")]
    kept = [tensor for tensor in tensors if tensor.name.startswith("const_")]
    info = lambda tensor: helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))
    # The type of its last output follows from nothing.
    kind = TensorProto.FLOAT if name == "MultiHeadAttention" else TensorProto.UNDEFINED
    empty = [helper.make_tensor_value_info(output, kind, None) if kind else onnx.ValueInfoProto(name=output) for output in results]
    given = [info(tensor) for tensor in fed]
    read = given + [value.info(name) for name, value in sparse.items()]
    graph = helper.make_graph([node], label, read, empty, kept)
    sets = [helper.make_opsetid("", 21), helper.make_opsetid(MICROSOFT, 1)]
    model = helper.make_model(graph, opset_imports=sets, ir_version=10, producer_name="")
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    feed = {tensor.name: numpy_helper.to_array(tensor) for tensor in fed}
    if sparse:
        feed = {name: onnxruntime.OrtValue.ortvalue_from_numpy(array) for name, array in feed.items()}
        feed |= {name: value.fed() for name, value in sparse.items()}
        arrays = [value.numpy() for value in session.run_with_ort_values(results, feed)]
    else:
        arrays = session.run(results, feed)
    del graph.initializer[:], graph.input[:]
    graph.input.extend(given)
    graph.sparse_initializer.extend(value.proto(name) for name, value in sparse.items())
    graph.initializer.extend(tensors)
    graph.initializer.extend(proto(f"expected:{output}", array) for output, array in zip(results, arrays))
    model.graph.CopyFrom(graph)
    return model.SerializeToString()


def saved():
    """Models that ONNX Runtime has saved at level "all" on a machine whose blocks are of 16
    channels, with what it computes before."""
    for kind in range(14):
        channels, filters = [(3, 16), (3, 24), (16, 32), (24, 40), (20, 8), (8, 17), (32, 16)][kind % 7]
        x = f(2, channels, 9, 8)
        tensors, nodes = {"x": x}, []

        def node(name, *operands, **attributes):
            names = []
            for operand in operands:
                if not isinstance(operand, str):
                    tensors[f"w{len(tensors)}"] = operand
                    operand = f"w{len(tensors) - 1}"
                names.append(operand)
            nodes.append(helper.make_node(name, names, [f"v{len(nodes)}"], **attributes))
            return nodes[-1].output[0]

        value = node("Conv", "x", f(filters, channels, 3, 3, scale=0.2), f(filters), pads=[1, 1, 1, 1])
        value = node(["Relu", "Sigmoid", "Tanh", "LeakyRelu"][kind % 4], value)
        if kind % 3 == 0:
            value = node("MaxPool", value, kernel_shape=[2, 2], strides=[2, 2])
        if kind % 3 == 1:
            value = node("AveragePool", value, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        other = node("Conv", value, f(filters, 1, 3, 3, scale=0.2), f(filters), group=filters, pads=[1, 1, 1, 1])
        value = node("Relu", node("Add", node("Conv", other, f(filters, filters, 1, 1, scale=0.2)), value))
        if kind % 5 == 1:
            value = node("Resize", value, "", np.array([1, 1, 2, 2], np.float32), mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")
            value = node("Conv", value, f(4, filters, 1, 1, scale=0.2))
        if kind % 5 in (2, 3):
            value = node(["GlobalAveragePool", "GlobalMaxPool"][kind % 2], value)
        graph = helper.make_graph(nodes, f"saved {kind}", [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)], [onnx.ValueInfoProto(name=value)])
        graph.initializer.extend(proto(name, tensor) for name, tensor in tensors.items() if name != "x")
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
        options = onnxruntime.SessionOptions()
        options.log_severity_level, options.intra_op_num_threads = 4, 1
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        run = lambda: onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
        right = run().run(None, {"x": x})[0]
        with tempfile.TemporaryDirectory() as folder:
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
            options.optimized_model_filepath = folder + "/saved.onnx"
            run()
            optimised = onnx.load(options.optimized_model_filepath)
        del optimised.graph.value_info[:]
        for tensor in optimised.graph.initializer:
            tensor.name = "const_" + tensor.name
        for node in optimised.graph.node:
            known = {tensor.name for tensor in optimised.graph.initializer}
            for place, name in enumerate(node.input):
                node.input[place] = "const_" + name if "const_" + name in known else name
        optimised.graph.initializer.append(proto("x", x))
        optimised.graph.initializer.append(proto(f"expected:{value}", right))
        optimised.producer_name = optimised.producer_version = ""
        optimised.graph.name = f"saved {kind}"
        yield optimised


def main():
    global rng
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    written, counts = bytearray(), collections.Counter()
    for (domain, name), build in BUILDERS.items():
        if arguments.names and name not in arguments.names:
            continue
        rng = np.random.default_rng(zlib.crc32(name.encode()))
        for index, case in enumerate(build()):
            inputs, attributes, wanted = case if len(case) == 3 else (*case, [1])
            label = f"{name} {index}"
            try:
                model = make(domain, name, label, inputs, attributes, wanted)
            except Exception as reason:
                print(f"refused: {label} {attributes}: {str(reason).splitlines()[0]}", file=sys.stderr)
                continue
            counts[name] += 1
            written += struct.pack("<I", len(model)) + model
    if not arguments.names:
        rng = np.random.default_rng(0)
        for model in saved():
            counts.update(["saved"])
            model = model.SerializeToString()
            written += struct.pack("<I", len(model)) + model
    arguments.out.write_bytes(written)
    few = {name: counts[name] for _, name in BUILDERS if counts[name] < 10}
    print(f"{sum(counts.values())} cases of {len(counts)} operators, {len(written)} bytes; fewer than 10: {few}")


if __name__ == "__main__":
    main()

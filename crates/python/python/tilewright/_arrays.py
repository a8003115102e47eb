"""Arrays as the compiler takes and gives them.

NumPy has no type for bfloat16, the 8-bit floats, and numbers of fewer than 8 bits. Where the package
``ml_dtypes`` is installed, such values are arrays of its types. Elsewhere outputs of 8 bits and more
are their bits, as ``uint16`` and ``uint8``, and smaller integers are widened to ``int8`` and
``uint8``; inputs may be given in either form at any time. Nothing is rounded in either direction.
"""

import array

import numpy as np

# The compiler's names of element types, and NumPy's.
NATIVE = {
    "f64": "float64", "f32": "float32", "f16": "float16",
    "i64": "int64", "i32": "int32", "i16": "int16", "i8": "int8",
    "u64": "uint64", "u32": "uint32", "u16": "uint16", "u8": "uint8",
    "bool": "bool",
}  # fmt: skip
_NAMES = {np.dtype(name): own for own, name in NATIVE.items()}

# Those that ml_dtypes has, with the bits of an element.
EXTENDED = {
    "bf16": ("bfloat16", 16),
    "f8e4m3fn": ("float8_e4m3fn", 8), "f8e4m3fnuz": ("float8_e4m3fnuz", 8),
    "f8e3m4": ("float8_e3m4", 8), "f8e4m3": ("float8_e4m3", 8),
    "f8e4m3b11fnuz": ("float8_e4m3b11fnuz", 8),
    "f8e5m2": ("float8_e5m2", 8), "f8e5m2fnuz": ("float8_e5m2fnuz", 8),
    "f8e8m0": ("float8_e8m0fnu", 8), "f6e2m3": ("float6_e2m3fn", 8),
    "f6e3m2": ("float6_e3m2fn", 8), "f4e2m1": ("float4_e2m1fn", 4),
    "i4": ("int4", 4), "u4": ("uint4", 4), "i2": ("int2", 2), "u2": ("uint2", 2),
}  # fmt: skip
_EXTENDED_NAMES = {name: own for own, (name, _) in EXTENDED.items()}


def extended_dtype(name):
    """The type of ``ml_dtypes`` for one that NumPy lacks; none where the package is missing."""
    try:
        import ml_dtypes
    except ImportError:
        return None
    found = getattr(ml_dtypes, EXTENDED[name][0], None)
    return None if found is None else np.dtype(found)


def name_of(dtype):
    """The compiler's name of a NumPy type; none where it has no such type."""
    return _NAMES.get(dtype) or _EXTENDED_NAMES.get(dtype.name)


def _refuse(argument, value, reason):
    raise TypeError(f"input {argument!r}: {reason} (given: {type(value).__module__}."
                    f"{type(value).__qualname__})")


def _of_torch(value, argument):
    """The array that shares a dense tensor's memory on the CPU."""
    kind = str(value.layout)
    if kind != "torch.strided" or getattr(value, "is_nested", False):
        what = "nested" if getattr(value, "is_nested", False) else "sparse"
        _refuse(argument, value, f"a {what} tensor is not dense; give `tensor.to_dense()` or a "
                "padded tensor")
    if value.device.type != "cpu":
        _refuse(argument, value, f"the tensor is on {value.device}; give `tensor.cpu()`")
    if value.is_quantized:
        _refuse(argument, value, "the tensor is quantised; give `tensor.int_repr()`")
    value = value.detach().resolve_conj().resolve_neg()
    try:
        return value.numpy()
    except TypeError:
        name = str(value.dtype).rpartition(".")[2]
        bits = {1: "uint8", 2: "uint16"}.get(value.element_size())
        if name not in _EXTENDED_NAMES or bits is None:
            _refuse(argument, value, f"there is no element type like {value.dtype}")
        import torch

        return _Bits(value.contiguous().view(getattr(torch, bits)).numpy(), _EXTENDED_NAMES[name])


class _Bits:
    """Elements of a type that NumPy lacks, as their bits."""

    def __init__(self, array, name):
        self.array, self.name = array, name


def _array(value, argument, wanted):
    """A NumPy array of a value, sharing its memory where that can be."""
    if isinstance(value, np.ndarray):
        return value
    if type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "layout"):
        return _of_torch(value, argument)
    if hasattr(value, "numpy_value"):
        return value.numpy_value()
    is_buffer = isinstance(value, (memoryview, array.array))
    if is_buffer or hasattr(value, "__array_interface__") or hasattr(value, "__array__"):
        return np.asarray(value)
    if hasattr(value, "__dlpack__"):
        try:
            return np.from_dlpack(value)
        except (BufferError, RuntimeError, TypeError) as error:
            _refuse(argument, value, f"its memory cannot be shared: {error}")
    if isinstance(value, (bool, int, float, str, list, tuple, np.generic)):
        try:
            made = np.asarray(value)
        except ValueError as error:
            _refuse(argument, value, f"no array can be made of it: {error}")
        # Numbers of Python have no width; they take the one that is declared.
        if not isinstance(value, np.generic) and wanted in NATIVE and made.dtype.kind in "iufb":
            return _exactly(made, np.dtype(NATIVE[wanted]), argument, value)
        return made
    _refuse(argument, value, "it is no array")


def _exactly(array, dtype, argument, value):
    kinds = {"b": 0, "u": 1, "i": 1, "f": 2}
    if kinds[array.dtype.kind] > kinds[dtype.kind]:
        _refuse(argument, value, f"its numbers are not of type {dtype}")
    if dtype.kind in "iu" and array.size:
        bounds = np.iinfo(dtype)
        if array.min() < bounds.min or array.max() > bounds.max:
            _refuse(argument, value, f"its numbers do not fit {dtype}")
    return array.astype(dtype)


def _texts(array, argument):
    """The strings of an array, behind each other."""
    def text(it):
        if isinstance(it, bytes):
            return it.decode("utf-8")
        if isinstance(it, str):
            return it
        _refuse(argument, it, "an element of an array of strings is no string")

    return [text(it) for it in array.ravel().tolist()]


def _packed(array, bits):
    """Elements of fewer than 8 bits, the first in the lowest bits of a byte."""
    each = 8 // bits
    flat = array.astype(np.uint8).ravel() & ((1 << bits) - 1)
    flat = np.concatenate([flat, np.zeros(-len(flat) % each, np.uint8)]).reshape(-1, each)
    return np.bitwise_or.reduce(flat << np.arange(0, 8, bits, dtype=np.uint8), axis=1)


def prepare(value, argument, wanted):
    """A value for an input as element type, shape, and a contiguous array or a list of strings."""
    array = _array(value, argument, wanted)
    if isinstance(array, _Bits):
        return array.name, array.array.shape, array.array
    if isinstance(array, np.ma.MaskedArray):
        _refuse(argument, value, "a masked array is not dense; give `array.filled(..)`")
    dtype = array.dtype
    if dtype.kind in "OUST" and (wanted in (None, "string") or dtype.kind != "O"):
        return "string", array.shape, _texts(array, argument)
    if not dtype.isnative:
        array = array.astype(dtype.newbyteorder("="))
        dtype = array.dtype
    name = name_of(dtype)
    if wanted in EXTENDED and name in ("u8", "i8", "u16"):
        bits = EXTENDED[wanted][1]
        # Bits of a wider type, or integers that are to be narrowed.
        if bits == 8 * dtype.itemsize or (bits < 8 and dtype.itemsize == 1):
            name = wanted
    if name is None:
        _refuse(argument, value, f"there is no element type like {dtype}")
    shape = array.shape
    if name in EXTENDED:
        bits = EXTENDED[name][1]
        if bits < 8:
            if dtype.kind == "V" or dtype.name in _EXTENDED_NAMES:
                widened = np.uint8 if name == "f4e2m1" else np.int8
                array = array.view(np.uint8) if name == "f4e2m1" else array.astype(widened)
            return name, shape, _packed(array, bits)
        array = np.ascontiguousarray(array).view(np.uint16 if bits == 16 else np.uint8)
    # `ascontiguousarray` makes an axis for a number without any.
    return name, shape, np.ascontiguousarray(array).reshape(shape)


def present(elements, name, shape):
    """What a caller gets for elements of a type that NumPy lacks, or for strings."""
    if name == "string":
        array = np.empty(len(elements), object)
        array[:] = elements
        return array.reshape(shape)
    dtype, bits = extended_dtype(name), EXTENDED[name][1]
    if bits < 8:
        count = int(np.prod(shape, dtype=np.int64))
        lanes = elements[:, None] >> np.arange(0, 8, bits, dtype=np.uint8) & ((1 << bits) - 1)
        elements = lanes.astype(np.uint8).ravel()[:count].reshape(shape)
        if name.startswith("i"):
            top = 1 << (bits - 1)
            elements = ((elements ^ top).astype(np.int8) - np.int8(top)).astype(np.int8)
        if dtype is None:
            return elements
        return elements.view(dtype) if name == "f4e2m1" else elements.astype(dtype)
    return elements if dtype is None else elements.view(dtype)

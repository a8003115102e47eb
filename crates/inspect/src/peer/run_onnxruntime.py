"""Runs a model with onnxruntime: run_onnxruntime.py FOLDER MODEL optimised|plain

Reads values input_0, input_1 and so on from the folder and writes output_0, output_1 and so on,
and its version, there. The value of a name is one of
    NAME.npy        a tensor
    NAME.TYPE.npy   a tensor of a type that NumPy lacks: unsigned integers of the tensor's shape,
                    whose memory begins with the tensor's bytes
    NAME.list       a folder of values 0, 1 and so on
    NAME.map        a folder of keys.npy and values.npy, vectors
    NAME.maps       the same of a list of maps with the same keys: values.npy has a row a map
    NAME.none       an optional value that is absent
Exit status: 69 where a package is missing; 1 where onnxruntime refuses, which says why.
"""

import ctypes
import pathlib
import re
import sys

try:
    import numpy
    import onnxruntime
except ImportError as error:
    print(error, file=sys.stderr)
    sys.exit(69)

# For each type that NumPy lacks: its name in ONNX, its number there, and what holds its bits.
BITS = {
    "bf16": ("bfloat16", 16, numpy.uint16),
    "f8e4m3fn": ("float8e4m3fn", 17, numpy.uint8),
    "f8e4m3fnuz": ("float8e4m3fnuz", 18, numpy.uint8),
    "f8e5m2": ("float8e5m2", 19, numpy.uint8),
    "f8e5m2fnuz": ("float8e5m2fnuz", 20, numpy.uint8),
    "u4": ("uint4", 21, numpy.uint8),
    "i4": ("int4", 22, numpy.uint8),
    "f4e2m1": ("float4e2m1", 23, numpy.uint8),
    "f8e8m0": ("float8e8m0", 24, numpy.uint8),
    "u2": ("uint2", 25, numpy.uint8),
    "i2": ("int2", 26, numpy.uint8),
}
OURS = {f"tensor({name})": ours for ours, (name, _, _) in BITS.items()}
NUMBERS = {"float": numpy.float32, "double": numpy.float64}


def load(path):
    array = numpy.load(path)
    return array.astype(object) if array.dtype.kind == "U" else array


def save(path, array):
    array = numpy.asarray(array)
    numpy.save(path, array.astype(str) if array.dtype.kind in "OSU" else array)


def read(folder, name):
    """The value of a name, as onnxruntime takes it."""
    for path in folder.glob(f"{name}.*"):
        kind = path.name[len(name) + 1 :]
        if kind == "npy":
            return load(path)
        if kind == "none":
            return None
        if kind == "list":
            return [read(path, str(number)) for number in range(len(list(path.iterdir())))]
        if kind in ("map", "maps"):
            keys, values = load(path / "keys.npy").tolist(), load(path / "values.npy").tolist()
            rows = [values] if kind == "map" else values
            maps = [dict(zip(keys, row)) for row in rows]
            return maps[0] if kind == "map" else maps
        _, number, _ = BITS[kind.removesuffix(".npy")]
        make = onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type
        return make(numpy.load(path), number)
    raise ValueError(f"there is no value for {name}")


def write(folder, name, declared, value):
    """Writes a value of a type that the session declares."""
    if value is None:
        (folder / f"{name}.none").touch()
    elif isinstance(value, onnxruntime.OrtValue):
        ours = OURS[value.data_type()]
        array = numpy.zeros(value.shape(), BITS[ours][2])
        bits = ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes())
        array.reshape(-1).view(numpy.uint8)[: len(bits)] = numpy.frombuffer(bits, numpy.uint8)
        save(folder / f"{name}.{ours}.npy", array)
    elif isinstance(value, dict) or "map(" in declared:
        # Python's numbers have lost their type.
        key, number = re.search(r"map\((\w+),tensor\((\w+)\)\)", declared).groups()
        maps = [value] if isinstance(value, dict) else value
        keys = list(maps[0]) if maps else []
        rows = [[row[key] for key in keys] for row in maps]
        place = folder / f"{name}.{'map' if isinstance(value, dict) else 'maps'}"
        place.mkdir()
        save(place / "keys.npy", numpy.array(keys, str if key == "string" else numpy.int64))
        numbers = numpy.array(rows, NUMBERS.get(number, number)).reshape(len(maps), len(keys))
        save(place / "values.npy", numbers[0] if isinstance(value, dict) else numbers)
    elif isinstance(value, list):
        place = folder / f"{name}.list"
        place.mkdir()
        for number, element in enumerate(value):
            write(place, str(number), declared, element)
    else:
        save(folder / f"{name}.npy", value)


def outputs_of(session, feeds):
    """What a session gives, in order: of types that NumPy lacks as values of onnxruntime's own."""
    outputs = session.get_outputs()
    bits = [output.name for output in outputs if output.type in OURS]
    others = [output.name for output in outputs if output.type not in OURS]
    values = dict(zip(others, session.run(others, feeds))) if others else {}
    if bits:
        own = onnxruntime.OrtValue
        for name, value in feeds.items():
            feeds[name] = value if isinstance(value, own) else own.ortvalue_from_numpy(value)
        values.update(zip(bits, session.run_with_ort_values(bits, feeds)))
    return [(output.type, values[output.name]) for output in outputs]


def main(folder, model, how):
    folder = pathlib.Path(folder)
    (folder / "version").write_text(onnxruntime.__version__)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    if how == "plain":
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    inputs = enumerate(session.get_inputs())
    feeds = {declared.name: read(folder, f"input_{number}") for number, declared in inputs}
    for number, (declared, value) in enumerate(outputs_of(session, feeds)):
        write(folder, f"output_{number}", declared, value)


try:
    main(*sys.argv[1:])
except Exception as error:
    sys.exit(f"{type(error).__name__}: {error}")

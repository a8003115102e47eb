"""What ``onnxruntime`` has, on this compiler: change the import, keep the program.

There are ``InferenceSession`` with ``run``, ``run_with_iobinding`` and ``get_*``, ``IOBinding`` and
``OrtValue`` on the CPU, ``SessionOptions``, ``RunOptions`` and their enumerations. Of the options,
``intra_op_num_threads`` and ``add_free_dimension_override_by_name`` do what they say; others are
accepted, and a warning says once which of those that were set mean nothing here. The only provider is
``CPUExecutionProvider``; asking for others as well is no mistake, as in a build of ONNX Runtime that
lacks them. Custom operator libraries are refused.
"""

import enum
import os
import warnings

import numpy as np

from . import _native
from ._arrays import NATIVE, name_of
from ._errors import InputError
from ._model import compile as compile_model
from ._model import model_argument

_PROVIDER = "CPUExecutionProvider"

# The names of element types in `NodeArg.type`.
_TYPES = {
    "f64": "double", "f32": "float", "f16": "float16", "bf16": "bfloat16",
    "f8e4m3fn": "float8e4m3fn", "f8e4m3fnuz": "float8e4m3fnuz", "f8e5m2": "float8e5m2",
    "f8e5m2fnuz": "float8e5m2fnuz", "f8e3m4": "float8e3m4", "f8e4m3": "float8e4m3",
    "f8e4m3b11fnuz": "float8e4m3b11fnuz", "f8e8m0": "float8e8m0",
    "f6e2m3": "float6e2m3", "f6e3m2": "float6e3m2", "f4e2m1": "float4e2m1",
    "i64": "int64", "i32": "int32", "i16": "int16", "i8": "int8", "i4": "int4", "i2": "int2",
    "u64": "uint64", "u32": "uint32", "u16": "uint16", "u8": "uint8", "u4": "uint4", "u2": "uint2",
    "bool": "bool", "string": "string",
}  # fmt: skip

_said = set()


def _say_once(what):
    if what not in _said:
        _said.add(what)
        warnings.warn(f"tilewright: {what}", stacklevel=3)


class GraphOptimizationLevel(enum.IntEnum):
    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(enum.IntEnum):
    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(enum.IntEnum):
    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2


class SessionOptions:
    """Options of a session. See the head of this module for those that mean something here."""

    _DEFAULTS = {
        "intra_op_num_threads": 0,
        "inter_op_num_threads": 0,
        "graph_optimization_level": GraphOptimizationLevel.ORT_ENABLE_ALL,
        "execution_mode": ExecutionMode.ORT_SEQUENTIAL,
        "execution_order": ExecutionOrder.DEFAULT,
        "enable_cpu_mem_arena": True,
        "enable_mem_pattern": True,
        "enable_mem_reuse": True,
        "enable_profiling": False,
        "log_severity_level": -1,
        "log_verbosity_level": 0,
        "logid": "",
        "optimized_model_filepath": "",
        "profile_file_prefix": "onnxruntime_profile_",
        "use_deterministic_compute": False,
        "use_per_session_threads": True,
    }
    # Those whose meaning holds whatever they say: results are the same on every run, and messages
    # are exceptions or warnings.
    _SILENT = {
        "intra_op_num_threads", "use_deterministic_compute", "log_severity_level",
        "log_verbosity_level", "logid", "profile_file_prefix",
    }  # fmt: skip

    def __init__(self):
        self.__dict__.update(self._DEFAULTS)
        self._dims, self._entries = {}, {}

    def __setattr__(self, name, value):
        if name not in self._DEFAULTS and not name.startswith("_"):
            raise AttributeError(f"SessionOptions has no option {name!r}")
        if name.endswith("_num_threads") and int(value) < 0:
            raise InputError(f"{name}: expected 0 or more threads, not {value}")
        self.__dict__[name] = value

    def add_free_dimension_override_by_name(self, dim_name, dim_value):
        self._dims[dim_name] = int(dim_value)

    def add_free_dimension_override_by_denotation(self, denotation, dim_value):
        _say_once("denotations of dimensions mean nothing here; give the dimension's name")

    def add_session_config_entry(self, key, value):
        self._entries[key] = value

    def get_session_config_entry(self, key):
        try:
            return self._entries[key]
        except KeyError:
            raise RuntimeError(f"SessionOptions does not have configuration with key: {key}") from None

    def has_providers(self):
        return False

    def register_custom_ops_library(self, path):
        raise InputError(
            f"custom operators: {os.fspath(path)} holds code for onnxruntime, which cannot be "
            "compiled; write the operator as a function of the model"
        )

    def _ignored(self):
        changed = (
            name
            for name, usual in self._DEFAULTS.items()
            if name not in self._SILENT and self.__dict__[name] != usual
        )
        return sorted([*changed, *(f"entry {key}" for key in self._entries)])


class RunOptions:
    """Options of a run. None changes what is computed; ``terminate`` refuses the next run."""

    def __init__(self):
        self.log_severity_level = 2
        self.log_verbosity_level = 0
        self.logid = ""
        self.only_execute_path_to_fetches = False
        self.terminate = False
        self.training_mode = False
        self._entries = {}

    def add_run_config_entry(self, key, value):
        self._entries[key] = value

    def get_run_config_entry(self, key):
        return self._entries[key]


class NodeArg:
    """An input or output: ``name``, ``shape`` of integers and names, ``type`` as text."""

    def __init__(self, port):
        self.name = port.name
        self.shape = [None if extent is None else extent for extent in port.shape]
        self.type = self._type(port.kind, port.dtype)

    @staticmethod
    def _type(kind, dtype):
        word, _, held = kind.partition(" ")
        tensor = f"tensor({_TYPES.get(dtype, 'float')})"
        if word == "tensor":
            return tensor
        if word == "sequence":
            return f"seq({NodeArg._type(held, dtype)})"
        if word == "optional":
            return f"optional({NodeArg._type(held, dtype)})"
        numbers = f"map(int64,{tensor})"
        return f"seq({numbers})" if word == "maps" else numbers

    def __repr__(self):
        return f"NodeArg(name={self.name!r}, type={self.type!r}, shape={self.shape!r})"

    __str__ = __repr__


class ModelMetadata:
    """What a model file says of itself."""

    def __init__(self, rows):
        self.producer_name = rows["producer_name"]
        self.graph_name = rows["graph_name"]
        self.graph_description = rows["graph_description"]
        self.domain = rows["domain"]
        self.description = rows["description"]
        self.version = rows["version"]
        self.custom_metadata_map = rows["custom_metadata_map"]


class OrtDevice:
    """Where memory is: on the CPU."""

    def __init__(self, device_type="cpu", device_id=0):
        self._type, self._id = _cpu(device_type, "device"), device_id

    @staticmethod
    def make(device_type, device_id=0):
        return OrtDevice(device_type, device_id)

    def device_type(self):
        return self._type

    def device_id(self):
        return self._id


def _cpu(device_type, argument):
    name = str(device_type).lower()
    if not name.startswith("cpu"):
        raise InputError(f"{argument}: memory is on the CPU here, not on {device_type!r}")
    return "cpu"


class OrtValue:
    """A value on the CPU. One made of an array shares the array's memory."""

    def __init__(self, value):
        self._value = value

    @staticmethod
    def ortvalue_from_numpy(array, device_type="cpu", device_id=0):
        _cpu(device_type, "device_type")
        return OrtValue(np.asarray(array))

    @staticmethod
    def ortvalue_from_shape_and_type(shape, element_type=np.float32, device_type="cpu", device_id=0):
        _cpu(device_type, "device_type")
        return OrtValue(np.zeros(tuple(shape), element_type))

    def numpy(self):
        return self._value

    numpy_value = numpy

    def shape(self):
        return list(self._value.shape)

    def data_type(self):
        return f"tensor({_TYPES.get(name_of(self._value.dtype), 'string')})"

    def element_type(self):
        return _element_number(self._value.dtype)

    def data_ptr(self):
        return self._value.ctypes.data

    def device_name(self):
        return "cpu"

    def has_value(self):
        return self._value is not None

    def is_tensor(self):
        return isinstance(self._value, np.ndarray)

    def is_tensor_sequence(self):
        return isinstance(self._value, list)

    def is_sparse_tensor(self):
        return False

    def update_inplace(self, array):
        np.copyto(self._value, array, casting="no")

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self._value, dtype)


# Element types by their numbers in ONNX.
_NUMBERS = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64",
    9: "bool", 10: "float16", 11: "float64", 12: "uint32", 13: "uint64",
}  # fmt: skip


def _element_number(dtype):
    name = NATIVE.get(name_of(dtype))
    return next((number for number, it in _NUMBERS.items() if it == name), 0)


def _numpy_type(element_type, argument):
    if isinstance(element_type, int) and not isinstance(element_type, bool):
        if element_type not in _NUMBERS:
            raise InputError(f"{argument}: element type {element_type} has no NumPy type")
        return np.dtype(_NUMBERS[element_type])
    return np.dtype(element_type)


def _memory(address, shape, dtype, argument):
    """An array over memory that the caller owns and keeps while it is bound."""
    if not address:
        raise InputError(f"{argument}: the buffer's address is 0")
    interface = {
        "data": (int(address), False), "shape": tuple(shape), "typestr": dtype.str, "version": 3,
    }  # fmt: skip
    holder = type("Buffer", (), {"__array_interface__": interface})()
    return np.asarray(holder)


class IOBinding:
    """Inputs and outputs that stay bound from run to run.

    Inputs are converted once and read where they are. Outputs that are bound to no memory keep one
    of their own from run to run while nobody holds an array of it; those bound to a caller's memory
    are copied there after each run.
    """

    def __init__(self, session):
        self._session = session
        self._inputs, self._outputs = {}, {}
        self._changed, self._plain, self._results = True, False, None
        self._native = _native.Binding(session._native)

    def bind_cpu_input(self, name, array_on_cpu):
        self._bind(name, np.asarray(array_on_cpu))

    def bind_ortvalue_input(self, name, ortvalue):
        self._bind(name, ortvalue.numpy())

    def bind_input(self, name, device_type, device_id, element_type, shape, buffer_ptr):
        _cpu(device_type, f"input {name!r}")
        dtype = _numpy_type(element_type, f"input {name!r}")
        self._bind(name, _memory(buffer_ptr, shape, dtype, f"input {name!r}"))

    def _bind(self, name, value):
        if name not in self._session._input_names:
            raise InputError(
                f"the model has no input {name!r}; its inputs are "
                f"{', '.join(self._session._input_names)}"
            )
        self._inputs[name], self._changed = value, True

    def bind_output(
        self, name, device_type="cpu", device_id=0, element_type=None, shape=None, buffer_ptr=None
    ):
        _cpu(device_type, f"output {name!r}")
        target = None
        if buffer_ptr:
            dtype = _numpy_type(element_type, f"output {name!r}")
            target = _memory(buffer_ptr, shape, dtype, f"output {name!r}")
        self._bind_output(name, target)

    def bind_ortvalue_output(self, name, ortvalue):
        self._bind_output(name, ortvalue.numpy())

    def _bind_output(self, name, target):
        self._session._number(name)
        self._outputs[name] = target
        self._bind_targets()

    def _bind_targets(self):
        held = [(name, it) for name, it in self._outputs.items() if it is not None]
        self._native.bind_targets([(self._session._number(name), it) for name, it in held])

    def clear_binding_inputs(self):
        self._inputs, self._changed = {}, True

    def clear_binding_outputs(self):
        self._outputs, self._results = {}, None
        self._bind_targets()

    def synchronize_inputs(self):
        """Nothing: memory is on the CPU."""

    synchronize_outputs = synchronize_inputs

    def _run(self):
        session = self._session
        if self._changed:
            self._plain = session._all_tensors and len(self._inputs) == len(session._input_names)
            if self._plain:
                self._native.bind(self._inputs)
            self._changed = False
        self._results = None
        if self._plain:
            if not self._native.run():
                return
        else:
            self._results = session._native.run(self._inputs)
        for name, target in self._outputs.items():
            if target is not None:
                self._fill(name, target, self._all()[session._number(name)])

    def _fill(self, name, target, result):
        if target.shape != result.shape or target.dtype.itemsize != result.dtype.itemsize:
            raise InputError(
                f"output {name!r}: it is {result.dtype}{list(result.shape)}, the memory bound for it "
                f"is {target.dtype}{list(target.shape)}"
            )
        np.copyto(target, result)

    def _all(self):
        if self._results is None:
            self._results = self._native.outputs()
        return self._results

    def get_outputs(self):
        """The outputs that are bound, in the order in which they were."""
        return [
            OrtValue(self._all()[self._session._number(name)] if target is None else target)
            for name, target in self._outputs.items()
        ]

    def copy_outputs_to_cpu(self):
        return [value.numpy() for value in self.get_outputs()]


class InferenceSession:
    """A compiled model as ``onnxruntime.InferenceSession`` has it."""

    def __init__(
        self, path_or_bytes, sess_options=None, providers=None, provider_options=None, **kwargs
    ):
        if sess_options is not None and not isinstance(sess_options, SessionOptions):
            raise TypeError(
                "sess_options: expected tilewright.SessionOptions, not "
                f"{type(sess_options).__module__}.{type(sess_options).__qualname__}"
            )
        self._sess_options = sess_options or SessionOptions()
        for name in self._sess_options._ignored():
            _say_once(f"the session option {name} means nothing here")
        for name in kwargs:
            _say_once(f"the argument {name} of InferenceSession means nothing here")
        self._check_providers(providers)
        self.model = compile_model(
            model_argument(path_or_bytes),
            threads=self._sess_options.intra_op_num_threads or None,
            dims=self._sess_options._dims,
        )
        self._native = self.model._native
        self._input_names = [port.name for port in self.model.inputs]
        self._output_names = [port.name for port in self.model.outputs]
        self._numbers = {name: number for number, name in enumerate(self._output_names)}
        ports = [*self.model.inputs, *self.model.outputs]
        self._all_tensors = all(port.kind == "tensor" for port in ports)

    @staticmethod
    def _check_providers(providers):
        names = [it if isinstance(it, str) else it[0] for it in providers or ()]
        for name in names:
            if name != _PROVIDER:
                _say_once(f"there is no {name}; models run on the CPU")

    def get_inputs(self):
        return [NodeArg(port) for port in self.model.inputs]

    def get_outputs(self):
        return [NodeArg(port) for port in self.model.outputs]

    def get_overridable_initializers(self):
        return []

    def get_modelmeta(self):
        return ModelMetadata(self._native.metadata())

    def get_providers(self):
        return [_PROVIDER]

    def get_provider_options(self):
        return {_PROVIDER: {}}

    def get_session_options(self):
        return self._sess_options

    def set_providers(self, providers=None, provider_options=None):
        self._check_providers(providers)

    def disable_fallback(self):
        """Nothing: there is one provider."""

    enable_fallback = disable_fallback

    def end_profiling(self):
        _say_once("profiling of sessions means nothing here; `session.model.explain()` has times")
        return ""

    def _number(self, name):
        try:
            return self._numbers[name]
        except KeyError:
            raise InputError(
                f"the model has no output {name!r}; its outputs are {', '.join(self._output_names)}"
            ) from None

    def run(self, output_names, input_feed, run_options=None):
        """The outputs of these names, or all, for inputs by name."""
        if run_options is not None and run_options.terminate:
            raise RuntimeError("the run is ended: terminate is set in its options")
        if not isinstance(input_feed, dict):
            input_feed = dict(input_feed)
        wanted = [self._number(name) for name in output_names] if output_names else None
        return self._native.run(input_feed, wanted)

    def run_with_ort_values(self, output_names, input_dict_ort_values, run_options=None):
        feed = {name: value.numpy() for name, value in input_dict_ort_values.items()}
        return [OrtValue(value) for value in self.run(output_names, feed, run_options)]

    def run_async(self, output_names, input_feed, callback, user_data, run_options=None):
        """Runs on a thread of its own, which calls ``callback(outputs, user_data, error)``."""
        import threading

        def work():
            try:
                outputs, said = self.run(output_names, input_feed, run_options), ""
            except Exception as error:
                outputs, said = [], str(error)
            callback(outputs, user_data, said)

        threading.Thread(target=work).start()

    def io_binding(self):
        return IOBinding(self)

    def run_with_iobinding(self, iobinding, run_options=None):
        iobinding._run()


def get_available_providers():
    return [_PROVIDER]


get_all_providers = get_available_providers


def get_device():
    return "CPU"


def set_default_logger_severity(severity):
    """Nothing: what is wrong is an exception."""


def set_default_logger_verbosity(verbosity):
    """Nothing, as above."""


def set_seed(seed):
    _say_once("seeds mean nothing here: random operators draw by their own `seed` attributes")


def disable_telemetry_events():
    """Nothing: there is no telemetry."""


enable_telemetry_events = disable_telemetry_events


def get_version_string():
    return _native.__version__


def get_build_info():
    return f"tilewright {_native.__version__}"

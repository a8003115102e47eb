"""Tilewright compiles machine-learning models to machine code, and runs them.

>>> import numpy, tilewright
>>> model = tilewright.compile("model.onnx")
>>> scores = model(numpy.zeros((1, 1, 8, 8), numpy.float32))

``tilewright.InferenceSession`` stands in for ``onnxruntime.InferenceSession``: see
:mod:`tilewright._session` for what is there.
"""

from . import _native
from ._errors import (
    Diagnostic,
    Error,
    FileError,
    InputError,
    InternalError,
    ModelError,
    RunError,
    TargetError,
)
from ._model import CompiledModel, Port, compile
from ._reports import Difference, Explanation, KernelRow, Measurement, Report
from ._session import (
    ExecutionMode,
    ExecutionOrder,
    GraphOptimizationLevel,
    InferenceSession,
    IOBinding,
    ModelMetadata,
    NodeArg,
    OrtDevice,
    OrtValue,
    RunOptions,
    SessionOptions,
    get_all_providers,
    get_available_providers,
    get_device,
    set_default_logger_severity,
    set_default_logger_verbosity,
    set_seed,
)

__version__ = _native.__version__
runs_here = _native.runs_here

__all__ = [
    "CompiledModel", "Diagnostic", "Difference", "Error", "ExecutionMode", "ExecutionOrder",
    "Explanation", "FileError", "GraphOptimizationLevel", "IOBinding", "InferenceSession",
    "InputError", "InternalError", "KernelRow", "Measurement", "ModelError", "ModelMetadata",
    "NodeArg", "OrtDevice", "OrtValue", "Port", "Report", "RunError", "RunOptions",
    "SessionOptions", "TargetError", "compile", "get_all_providers", "get_available_providers",
    "get_device", "runs_here", "set_default_logger_severity", "set_default_logger_verbosity",
    "set_seed",
]  # fmt: skip

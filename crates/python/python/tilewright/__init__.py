"""Tilewright compiles machine-learning models to machine code, and runs them.

>>> import numpy, tilewright
>>> model = tilewright.compile("model.onnx")
>>> scores = model(numpy.zeros((1, 1, 8, 8), numpy.float32))

``tilewright.InferenceSession`` stands in for ``onnxruntime.InferenceSession``: see
:mod:`tilewright._session` for what is there.
"""

import atexit as _atexit
import os as _os

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
from ._language import LLM, GeneratedText, TextStream
from ._model import CompiledModel, Port, compile, load
from ._quantise import Quantised, quantise
from ._reports import (
    Comparison,
    ComparisonRow,
    Difference,
    Exploration,
    Explanation,
    KernelRow,
    KernelVerdict,
    Measurement,
    OutputVerdict,
    Verification,
)
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
    disable_telemetry_events,
    enable_telemetry_events,
    get_all_providers,
    get_available_providers,
    get_build_info,
    get_device,
    get_version_string,
    set_default_logger_severity,
    set_default_logger_verbosity,
    set_seed,
)
from ._stand_in import replace_onnxruntime

if hasattr(_os, "register_at_fork"):
    _os.register_at_fork(
        before=_native.before_fork,
        after_in_parent=lambda: _native.after_fork(False),
        after_in_child=lambda: _native.after_fork(True),
    )

_atexit.register(_native.before_end)

__version__ = _native.__version__
runs_here = _native.runs_here

__all__ = [name for name in dir() if not name.startswith("_")]

"""A module in the place of ``onnxruntime``, for packages that import it themselves."""

import importlib.machinery
import sys
import types

from . import _errors, _session

_NAMES = [
    "ExecutionMode", "ExecutionOrder", "GraphOptimizationLevel", "IOBinding", "InferenceSession",
    "ModelMetadata", "NodeArg", "OrtDevice", "OrtValue", "RunOptions", "SessionOptions",
    "disable_telemetry_events", "enable_telemetry_events", "get_all_providers",
    "get_available_providers", "get_build_info", "get_device", "get_version_string",
    "set_default_logger_severity", "set_default_logger_verbosity", "set_seed",
]  # fmt: skip

# ONNX Runtime's exceptions, as who catches them knows them.
_EXCEPTIONS = {
    "EPFail": _errors.TargetError, "EngineError": _errors.RunError, "Fail": _errors.Error,
    "InvalidArgument": _errors.InputError, "InvalidGraph": _errors.ModelError,
    "InvalidProtobuf": _errors.ModelError, "ModelLoaded": _errors.ModelError,
    "NoModel": _errors.ModelError, "NoSuchFile": _errors.FileError,
    "NotImplemented": _errors.ModelError, "RuntimeException": _errors.RunError,
}  # fmt: skip


def _module(name):
    module = types.ModuleType(name, "What onnxruntime has, by tilewright.")
    module.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=True)
    module.__path__ = []
    return module


def replace_onnxruntime():
    """Puts a module in the place of ``onnxruntime``: who imports that from now on has this
    compiler's ``InferenceSession`` and what belongs to it, so that packages which bring their own
    models run on it unchanged.

    Call it before they are imported. Where ``onnxruntime`` itself has been imported already, a
    :class:`RuntimeError` says so, since its classes are in others' hands then. Returns the module.
    """
    found = sys.modules.get("onnxruntime")
    if found is not None:
        if getattr(found, "_is_tilewright", False):
            return found
        raise RuntimeError("onnxruntime has been imported already; call this before")
    package = _module("onnxruntime")
    package.__version__ = _session.get_version_string()
    package._is_tilewright = True
    for name in _NAMES:
        setattr(package, name, getattr(_session, name))
    package.capi = _module("onnxruntime.capi")
    state = _module("onnxruntime.capi.onnxruntime_pybind11_state")
    for name in _NAMES:
        setattr(state, name, getattr(_session, name))
    for name, error in _EXCEPTIONS.items():
        setattr(state, name, error)
    package.capi.onnxruntime_pybind11_state = package.capi._pybind_state = state
    package.capi.onnxruntime_inference_collection = package
    sys.modules.update({
        "onnxruntime": package,
        "onnxruntime.capi": package.capi,
        "onnxruntime.capi._pybind_state": state,
        "onnxruntime.capi.onnxruntime_pybind11_state": state,
        "onnxruntime.capi.onnxruntime_inference_collection": package,
    })  # fmt: skip
    return package

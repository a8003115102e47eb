"""An ``onnx.backend``: ``prepare``, ``run_model``, ``run_node``, ``supports_device``.

``onnx.backend.test.BackendTest(tilewright.backend, __name__)`` runs the official cases.
"""

from typing import Any, Sequence

import onnx
from onnx.backend.base import Backend, BackendRep, namedtupledict

from ._model import compile as compile_model


class TilewrightRep(BackendRep):
    """A compiled model as the official cases run it."""

    def __init__(self, model):
        self.model = model

    def run(self, inputs: Any, **kwargs: Any) -> tuple:
        """The outputs, by place and by name."""
        inputs = inputs if isinstance(inputs, (list, tuple)) else [inputs]
        names = [port.name for port in self.model.outputs]
        outputs = self.model._native.run(list(inputs))
        return namedtupledict("Outputs", names)(*outputs)


class TilewrightBackend(Backend):
    @classmethod
    def is_compatible(cls, model, device: str = "CPU", **kwargs: Any) -> bool:
        return cls.supports_device(device)

    @classmethod
    def prepare(cls, model, device: str = "CPU", **kwargs: Any) -> TilewrightRep:
        if not cls.supports_device(device):
            raise ValueError(f"device: models run on the CPU, not on {device!r}")
        return TilewrightRep(compile_model(model, **kwargs))

    @classmethod
    def run_model(cls, model, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple:
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls, node, inputs: Any, device: str = "CPU", outputs_info: Sequence = None, **kwargs: Any
    ) -> tuple:
        """Runs one node on arrays. Its outputs have any shape where ``outputs_info`` tells none."""
        import numpy as np

        opset = kwargs.pop("opset_version", onnx.defs.onnx_opset_version())
        inputs = list(inputs.values()) if isinstance(inputs, dict) else list(inputs)
        inputs = [np.asarray(value) for value in inputs]

        def info(name, dtype, shape):
            element = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
            return onnx.helper.make_tensor_value_info(name, element, shape)

        names = [name for name in node.input if name]
        given = [info(name, it.dtype, it.shape) for name, it in zip(names, inputs)]
        if outputs_info is None:
            outputs = [onnx.helper.make_empty_tensor_value_info(name) for name in node.output]
        else:
            outputs = [info(name, *it) for name, it in zip(node.output, outputs_info)]
        graph = onnx.helper.make_graph([node], "node", given, outputs)
        opsets = [onnx.helper.make_opsetid(node.domain, opset)]
        model = onnx.helper.make_model(graph, opset_imports=opsets)
        return cls.run_model(model, inputs, device)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return device.partition(":")[0] == "CPU"


is_compatible = TilewrightBackend.is_compatible
prepare = TilewrightBackend.prepare
run_model = TilewrightBackend.run_model
run_node = TilewrightBackend.run_node
supports_device = TilewrightBackend.supports_device

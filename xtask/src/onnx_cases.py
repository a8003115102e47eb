"""Writes the cases of the Python package `onnx` to a folder: suite/case/model.onnx with
test_data_set_<i>/{input,output}_<j>.pb. Usage: onnx_cases.py FOLDER"""

import pathlib
import shutil
import sys

import numpy
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests


def as_bytes(value, port):
    """A value of a case as the file format of its declared type."""
    kind = port.type.WhichOneof("value")
    if kind == "sequence_type":
        return numpy_helper.from_list(value, port.name).SerializeToString()
    if kind == "optional_type":
        return numpy_helper.from_optional(value, port.name).SerializeToString()
    if kind == "map_type":
        return numpy_helper.from_dict(value, port.name).SerializeToString()
    if isinstance(value, onnx.TensorProto):
        return value.SerializeToString()
    return numpy_helper.from_array(numpy.asarray(value), port.name).SerializeToString()


def main(folder):
    for suite in ("node", "simple", "pytorch-converted", "pytorch-operator"):
        for case in load_model_tests(kind=suite):
            place = pathlib.Path(folder) / suite / case.name
            if case.model is None:
                shutil.copytree(case.model_dir, place)
                continue
            place.mkdir(parents=True)
            (place / "model.onnx").write_bytes(case.model.SerializeToString())
            for number, (inputs, outputs) in enumerate(case.data_sets):
                data = place / f"test_data_set_{number}"
                data.mkdir()
                ports = {"input": case.model.graph.input, "output": case.model.graph.output}
                for kind, values in (("input", inputs), ("output", outputs)):
                    for index, value in enumerate(values):
                        path = data / f"{kind}_{index}.pb"
                        path.write_bytes(as_bytes(value, ports[kind][index]))


main(sys.argv[1])

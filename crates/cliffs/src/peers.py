"""Times models with ONNX Runtime and OpenVINO, one thread each.

Reads a request a line from its standard input, an object in JSON, and answers each with one:
    {}                                          {peer: version}, those that are there
    {"load": FILE, "input": {"name", "dtype", "shape", "file"}, "outputs": FOLDER}
        {peer: {"error": TEXT} or {"dtype", "shape", "file"} of its output}
    {"time": SECONDS, "peer": NAME}             {"us": the fastest call} of what was loaded last
    {"time": SECONDS, "peer": NAME, "identity": FILE}   the same of a model that copies a number
"""

import json
import pathlib
import sys
import time

import numpy

NUMPY = {"f64": "float64", "f32": "float32", "f16": "float16", "bf16": "uint16", "bool": "bool"}
NUMPY |= {"i64": "int64", "i32": "int32", "i8": "int8", "u8": "uint8"}
OURS = {numpy_name: name for name, numpy_name in NUMPY.items() if name != "bf16"}


class OnnxRuntime:
    """A session with inputs bound once and outputs bound after the first call, which sizes them."""

    def __init__(self, package, model, name, dtype, value):
        options = package.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.log_severity_level = 4
        self.session = package.InferenceSession(model, options, ["CPUExecutionProvider"])
        self.binding = self.session.io_binding()
        if dtype == "bf16":
            held = package.OrtValue.ortvalue_from_numpy_with_onnx_type(value, 16)
        else:
            held = package.OrtValue.ortvalue_from_numpy(value)
        self.binding.bind_ortvalue_input(name, held)
        self.output = self.session.get_outputs()[0].name
        self.binding.bind_output(self.output)
        self.session.run_with_iobinding(self.binding)
        self.buffer = self.binding.get_outputs()[0]
        self.binding.clear_binding_outputs()
        self.binding.bind_ortvalue_output(self.output, self.buffer)

    def __call__(self):
        self.session.run_with_iobinding(self.binding)

    def value(self):
        return None if "bfloat16" in self.buffer.data_type() else self.buffer.numpy()


class OpenVino:
    """An inference request with inputs set once; it keeps its own output buffers."""

    def __init__(self, package, model, name, dtype, value):
        # Without the first, f32 models run in bf16 where the processor has it.
        properties = {
            "INFERENCE_PRECISION_HINT": "f32",
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_NUM_THREADS": 1,
        }
        core = package.Core()
        self.request = core.compile_model(model, "CPU", properties).create_infer_request()
        if dtype == "bf16":
            tensor = package.Tensor(value, list(value.shape), package.Type.bf16)
        else:
            tensor = package.Tensor(value)
        self.request.set_input_tensor(0, tensor)
        self.kept = (value, tensor)
        self.request.infer()

    def __call__(self):
        self.request.infer()

    def value(self):
        tensor = self.request.get_output_tensor(0)
        is_bf16 = tensor.element_type.get_type_name() == "bf16"
        return None if is_bf16 else numpy.array(tensor.data)


def packages():
    found = {}
    for name, module, make in [
        ("onnxruntime", "onnxruntime", OnnxRuntime),
        ("openvino", "openvino", OpenVino),
    ]:
        try:
            found[name] = (__import__(module), make)
        except ImportError:
            pass
    return found


PEERS = packages()
loaded, identities = {}, {}


def load(request):
    loaded.clear()
    given, answers = request["input"], {}
    value = numpy.fromfile(given["file"], NUMPY[given["dtype"]]).reshape(given["shape"])
    for name, (package, make) in PEERS.items():
        try:
            call = make(package, request["load"], given["name"], given["dtype"], value)
            output, answers[name] = call.value(), {}
            if output is not None:
                path = pathlib.Path(request["outputs"]) / name
                numpy.ascontiguousarray(output).tofile(path)
                dtype = OURS.get(str(output.dtype), str(output.dtype))
                answers[name] = {"dtype": dtype, "shape": output.shape, "file": str(path)}
            loaded[name] = call
        except Exception as error:
            answers[name] = {"error": " ".join(str(error).split())[:200]}
    return answers


def timed(request):
    peer = request["peer"]
    call = loaded.get(peer)
    if "identity" in request:
        if peer not in identities:
            package, make = PEERS[peer]
            identities[peer] = make(
                package, request["identity"], "x", "f32", numpy.ones(1, numpy.float32)
            )
        call = identities[peer]
    clock, best, count = time.perf_counter_ns, None, 0
    end = clock() + request["time"] * 1e9
    while count < 3 or clock() < end:
        start = clock()
        call()
        taken = clock() - start
        best = taken if best is None else min(best, taken)
        count += 1
    return {"us": best / 1e3}


for line in sys.stdin:
    request = json.loads(line)
    if "load" in request:
        answer = load(request)
    elif "time" in request:
        answer = timed(request)
    else:
        answer = {name: package.__version__ for name, (package, _) in PEERS.items()}
    print(json.dumps(answer), flush=True)

"""Tests of the package: `python -m unittest discover crates/python/tests`, with it installed.

What needs ``onnx``, ``torch``, ``ml_dtypes`` or ``onnxruntime`` is skipped aloud where they are
missing.
"""

import contextlib
import gc
import importlib
import os
import pathlib
import pickle
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import numpy as np

import tilewright

MODELS = pathlib.Path(__file__).resolve().parents[3] / "models"
DIGITS = MODELS / "digits" / "digits.onnx"


def optional(name):
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


onnx, torch = optional("onnx"), optional("torch")
ml_dtypes, onnxruntime = optional("ml_dtypes"), optional("onnxruntime")


def needs(module, name):
    return unittest.skipUnless(module, f"{name} is not installed")


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def model_of(nodes, inputs, outputs, opset=21):
    """A model of nodes, with inputs and outputs as (name, element type, shape)."""
    infos = [
        [onnx.helper.make_tensor_value_info(name, dtype, shape) for name, dtype, shape in ports]
        for ports in (inputs, outputs)
    ]
    graph = onnx.helper.make_graph(nodes, "graph", *infos)
    opsets = [onnx.helper.make_opsetid("", opset)]
    return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10)


def products_model(count):
    """The bytes of a model of ``count`` products of many shapes: of 2000 the compile takes a second
    and more."""
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    generator = random.Random(0)
    extents = [16 + generator.randrange(184) for _ in range(count)]
    nodes, weights, name = [], [], "x"
    for number, (rows, columns) in enumerate(zip(extents, extents[1:])):
        values = np.ones((rows, columns), np.float32)
        weights.append(onnx.numpy_helper.from_array(values, f"w{number}"))
        nodes.append(helper.make_node("MatMul", [name, f"w{number}"], [f"y{number}"]))
        name = f"y{number}"
    model = model_of(nodes, [("x", kind, [7, extents[0]])], [(name, kind, [7, extents[-1]])])
    model.graph.initializer.extend(weights)
    return model.SerializeToString()


# The name of the thread that a compile runs on, as the system shows it.
COMPILER = "tilewright compile"[:15]


def compiling():
    """Whether a compile has begun, and has not come to its end."""
    for task in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError):
            if pathlib.Path("/proc/self/task", task, "comm").read_text().strip() == COMPILER:
                return True
    return False


def interrupted(work, after=0.0):
    """Runs ``work`` and sends it an interrupt ``after`` seconds behind the beginning of its compile.
    The seconds until it ended by ``KeyboardInterrupt``; none where it ended otherwise before.

    Nothing is sent before ``work`` runs, however late threads are. What comes when it is over, also
    by an exception of another kind, is heard here, and nothing comes of it. Shells let what they
    start in the background ignore interrupts: they are heard here."""
    sent, done = [], threading.Event()

    def send():
        while not compiling():
            if done.wait(0.001):
                return
        if not done.wait(after):
            sent.append(time.perf_counter())
            os.kill(os.getpid(), signal.SIGINT)

    def hear(*_):
        if is_running:
            raise KeyboardInterrupt

    is_running = True
    sender = threading.Thread(target=send)
    before = signal.signal(signal.SIGINT, hear)
    try:
        sender.start()
        work()
        return None
    except KeyboardInterrupt:
        if not sent:
            raise
        return time.perf_counter() - sent[0]
    finally:
        is_running = False
        done.set()
        sender.join()
        signal.signal(signal.SIGINT, before)


# What an import may not bring in: what it is for a call needs, and takes longer than all else.
LATE = "tempfile shutil json random html threading tilewright.torch torch onnx jinja2".split()


class Import(unittest.TestCase):
    def test_it_brings_in_nothing_that_a_call_needs(self):
        code = (
            "import sys, numpy; before = set(sys.modules); import tilewright; "
            "print(*sorted(set(sys.modules) - before))"
        )
        command = [sys.executable, "-c", code]
        found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        self.assertIn("tilewright", found)
        self.assertEqual([name for name in LATE if name in found], [])


class Digits(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.images = np.load(DIGITS.parent / "test_images.npy")
        cls.model = tilewright.compile(DIGITS, threads=1)
        cls.scores = cls.model(cls.images)


class Calls(Digits):
    def test_inputs_go_by_place_and_by_name(self):
        self.assertEqual(self.scores.shape, (360, 10))
        np.testing.assert_array_equal(self.model(image=self.images), self.scores)
        np.testing.assert_array_equal(self.model.run({"image": self.images})["logits"], self.scores)

    def test_bytes_and_paths_are_models(self):
        for model in (str(DIGITS), DIGITS.read_bytes(), memoryview(DIGITS.read_bytes())):
            np.testing.assert_array_equal(tilewright.compile(model)(self.images), self.scores)

    def test_what_is_saved_runs_without_the_model(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "digits.tw"
            self.model.save(path)
            engine = tilewright.load(path, threads=1)
            before = engine.statistics()
            np.testing.assert_array_equal(engine(self.images), self.scores)
            self.assertEqual(engine.statistics(), before)
            path.write_bytes(path.read_bytes()[:1000])
            with self.assertRaisesRegex(tilewright.FileError, "TW0303"):
                tilewright.load(path)

    @needs(onnx, "onnx")
    def test_messages_of_onnx_are_models(self):
        model = tilewright.compile(onnx.load(DIGITS), dims={"batch": 360})
        np.testing.assert_allclose(model(self.images), self.scores, atol=1e-4)
        self.assertEqual(model.inputs[0].shape, (360, 1, 8, 8))

    def test_any_strides_give_the_same(self):
        spread = np.zeros((360, 1, 8, 16), np.float32)
        spread[..., ::2] = self.images
        np.testing.assert_array_equal(self.model(spread[..., ::2]), self.scores)
        np.testing.assert_array_equal(self.model(self.images[::-1])[::-1], self.scores)
        np.testing.assert_array_equal(self.model(np.asfortranarray(self.images)), self.scores)
        swapped = self.images.astype(">f4")
        np.testing.assert_array_equal(self.model(swapped), self.scores)

    def test_lists_take_the_declared_type(self):
        np.testing.assert_array_equal(self.model(self.images[:2].tolist()), self.model(self.images[:2]))

    def test_repr_tells_what_it_is(self):
        self.assertIn("image: float32[batch, 1, 8, 8]", repr(self.model))
        self.assertIn("logits: float32[batch, 10]", repr(self.model))

    def test_outputs_outlive_the_model_and_may_be_written(self):
        scores = tilewright.compile(DIGITS)(self.images)
        gc.collect()
        np.testing.assert_array_equal(scores, self.scores)
        scores[:] = 0

    @needs(torch, "torch")
    def test_tensors_of_torch_share_their_memory(self):
        tensor = torch.from_numpy(self.images)
        np.testing.assert_array_equal(self.model(tensor), self.scores)
        np.testing.assert_array_equal(self.model(tensor.clone().requires_grad_()), self.scores)
        np.testing.assert_array_equal(torch.from_dlpack(self.model(tensor)), self.scores)
        for wrong, said in [
            (tensor.to_sparse(), "sparse"),
            (torch.empty(1, 1, 8, 8, device="meta"), "meta"),
            (torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]), "nested"),
            (tensor.to(torch.complex64), "complex"),
        ]:
            with self.subTest(said), self.assertRaisesRegex(TypeError, f"'image'.*{said}"):
                self.model(wrong)


class Refusals(Digits):
    def test_errors_carry_code_place_reason_and_remedy(self):
        with self.assertRaises(tilewright.InputError) as caught:
            self.model(self.images[..., :7])
        error = caught.exception
        self.assertEqual(error.code, "TW0204")
        self.assertIn("image", error.place)
        self.assertTrue(error.reasons and error.remedy and error.diagnostics)
        again = pickle.loads(pickle.dumps(error))
        self.assertEqual((again.code, str(again)), (error.code, str(error)))

    def test_each_mistake_has_its_class(self):
        for kind, what in [
            (tilewright.InputError, lambda: self.model(self.images.astype(np.float64))),
            (tilewright.InputError, lambda: self.model()),
            (tilewright.InputError, lambda: self.model(picture=self.images)),
            (tilewright.FileError, lambda: tilewright.compile("no such file.onnx")),
            (OSError, lambda: tilewright.compile("no such file.onnx")),
            (tilewright.ModelError, lambda: tilewright.compile(b"no model")),
            (tilewright.TargetError, lambda: tilewright.compile(DIGITS, target="pdp-11")),
            (TypeError, lambda: tilewright.compile(7)),
            (TypeError, lambda: self.model(self.images, image=self.images)),
            (TypeError, lambda: self.model(self.images, self.images)),
            (TypeError, lambda: self.model(object())),
            (TypeError, lambda: self.model(np.ma.masked_array(self.images))),
            (TypeError, lambda: self.model(self.images.astype(np.complex64))),
            (ValueError, lambda: tilewright.compile(DIGITS, threads=0)),
            (ValueError, lambda: tilewright.compile(DIGITS, precision="f8")),
            (TypeError, lambda: tilewright.compile(DIGITS, dims={"batch": "many"})),
        ]:
            with self.subTest(kind), self.assertRaises(kind):
                what()

    def test_a_sequence_that_raises_passes_its_error_on(self):
        def values():
            yield self.images
            raise KeyError("in the middle")

        with self.assertRaisesRegex(KeyError, "in the middle"):
            self.model.run(values())


class Reports(Digits):
    def test_each_report_has_text_and_html(self):
        explanation = self.model.explain(self.images[:1])
        self.assertGreater(explanation.total_us, 0)
        self.assertTrue(any("main_contract" in row.kernel for row in explanation.rows))
        report = self.model.verify()
        self.assertTrue(report and "0 differ" in str(report))
        measured = self.model.bench(self.images[:1], seconds=0.05)
        self.assertGreater(measured.median_ms, 0)
        for it in (explanation, report, measured):
            self.assertTrue(it._repr_html_().startswith("<"))

    def test_a_verification_has_a_row_an_output_and_a_kernel(self):
        report = self.model.verify(self.images[:1])
        (logits,) = report.outputs
        self.assertEqual((logits.name, logits.failure), ("logits", None))
        self.assertLessEqual(logits.error, logits.most)
        self.assertTrue(all(kernel.is_compared and kernel.failure is None for kernel in report.kernels))
        self.assertTrue(any("conv2d" in " ".join(kernel.nodes) for kernel in report.kernels))
        self.assertEqual((report.blame, report.sample), ([], None))
        self.assertIn("<td>logits</td>", report._repr_html_())

    def test_reports_show_what_is_wrong(self):
        report = tilewright.Verification(
            False, "text", [("<y>", 0.5, 1e-5, "it differs"), ("n", 0.0, float("inf"), None)],
            [("k", ["a", "b"], True, "off by 1"), ("m", [], False, "too large")], ["node `a`"], "a sample",
        )  # fmt: skip
        self.assertFalse(report)
        self.assertEqual(str(report), "text")
        self.assertIsNone(report.outputs[1].most)
        page = report._repr_html_()
        for words in ("&lt;y&gt;", "it differs", "off by 1", "too large", "node `a`", "a sample", "color:"):
            self.assertIn(words, page)
        rows = [((None, "y", "f32[2]"), (0.5, 1.0), ("own off", False), (0.5, 1e-7, 1e-5)),
                (("node a", "z", "i64[]"), None, ("equal", True), None)]  # fmt: skip
        found = tilewright.Comparison(False, "text", "onnxruntime 1", rows)
        self.assertFalse(found)
        self.assertEqual(found.rows[0].own_error, 0.5)
        self.assertEqual((found.rows[1].node, found.rows[1].absolute), ("node a", None))
        self.assertIn("own off", found._repr_html_())
        differs = tilewright.Difference("node a", "y", "off by 1", ["node b", "node a"], "text")
        self.assertEqual(differs.nodes, ["node b", "node a"])
        self.assertIn("off by 1", differs._repr_html_())

    def test_the_explorer_is_a_page_of_its_own(self):
        other = tilewright.compile(DIGITS, threads=1)
        page = self.model.explore(self.images[:1], title="<digits>", beside=other)
        self.assertIn("<title>&lt;digits&gt;</title>", page.html)
        self.assertEqual(page.html.count('data-section="summary"'), 2)
        self.assertNotIn("<script", page._repr_html_())
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "page.html")
            page.write(path)
            self.assertEqual(os.listdir(folder), ["page.html"])
            with open(path, encoding="utf-8") as file:
                self.assertEqual(file.read(), page.html)

    def test_equal_configurations_do_not_differ(self):
        self.assertIsNone(self.model.diff(self.images[:1]))
        self.assertIsNone(self.model.diff(self.images[:1], other={"threads": 2}))

    @needs(onnxruntime, "onnxruntime")
    def test_the_peer_agrees(self):
        found = self.model.compare(self.images[:1])
        self.assertTrue(found)
        self.assertIn("onnxruntime", found.peer.lower().replace(" ", ""))
        (row,) = found.rows
        self.assertEqual((row.node, row.name, row.is_good), (None, "logits", True))
        self.assertLess(row.absolute, 1e-3)
        self.assertIn("<td>logits</td>", found._repr_html_())
        self.assertGreater(len(self.model.compare(self.images[:1], nodes=True).rows), 1)

    def test_a_module_takes_the_place_of_onnxruntime(self):
        code = """
            import sys
            import numpy, tilewright
            module = tilewright.replace_onnxruntime()
            assert tilewright.replace_onnxruntime() is module
            import onnxruntime
            from onnxruntime import GraphOptimizationLevel, InferenceSession, SessionOptions
            from onnxruntime.capi import _pybind_state as C
            from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument, NoSuchFile
            import importlib.util
            assert importlib.util.find_spec("onnxruntime") is not None
            assert C.get_available_providers() == ["CPUExecutionProvider"]
            session = InferenceSession(sys.argv[1], SessionOptions())
            assert session.run(None, {"image": numpy.zeros((1, 1, 8, 8), "f4")})[0].shape == (1, 10)
            for kind, what in [
                (InvalidArgument, lambda: session.run(None, {"image": numpy.zeros(3, "f4")})),
                (NoSuchFile, lambda: InferenceSession("no such file.onnx")),
            ]:
                try:
                    what()
                except kind:
                    continue
                raise AssertionError(kind)
            print("whole")
        """
        import subprocess
        import textwrap

        command = [sys.executable, "-c", textwrap.dedent(code), str(DIGITS)]
        path = os.pathsep.join(sys.path)
        done = subprocess.run(
            command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path})
        self.assertEqual(done.stdout.strip(), "whole", done.stderr)
        if onnxruntime:
            with self.assertRaisesRegex(RuntimeError, "imported already"):
                tilewright.replace_onnxruntime()


class Threads(Digits):
    def test_many_callers_get_their_own_results(self):
        model = tilewright.compile(DIGITS)
        wrong = []

        def call(start):
            for batch in (1, 3, 8):
                part = slice(start, start + batch)
                for _ in range(30):
                    if not np.allclose(model(self.images[part]), self.scores[part], atol=1e-4):
                        wrong.append(part)

        threads = [threading.Thread(target=call, args=(10 * number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_the_child_of_a_fork_runs_the_model(self):
        model = tilewright.compile(DIGITS, threads=2)
        model(self.images)
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            equal = np.allclose(model(self.images), self.scores, atol=1e-4)
            os._exit(0 if equal else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_compiles_and_drops_leave_no_memory_behind(self):
        def repeat(count):
            for _ in range(count):
                tilewright.compile(DIGITS, threads=1, dims={"batch": 1})(self.images[:1])
            gc.collect()

        repeat(200)
        before = resident_bytes()
        repeat(1000)
        self.assertLess(resident_bytes(), 1.05 * before)

    @needs(onnx, "onnx")
    def test_an_interrupt_ends_a_compile(self):
        data = products_model(400)
        self.assertIsNotNone(interrupted(lambda: tilewright.compile(data)))


class Quantising(Digits):
    def setUp(self):
        self.samples = [self.images[at : at + 1] for at in range(8)]

    def agreement(self, quantised, **options):
        scores = tilewright.compile(quantised, **options)(self.images)
        return (scores.argmax(1) == self.scores.argmax(1)).mean()

    def test_samples_are_arrays_lists_and_dictionaries(self):
        quantised = tilewright.quantise(DIGITS, self.samples)
        self.assertGreater(self.agreement(quantised), 0.98)
        self.assertEqual(quantised.report["samples"], 8)
        self.assertIn("layer", str(quantised))
        for samples in ([[it] for it in self.samples], [{"image": it} for it in self.samples]):
            again = tilewright.quantise(DIGITS.read_bytes(), samples)
            self.assertEqual(again.data, quantised.data)

    def test_what_needs_no_samples(self):
        whole = DIGITS.stat().st_size
        for how in ({"dynamic": True}, {"weights": "int8"}, {"weights": "int4", "block": 0}):
            quantised = tilewright.quantise(DIGITS, **how)
            self.assertLess(len(quantised.data), 0.5 * whole)
            self.assertGreater(self.agreement(quantised), 0.95)

    def test_files_are_whole(self):
        quantised = tilewright.quantise(DIGITS, self.samples, keep_float=["node_conv2d"])
        self.assertEqual(quantised.report["float"], ["node_conv2d"])
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "bytes.onnx"
            quantised.save(path)
            self.assertEqual(path.read_bytes(), quantised.data)
            with self.assertRaises(OSError):
                quantised.save(pathlib.Path(folder) / "none" / "bytes.onnx")
            self.assertEqual(list(pathlib.Path(folder).iterdir()), [path])

    def test_bad_input_is_refused(self):
        for samples, wanted in (
            ([], "TW0215"),
            ([np.full((1, 1, 8, 8), np.nan, np.float32)], "TW0215"),
            ([np.zeros((1, 1, 8, 7), np.float32)], "TW0204"),
        ):
            with self.assertRaises(tilewright.Error) as caught:
                tilewright.quantise(DIGITS, samples)
            self.assertIn(wanted, str(caught.exception))
        with self.assertRaises(tilewright.Error) as caught:
            tilewright.quantise(DIGITS, self.samples, keep_float=["node_conv"])
        self.assertIn("TW0216", str(caught.exception))
        for wrong in ({"method": "best"}, {"weights": "int3"}, {"max_loss": "much"}):
            with self.assertRaises(ValueError):
                tilewright.quantise(DIGITS, self.samples, **wrong)

    @needs(onnxruntime, "onnxruntime")
    @needs(onnx, "onnx")
    def test_other_engines_run_the_file(self):
        # Without instructions that add up products of bytes in 32 bits (VNNI) ONNX Runtime adds two
        # of them in 16, which saturate: by up to a seventh of the greatest logit of these models.
        # There it is given weights of 7 bits, with which nothing does.
        saturates = "vnni" not in pathlib.Path("/proc/cpuinfo").read_text()
        for how in ({}, {"dynamic": True}, {"weights": "int8"}):
            model = onnx.load_from_string(tilewright.quantise(DIGITS, self.samples, **how).data)
            for tensor in model.graph.initializer if saturates else ():
                if tensor.data_type == onnx.TensorProto.INT8:
                    halved = onnx.numpy_helper.to_array(tensor) // 2
                    tensor.CopyFrom(onnx.numpy_helper.from_array(halved, tensor.name))
            session = onnxruntime.InferenceSession(model.SerializeToString())
            theirs = session.run(None, {"image": self.images[:8]})[0]
            ours = tilewright.compile(model)(self.images[:8])
            with self.subTest(how):
                np.testing.assert_allclose(ours, theirs, atol=0.02 * np.abs(theirs).max())


class Types(unittest.TestCase):
    def identity(self, element, shape):
        nodes = [onnx.helper.make_node("Identity", ["x"], ["y"])]
        return tilewright.compile(model_of(nodes, [("x", element, shape)], [("y", element, shape)]))

    @needs(onnx, "onnx")
    def test_types_of_numpy_come_back_as_they_went(self):
        for name in (
            "float64 float32 float16 int64 int32 int16 int8 uint64 uint32 uint16 uint8 bool"
        ).split():
            dtype = np.dtype(name)
            value = np.arange(6).reshape(2, 3).astype(dtype)
            model = self.identity(onnx.helper.np_dtype_to_tensor_dtype(dtype), [2, 3])
            result = model(value)
            self.assertEqual(result.dtype, dtype)
            np.testing.assert_array_equal(result, value)

    @needs(onnx, "onnx")
    def test_numbers_without_axes_and_empty_arrays_stay_so(self):
        for value in (np.float32(3).reshape(()), np.zeros((0, 4), np.float32)):
            result = self.identity(onnx.TensorProto.FLOAT, list(value.shape))(value)
            self.assertEqual(result.shape, value.shape)
            np.testing.assert_array_equal(result, value)

    @needs(onnx, "onnx")
    def test_strings_are_arrays_of_objects(self):
        value = np.array([["a", "häuser"], ["", "語"]])
        result = self.identity(onnx.TensorProto.STRING, [2, 2])(value)
        self.assertEqual(result.tolist(), value.tolist())

    @needs(onnx, "onnx")
    @needs(ml_dtypes, "ml_dtypes")
    def test_types_that_numpy_lacks_are_those_of_ml_dtypes(self):
        for name in (
            "bfloat16 float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz int4 uint4 "
            "float4_e2m1fn"
        ).split():
            with self.subTest(name):
                dtype = np.dtype(getattr(ml_dtypes, name))
                value = np.array([[0, 1, 2], [3, 4, 6], [1, 1, 1]]).astype(dtype)
                element = onnx.helper.np_dtype_to_tensor_dtype(dtype)
                result = self.identity(element, [3, 3])(value)
                self.assertEqual(result.dtype, dtype)
                np.testing.assert_array_equal(result.astype("f4"), value.astype("f4"))

    @needs(onnx, "onnx")
    def test_bits_stand_for_types_that_numpy_lacks(self):
        value = np.array([0x3F80, 0xC000], np.uint16)
        result = self.identity(onnx.TensorProto.BFLOAT16, [2])(value)
        np.testing.assert_array_equal(result.view(np.uint16), value)

    @needs(onnx, "onnx")
    @needs(torch, "torch")
    def test_bfloat16_of_torch_is_taken(self):
        value = torch.tensor([1.0, -2.0, 3.5], dtype=torch.bfloat16)
        result = self.identity(onnx.TensorProto.BFLOAT16, [3])(value)
        bits = value.view(torch.uint16).numpy()
        np.testing.assert_array_equal(result.view(np.uint16), bits)


if __name__ == "__main__":
    print(f"tilewright {tilewright.__version__}, Python {sys.version.split()[0]}", file=sys.stderr)
    unittest.main()

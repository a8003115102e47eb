"""Compiling models, and what is done with a compiled one."""

import contextlib
import os
import sys
from typing import NamedTuple, Optional, Tuple, Union

from . import _native
from ._arrays import EXTENDED, NATIVE
from ._reports import (
    Comparison,
    Difference,
    Exploration,
    Explanation,
    Measurement,
    Verification,
)


class Port(NamedTuple):
    """An input or output: its name, element type, shape and kind.

    A shape's extents are integers, names, or ``None`` for any number of axes that are not declared.
    """

    name: str
    dtype: Optional[str]
    shape: Tuple[Union[int, str, None], ...]
    kind: str

    def __str__(self) -> str:
        extents = ", ".join("..." if extent is None else str(extent) for extent in self.shape)
        kind = "" if self.kind == "tensor" else f"{self.kind.replace('tensor', '').strip()} of "
        return f"{self.name}: {kind}{dtype_text(self.dtype)}[{extents}]"


def dtype_text(dtype: Optional[str]) -> str:
    """NumPy's (or ml_dtypes') name of an element type."""
    if dtype in EXTENDED:
        return EXTENDED[dtype][0]
    return NATIVE.get(dtype, dtype or "?")


def _port(row) -> Port:
    name, dtype, extents, kind = row
    return Port(name, dtype, tuple(extents or ()), kind)


def model_argument(model):
    """A path as text, or the bytes of a model."""
    if hasattr(model, "SerializeToString"):
        return model.SerializeToString()
    if isinstance(model, (bytes, bytearray, memoryview)):
        return bytes(model)
    if isinstance(model, (str, os.PathLike)):
        path = os.fspath(model)
        return os.fsdecode(path) if isinstance(path, bytes) else path
    raise TypeError(
        "model: expected a path, the bytes of an ONNX file or an onnx.ModelProto, not "
        f"{type(model).__module__}.{type(model).__qualname__}"
    )


def whole(name, value, least, most=2**64 - 1):
    """An integer from the least one to the greatest."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name}: expected an integer, not {value!r}")
    value = value.__index__()
    if value < least:
        raise ValueError(f"{name}: expected at least {least}, not {value}")
    if value > most:
        raise ValueError(f"{name}: expected at most {most}, not {value}")
    return value


def options(*, target, threads, dims, shapes, precision, symbolic, without_passes, limits):
    """The options that are given, checked, as the compiler takes them."""
    found = {}
    if target is not None:
        found["target"] = str(target)
    if threads is not None:
        found["threads"] = whole("threads", threads, 1)
    if dims:
        found["dims"] = {
            str(name): whole(f"dims[{name!r}]", extent, 0) for name, extent in dims.items()
        }
    if shapes:
        found["shapes"] = {
            str(name): [whole(f"shapes[{name!r}]", extent, 0) for extent in shape]
            for name, shape in shapes.items()
        }
    if precision is not None:
        found["precision"] = str(precision)
    if symbolic:
        found["symbolic"] = True
    if without_passes:
        found["without_passes"] = [str(name) for name in without_passes]
    if limits:
        found["limits"] = {
            str(name): whole(f"limits[{name!r}]", most, 0) for name, most in limits.items()
        }
    return found


class CompiledModel:
    """A compiled model; :func:`compile` makes it, and calling it runs it.

    Any number of threads may call it at once: the interpreter lock is released meanwhile. After a
    fork the child may use it, too; its runs then take one thread.
    """

    def __init__(self, model, given):
        self._source, self._options = model, given
        self._native = _native.compile(model, given)
        self.inputs = [_port(row) for row in self._native.input_rows]
        self.outputs = [_port(row) for row in self._native.output_rows]

    @property
    def target(self) -> str:
        """The row of the target table that it is compiled for."""
        return self._native.target

    @property
    def threads(self) -> int:
        """Threads of a run, the caller's included."""
        return self._native.threads

    def __repr__(self) -> str:
        where = self._source if isinstance(self._source, str) else f"{len(self._source)} bytes"
        inputs = "; ".join(map(str, self.inputs))
        outputs = "; ".join(map(str, self.outputs))
        return (
            f"<tilewright.CompiledModel of {where} for {self.target}, {self.threads} thread(s)\n"
            f"  inputs   {inputs}\n  outputs  {outputs}>"
        )

    def _feed(self, values, named):
        if not named:
            return values
        if len(values) > len(self.inputs):
            raise TypeError(f"{len(values)} inputs are given, the model has {len(self.inputs)}")
        feed = {port.name: value for port, value in zip(self.inputs, values)}
        twice = sorted(feed.keys() & named.keys())
        if twice:
            raise TypeError(f"input {twice[0]!r} is given twice, by place and by name")
        return {**feed, **named}

    def __call__(self, *values, **named):
        """Runs the model on values in the order of its inputs, by name, or both.

        A value is a NumPy array, a torch tensor on the CPU, or anything with ``__dlpack__``,
        ``__array__`` or ``__array_interface__``. What lies row-major and without gaps is not copied,
        and must not be written to before the call returns. Lists and numbers take the declared type.
        Sequences are lists, optional values may be ``None``, maps are dictionaries.

        Returns the output, or a tuple where the model has several: NumPy arrays of their own memory
        (for types that NumPy lacks see :mod:`tilewright._arrays`).

        Raises :class:`InputError` for values that do not fit, :class:`TypeError` for what is no
        array, :class:`RunError` for data that the model cannot compute with.
        """
        outputs = self._native.run(self._feed(values, named))
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def run(self, inputs) -> dict:
        """Runs the model on a dictionary by name (or a list by place); outputs by name."""
        outputs = self._native.run(inputs if isinstance(inputs, dict) else list(inputs))
        return dict(zip([port.name for port in self.outputs], outputs))

    def prepare(self, *values, **named) -> None:
        """Makes the code for inputs of these shapes now rather than in the first run."""
        self._native.prepare(self._feed(values, named))

    def save(self, path) -> None:
        """Saves what has been compiled so far as an engine file, which :func:`load` runs without
        the model, and without compiling; the code for shapes that were met goes along."""
        self._native.save(path)

    def statistics(self) -> dict:
        """Kernels, and bytes of code, constants and arena, of all shapes compiled so far."""
        return self._native.statistics()

    def example_inputs(self) -> list:
        """Random values, one an input, of the smallest extents that were found to work."""
        if all(isinstance(extent, int) for port in self.inputs for extent in port.shape):
            return self._native.random_inputs()
        with self._file() as path:
            given = {key: it for key, it in self._options.items() if key != "symbolic"}
            dims = {**given.get("dims", {}), **_native.smallest_extents(path, given)}
            return _native.compile(path, {**given, "dims": dims}).random_inputs()

    def _inputs(self, values, named):
        return self._feed(values, named) if values or named else self.example_inputs()

    @contextlib.contextmanager
    def _file(self):
        """A path of the model; of bytes, a file for a while."""
        if isinstance(self._source, str):
            yield self._source
            return
        # Imported where it is used, since it takes as long as all of this package.
        import tempfile

        with tempfile.TemporaryDirectory(prefix="tilewright") as folder:
            path = os.path.join(folder, "model.onnx")
            with open(path, "wb") as file:
                file.write(self._source)
            yield path

    def explain(self, *values, reasons=False, top=None, **named) -> Explanation:
        """Runs the model with a clock around each kernel, on these inputs or on example ones."""
        inputs = self._inputs(values, named)
        return Explanation(*_native.explain(self._native, inputs, bool(reasons), top))

    def explore(self, *values, title="model", beside=None, **named) -> Exploration:
        """A page for browsers that shows what became of the model at all levels, and ties them
        together; runs it on these inputs or on example ones. ``beside`` is another
        :class:`Model`, run on the same inputs, which is shown beside this one."""
        other = None
        if beside is not None:
            other = (beside._native, beside._inputs(values, named), repr(beside))
        inputs = self._inputs(values, named)
        return Exploration(_native.explore(title, self._native, inputs, repr(self), other))

    def verify(self, *values, all=False, **named) -> Verification:
        """Compares every kernel and output with the reference evaluator; a sample of them where the
        model is large, unless ``all`` is asked for."""
        inputs = self._inputs(values, named)
        return Verification(*_native.verify(self._native, inputs, bool(all)))

    def bench(self, *values, seconds=2.0, **named) -> Measurement:
        """Compiles the model anew and times its runs."""
        if not 0 < seconds <= 86400:
            raise ValueError(f"seconds: expected above 0 and at most 86400, not {seconds!r}")
        inputs = self._inputs(values, named)
        with self._file() as path:
            found = _native.bench(path, self._options, self._native, inputs, float(seconds))
        return Measurement(found)

    def diff(self, *values, other=None, **named) -> Optional[Difference]:
        """The first node that another configuration computes otherwise: ``other`` is a dictionary
        of options of :func:`compile`, or ``None`` for the reference evaluator."""
        inputs = self._inputs(values, named)
        others = None if other is None else options(**{**NO_OPTIONS, **other})
        with self._file() as path:
            found = _native.diff(path, self._options, others, self._native, inputs)
        return None if found is None else Difference(*found)

    def compare(self, *values, python=None, nodes=False, seconds=600, **named) -> Comparison:
        """Compares the outputs, or the value of each node, with ONNX Runtime's, which a process of
        this Python (or of ``python``) runs."""
        inputs = self._inputs(values, named)
        peer = (os.fspath(python or sys.executable), bool(nodes), whole("seconds", seconds, 1))
        with self._file() as path:
            return Comparison(
                *_native.compare(self._native, path, self._options, inputs, peer))


NO_OPTIONS = {
    "target": None, "threads": None, "dims": None, "shapes": None, "precision": None,
    "symbolic": False, "without_passes": None, "limits": None,
}  # fmt: skip


def compile(
    model,
    *,
    target=None,
    threads=None,
    dims=None,
    shapes=None,
    precision=None,
    symbolic=False,
    without_passes=None,
    limits=None,
) -> CompiledModel:
    """Compiles a model to machine code of this process.

    ``model`` is a path, the bytes of an ONNX file, an ``onnx.ModelProto``, or a
    ``torch.export.ExportedProgram``, which gives a :class:`tilewright._exported.CompiledProgram`.

    ``target`` is a row of the target table (the best for this machine if nothing is said),
    ``threads`` how many threads a run may take (all cores), ``dims`` extents for names such as
    ``{"batch": 8}``, ``shapes`` shapes of inputs by name, ``precision`` ``"f32"`` or ``"bf16"`` for
    products, ``symbolic`` whether code is made for many extents at once, ``without_passes`` names of
    optimisations to leave out, ``limits`` bounds for models from elsewhere.

    Extents that the model leaves free may differ from call to call; code for new ones is made when
    they are first met, and kept. Ctrl-C during a compile raises ``KeyboardInterrupt`` within a tenth
    of a second; the compile's thread ends its work unseen and drops it.

    Raises :class:`ModelError`, :class:`FileError`, :class:`TargetError`, :class:`InputError`.
    """
    given = options(
        target=target, threads=threads, dims=dims, shapes=shapes, precision=precision,
        symbolic=symbolic, without_passes=without_passes, limits=limits,
    )  # fmt: skip
    if type(model).__module__.partition(".")[0] == "torch":
        return _exported_program(model, given)
    return CompiledModel(model_argument(model), given)


def load(path, *, threads=None, limits=None) -> CompiledModel:
    """Loads an engine file, which :meth:`CompiledModel.save` or ``tilewright compile --emit engine``
    has written: it is mapped, and nothing is compiled.

    Raises :class:`FileError` for a file that is damaged, or of another version.
    """
    if not isinstance(path, (str, bytes, os.PathLike)):
        raise TypeError(f"path: expected the path of an engine file, not {type(path).__qualname__}")
    given = options(**{**NO_OPTIONS, "threads": threads, "limits": limits})
    return CompiledModel(model_argument(os.fsdecode(path)), given)


def _exported_program(model, given):
    from torch.export import ExportedProgram

    if not isinstance(model, ExportedProgram):
        raise TypeError(
            f"model: a {type(model).__name__} is to be exported first (torch.export.export), or "
            'compiled by torch.compile(model, backend="tilewright")')
    for name in ("dims", "shapes"):
        if given.get(name):
            raise TypeError(f"{name}: sizes of an exported program are those of the tensors given")
    from ._exported import CompiledProgram

    return CompiledProgram(model, given)

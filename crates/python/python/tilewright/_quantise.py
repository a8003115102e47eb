"""Models of bytes, as ``tilewright quantise`` writes them."""

import os
from typing import Dict

from . import _native
from ._model import model_argument, options
from ._reports import _Shown


class Quantised(_Shown):
    """A quantised model: ``data`` is the ONNX file, ``report`` what each layer and the outputs lose
    on the samples, as ``tilewright quantise --json`` writes it. As text it is the table."""

    def __init__(self, data, report, text):
        import json

        self.data: bytes = data
        self.report: Dict = json.loads(report)
        self._text = text

    def SerializeToString(self) -> bytes:
        """The file: whatever takes an ``onnx.ModelProto`` takes this, ``tilewright.compile`` too."""
        return self.data

    def save(self, path) -> None:
        """Writes the file, whole or not at all."""
        import tempfile

        path = os.fspath(path)
        folder = os.path.dirname(os.path.abspath(path))
        handle, staged = tempfile.mkstemp(dir=folder, prefix=".quantised-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(self.data)
            # What other files are made with, which those for a moment are not.
            mask = os.umask(0)
            os.umask(mask)
            os.chmod(staged, 0o666 & ~mask)
            os.replace(staged, path)
        except BaseException:
            os.unlink(staged)
            raise

    def __str__(self) -> str:
        return self._text

    __repr__ = __str__


def quantise(
    model,
    calibrate=None,
    *,
    dynamic=False,
    weights=None,
    block=32,
    method="min-max",
    percentile=99.99,
    equalise=True,
    correct_bias=True,
    compensate=True,
    keep_float=(),
    max_loss=None,
    target=None,
    threads=None,
    dims=None,
    limits=None,
) -> Quantised:
    """Makes a model compute with bytes, or store its weights in fewer bits.

    ``model`` is a path, the bytes of an ONNX file or an ``onnx.ModelProto``. ``calibrate`` holds
    samples, each a dictionary of inputs by name, a list of them in order, or an array where the model
    has one input; ranges are found with them, and the loss is measured. Without ``dynamic`` and
    ``weights`` they must be given.

    ``dynamic`` leaves the scales of values to each run. ``weights`` is ``"int8"`` or ``"int4"``:
    constants alone are stored so, ``block`` neighbours with a scale together (0: one a result), and
    ``compensate`` says whether they make up for each other's rounding. ``method`` is ``"min-max"``,
    ``"percentile"`` (with ``percentile``), ``"entropy"`` or ``"mse"``; ``equalise`` makes channels of
    values alike in reach, ``correct_bias`` has biases take up what layers are off by on average.
    ``keep_float`` names layers that stay float, ``max_loss`` such as ``"cosine=0.01"``,
    ``"error=0.05"`` or ``"class=0.01"`` leaves as many as it takes; where ``weights`` is ``"int4"``,
    layers have 8 bits first. ``target``, ``threads``, ``dims`` and ``limits`` are those of
    :func:`tilewright.compile`.

    Raises :class:`ModelError`, :class:`FileError`, :class:`InputError`, :class:`RunError`.
    """
    given = options(
        target=target, threads=threads, dims=dims, shapes=None, precision=None,
        symbolic=False, without_passes=None, limits=limits,
    )  # fmt: skip
    how = {
        "dynamic": bool(dynamic), "method": str(method), "percentile": float(percentile),
        "equalise": bool(equalise), "correct_bias": bool(correct_bias),
        "compensate": bool(compensate), "keep_float": [str(name) for name in keep_float],
    }  # fmt: skip
    if dynamic and weights is not None:
        raise ValueError("dynamic and weights exclude each other")
    if isinstance(keep_float, str):
        raise TypeError("keep_float: expected names of layers, not one text")
    if isinstance(block, bool) or not hasattr(block, "__index__") or block.__index__() < 0:
        raise ValueError(f"block: expected a number of weights, or 0, not {block!r}")
    if not 50 <= how["percentile"] <= 100:
        raise ValueError(f"percentile: expected one from 50 to 100, not {percentile!r}")
    if weights is not None:
        how.update(weights=str(weights), block=block.__index__())
    if max_loss is not None:
        how["max_loss"] = str(max_loss)
    return Quantised(*_native.quantise(model_argument(model), _samples(calibrate), given, how))


def _samples(calibrate):
    """Each sample as a dictionary or a list."""
    if calibrate is None:
        return []
    if isinstance(calibrate, (str, bytes, dict)):
        raise TypeError("calibrate: expected samples one after the other, such as a list of arrays")
    made = []
    for sample in calibrate:
        if isinstance(sample, (dict, list, tuple)):
            made.append(dict(sample) if isinstance(sample, dict) else list(sample))
        else:
            made.append([sample])
    return made

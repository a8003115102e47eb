"""Exceptions: every refusal of the compiler, with its code, place, reasons and remedy."""

from typing import NamedTuple, Optional, Sequence, Tuple


class Diagnostic(NamedTuple):
    """One thing that is wrong (or worth knowing) about a model or its inputs."""

    severity: str
    code: str
    message: str
    place: Optional[str]
    reasons: Tuple[str, ...]
    remedy: Optional[str]


class Error(Exception):
    """A refusal. Its text is what the command line prints.

    Attributes: ``diagnostics``, all that was found; and of the first of them ``code`` (such as
    ``"TW0204"``; docs/diagnostics.md explains each), ``message``, ``place``, ``reasons``, ``remedy``.
    """

    def __init__(self, text: str, diagnostics: Sequence[Diagnostic] = ()):
        super().__init__(text)
        self.diagnostics = tuple(diagnostics)
        first = self.diagnostics[0] if self.diagnostics else None
        self.code = first.code if first else None
        self.message = first.message if first else text
        self.place = first.place if first else None
        self.reasons = first.reasons if first else ()
        self.remedy = first.remedy if first else None

    def __reduce__(self):
        return type(self), (self.args[0], self.diagnostics)


class ModelError(Error, ValueError):
    """The model cannot be read, is not valid, or uses what is not supported (TW01)."""


class InputError(Error, ValueError):
    """Inputs or options do not fit the model (TW02)."""


class FileError(Error, OSError):
    """A file cannot be read or written (TW03)."""

    def __init__(self, text: str, diagnostics: Sequence[Diagnostic] = ()):
        Error.__init__(self, text, diagnostics)

    def __str__(self) -> str:
        return self.args[0]


class TargetError(Error, ValueError):
    """There is no such target, or this machine cannot run it (TW04)."""


class RunError(Error, RuntimeError):
    """A run met data that the model cannot compute with (TW05)."""


class InternalError(Error, RuntimeError):
    """The compiler broke a rule of its own (TW09): please report it."""


_CLASSES = {
    "TW01": ModelError,
    "TW02": InputError,
    "TW03": FileError,
    "TW04": TargetError,
    "TW05": RunError,
    "TW09": InternalError,
}


def exception(text, rows):
    """The exception for diagnostics; the compiler calls it."""
    found = [Diagnostic(s, c, m, p, tuple(reasons), r) for s, c, m, p, reasons, r in rows]
    kind = _CLASSES.get(found[0].code[:4], Error) if found else Error
    return kind(text, found)

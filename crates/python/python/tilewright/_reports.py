"""What explain, verify, diff, compare and bench find: text, numbers, and a form for notebooks.

``html`` and ``json`` are imported where they are used: they take longer than this package itself.
"""

import math
import os
from typing import Dict, List, NamedTuple, Optional


def _escaped(text) -> str:
    import html

    return html.escape(str(text))


class _Shown:
    def _repr_html_(self) -> str:
        return f"<pre>{_escaped(self)}</pre>"


class KernelRow(NamedTuple):
    """A kernel of a run: how often and how long it runs, and what was predicted."""

    kernel: str
    nodes: List[str]
    turns: int
    time_us: float
    predicted_us: float
    roofline: float


class Explanation(_Shown):
    """Where the time of a run goes. ``rows`` in the order of the run, ``total_us`` around them;
    ``data`` is all of it, as ``tilewright explain --json`` prints it."""

    def __init__(self, data, text):
        import json

        self.data: Dict = json.loads(data)
        self.total_us: float = self.data["total_us"]
        self.rows: List[KernelRow] = [
            KernelRow(*(row[name] for name in KernelRow._fields)) for row in self.data["rows"]
        ]
        self._text = text

    def __str__(self) -> str:
        return self._text

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = sorted(self.rows, key=lambda row: -row.time_us)
        cells = "".join(
            f"<tr><td>{_escaped(row.kernel)}</td><td>{_escaped(', '.join(row.nodes))}</td>"
            f"<td>{row.time_us:.1f}</td><td>{row.predicted_us:.1f}</td>"
            f"<td>{100 * row.roofline:.0f} %</td></tr>"
            for row in rows
        )
        head = "<th>kernel</th><th>nodes</th><th>µs</th><th>predicted</th><th>of roofline</th>"
        return (
            f"<p>{self.total_us:.1f} µs a run</p>"
            f"<table><thead><tr>{head}</tr></thead><tbody>{cells}</tbody></table>"
        )


class Exploration:
    """The explorer's page: ``html`` is all of it, a notebook shows it, ``write`` puts it in a file
    that any browser opens."""

    def __init__(self, page: str):
        self.html = page

    def write(self, path) -> None:
        """Writes the page, whole or not at all."""
        beside = f"{os.fspath(path)}.{os.getpid()}.tmp"
        try:
            with open(beside, "w", encoding="utf-8") as file:
                file.write(self.html)
            os.replace(beside, path)
        finally:
            if os.path.exists(beside):
                os.remove(beside)

    def __repr__(self) -> str:
        return f"<Exploration of {len(self.html)} characters: write(path)>"

    def _repr_html_(self) -> str:
        page = _escaped(self.html)
        return f'<iframe srcdoc="{page}" style="border:0;width:100%;height:820px"></iframe>'


def _table(head, rows) -> str:
    """A table of HTML; of each row whether it is good, and its cells."""
    cells = "".join(
        ("<tr>" if good else '<tr style="color:#b00020">')
        + "".join(f"<td>{_escaped(cell)}</td>" for cell in row)
        + "</tr>"
        for good, row in rows
    )
    names = "".join(f"<th>{_escaped(name)}</th>" for name in head)
    return f"<table><thead><tr>{names}</tr></thead><tbody>{cells}</tbody></table>"


def _number(value) -> str:
    return "" if value is None else f"{value:.1e}"


class _Report(_Shown):
    """``passed`` says whether all is right, which makes it true."""

    def __init__(self, passed, text):
        self.passed: bool = passed
        self._text = text

    def __bool__(self) -> bool:
        return self.passed

    def __str__(self) -> str:
        return self._text

    __repr__ = __str__


class OutputVerdict(NamedTuple):
    """An output: its ``error`` against the model in f64, ``most`` that is allowed (``None`` of
    integers, which are not judged by it), and ``failure``, what is wrong, or ``None``."""

    name: str
    error: float
    most: Optional[float]
    failure: Optional[str]


class KernelVerdict(NamedTuple):
    """A run of a kernel: the model's ``nodes`` that it computes, whether it ``is_compared``, and
    ``failure``, what is wrong, or why it is not compared; ``None`` if all is well."""

    kernel: str
    nodes: List[str]
    is_compared: bool
    failure: Optional[str]


class Verification(_Report):
    """What ``verify`` found; true if all that was compared is right. ``outputs`` and ``kernels``
    have a row each, ``blame`` says where outputs become wrong though all kernels are right, and
    ``sample`` what was compared of a model that takes the evaluator too long, else ``None``."""

    def __init__(self, passed, text, outputs, kernels, blame, sample):
        super().__init__(passed, text)
        self.outputs: List[OutputVerdict] = [
            OutputVerdict(name, error, most if math.isfinite(most) else None, failure)
            for name, error, most, failure in outputs
        ]
        self.kernels: List[KernelVerdict] = [KernelVerdict(*row) for row in kernels]
        self.blame: List[str] = blame
        self.sample: Optional[str] = sample

    def _repr_html_(self) -> str:
        outputs = [
            (not it.failure, (it.name, _number(it.error), _number(it.most), it.failure or "right"))
            for it in self.outputs
        ]
        told = [it for it in self.kernels if it.failure]
        kernels = [
            (not it.is_compared, (it.kernel, ", ".join(it.nodes), it.failure)) for it in told
        ]
        said = "all is right" if self.passed else "not all is right"
        compared = sum(it.is_compared for it in self.kernels)
        text = f"<p>{said}: {len(outputs)} outputs, {compared} kernels compared</p>"
        text += _table(("output", "error", "at most", ""), outputs)
        if kernels:
            text += _table(("kernel", "nodes", ""), kernels)
        return text + "".join(f"<p>{_escaped(it)}</p>" for it in [*self.blame, self.sample] if it)


class ComparisonRow(NamedTuple):
    """A tensor that both engines gave: of the value of a node, the ``node``. ``verdict`` is
    ``equal``, ``drawn``, ``rounded``, ``near``, ``peer off``, ``own off``, ``both off`` or
    ``unjudged``, of which the first four are good. ``absolute`` and ``relative`` are the largest
    differences of elements; ``own_error`` and ``peer_error`` how far both are from the model in
    f64, and ``most`` what rounding explains, where that was asked for."""

    node: Optional[str]
    name: str
    type: str
    absolute: Optional[float]
    relative: Optional[float]
    verdict: str
    is_good: bool
    own_error: Optional[float]
    peer_error: Optional[float]
    most: Optional[float]


class Comparison(_Report):
    """What ``compare`` found; true if both engines agree. ``peer`` names the other one, ``rows``
    are the outputs, or the values of all nodes."""

    def __init__(self, passed, text, peer, rows):
        super().__init__(passed, text)
        self.peer: str = peer
        nothing = (None, None, None)
        self.rows: List[ComparisonRow] = [
            ComparisonRow(*place, *(largest or nothing[:2]), *verdict, *(errors or nothing))
            for place, largest, verdict, errors in rows
        ]

    def _repr_html_(self) -> str:
        head = ("node", "value", "type", "absolute", "relative", "verdict")
        rows = [
            (it.is_good, (it.node or "output", it.name, it.type, _number(it.absolute),
                          _number(it.relative), it.verdict))
            for it in self.rows
        ]  # fmt: skip
        said = "agree" if self.passed else "differ"
        return f"<p>this and {_escaped(self.peer)} {said}</p>" + _table(head, rows)


class Difference(_Shown):
    """The first node whose value differs between two configurations: the ``node``, the ``value``'s
    name, ``comparison``, how it differs, and the ``nodes`` that it takes to show it."""

    def __init__(self, node, value, comparison, nodes, text):
        self.node: str = node
        self.value: str = value
        self.comparison: str = comparison
        self.nodes: List[str] = nodes
        self._text = text

    def __str__(self) -> str:
        return self._text

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = [(True, (self.node, self.value, self.comparison, ", ".join(self.nodes)))]
        return _table(("node", "value", "", "nodes that it takes"), rows)


class Measurement(_Shown):
    """Times in milliseconds, and memory; every figure is an attribute."""

    def __init__(self, figures: str):
        import json

        self.figures: Dict = json.loads(figures)

    def __getattr__(self, name):
        try:
            return self.__dict__["figures"][name]
        except KeyError:
            raise AttributeError(name) from None

    def __str__(self) -> str:
        return "\n".join(f"{name:<16} {value}" for name, value in self.figures.items())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return _table(("figure", ""), [(True, row) for row in self.figures.items()])

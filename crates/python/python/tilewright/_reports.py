"""What explain, verify, diff, compare and bench find: text, numbers, and a form for notebooks."""

import html
import json
import os
from typing import Dict, List, NamedTuple


class _Shown:
    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


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
            f"<tr><td>{html.escape(row.kernel)}</td><td>{html.escape(', '.join(row.nodes))}</td>"
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
        page = html.escape(self.html)
        return f'<iframe srcdoc="{page}" style="border:0;width:100%;height:820px"></iframe>'


class Report(_Shown):
    """What ``verify`` and ``compare`` found; true if all is right."""

    def __init__(self, passed, text):
        self.passed: bool = passed
        self._text = text

    def __bool__(self) -> bool:
        return self.passed

    def __str__(self) -> str:
        return self._text

    __repr__ = __str__


class Difference(_Shown):
    """The first node whose value differs between two configurations, and how."""

    def __init__(self, node, value, text):
        self.node: str = node
        self.value: str = value
        self._text = text

    def __str__(self) -> str:
        return self._text

    __repr__ = __str__


class Measurement(_Shown):
    """Times in milliseconds, and memory; every figure is an attribute."""

    def __init__(self, figures: str):
        self.figures: Dict = json.loads(figures)

    def __getattr__(self, name):
        try:
            return self.__dict__["figures"][name]
        except KeyError:
            raise AttributeError(name) from None

    def __str__(self) -> str:
        return "\n".join(f"{name:<16} {value}" for name, value in self.figures.items())

    __repr__ = __str__

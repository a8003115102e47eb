from typing import Any, Mapping

from .torch import Report

class CompiledProgram:
    report: Report
    def __init__(self, program: Any, options: Mapping[str, Any]) -> None: ...
    def __call__(self, *values: Any, **named: Any) -> Any: ...

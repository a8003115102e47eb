from typing import Any, Callable, List, Mapping, Optional, Sequence, Tuple

class EagerWarning(UserWarning): ...

class Report:
    nodes: int
    pieces: int
    compiles: int
    refits: int
    seconds: float
    compile_seconds: float
    eager: List[Tuple[str, str, str]]
    @property
    def arena_bytes(self) -> int: ...

def reports() -> List[Report]: ...
def backend(
    module: Any,
    example_inputs: Sequence[Any],
    *,
    options: Optional[Mapping[str, Any]] = ...,
    mode: Optional[str] = ...,
) -> Callable[..., Any]: ...

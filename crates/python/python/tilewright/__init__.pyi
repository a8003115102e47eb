import os
from types import ModuleType
from typing import (
    TYPE_CHECKING,
    Any,
    Dict,
    Iterable,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
    Union,
    overload,
)

from ._errors import Diagnostic as Diagnostic
from ._errors import Error as Error
from ._errors import FileError as FileError
from ._errors import InputError as InputError
from ._errors import InternalError as InternalError
from ._errors import ModelError as ModelError
from ._errors import RunError as RunError
from ._errors import TargetError as TargetError
from ._exported import CompiledProgram
from ._language import LLM as LLM
from ._language import GeneratedText as GeneratedText
from ._language import TextStream as TextStream
from ._quantise import Quantised as Quantised
from ._reports import Comparison as Comparison
from ._reports import ComparisonRow as ComparisonRow
from ._reports import Difference as Difference
from ._reports import Exploration as Exploration
from ._reports import Explanation as Explanation
from ._reports import KernelRow as KernelRow
from ._reports import KernelVerdict as KernelVerdict
from ._reports import Measurement as Measurement
from ._reports import OutputVerdict as OutputVerdict
from ._reports import Verification as Verification
from ._session import ExecutionMode as ExecutionMode
from ._session import ExecutionOrder as ExecutionOrder
from ._session import GraphOptimizationLevel as GraphOptimizationLevel
from ._session import InferenceSession as InferenceSession
from ._session import IOBinding as IOBinding
from ._session import ModelMetadata as ModelMetadata
from ._session import NodeArg as NodeArg
from ._session import OrtDevice as OrtDevice
from ._session import OrtValue as OrtValue
from ._session import RunOptions as RunOptions
from ._session import SessionOptions as SessionOptions

if TYPE_CHECKING:
    from torch.export import ExportedProgram

__version__: str

class Port(NamedTuple):
    name: str
    dtype: Optional[str]
    shape: Tuple[Union[int, str, None], ...]
    kind: str

class CompiledModel:
    inputs: List[Port]
    outputs: List[Port]
    @property
    def target(self) -> str: ...
    @property
    def threads(self) -> int: ...
    def __call__(self, *values: Any, **named: Any) -> Any: ...
    def run(self, inputs: Union[Mapping[str, Any], Iterable[Any]]) -> Dict[str, Any]: ...
    def prepare(self, *values: Any, **named: Any) -> None: ...
    def save(self, path: Union[str, "os.PathLike[str]"]) -> None: ...
    def statistics(self) -> Dict[str, int]: ...
    def example_inputs(self) -> List[Any]: ...
    def explain(
        self, *values: Any, reasons: bool = ..., top: Optional[int] = ..., **named: Any
    ) -> Explanation: ...
    def explore(
        self, *values: Any, title: str = ..., beside: Optional["Model"] = ..., **named: Any
    ) -> Exploration: ...
    def verify(self, *values: Any, all: bool = ..., **named: Any) -> Verification: ...
    def bench(self, *values: Any, seconds: float = ..., **named: Any) -> Measurement: ...
    def diff(
        self, *values: Any, other: Optional[Mapping[str, Any]] = ..., **named: Any
    ) -> Optional[Difference]: ...
    def compare(
        self,
        *values: Any,
        python: Union[str, "os.PathLike[str]", None] = ...,
        nodes: bool = ...,
        seconds: int = ...,
        **named: Any,
    ) -> Comparison: ...

def load(
    path: Union[str, "os.PathLike[str]"],
    *,
    threads: Optional[int] = ...,
    limits: Optional[Mapping[str, int]] = ...,
) -> CompiledModel: ...
@overload
def compile(
    model: "ExportedProgram",
    *,
    target: Optional[str] = ...,
    threads: Optional[int] = ...,
    precision: Optional[str] = ...,
    symbolic: bool = ...,
    without_passes: Optional[Iterable[str]] = ...,
    limits: Optional[Mapping[str, int]] = ...,
) -> CompiledProgram: ...
@overload
def compile(
    model: Any,
    *,
    target: Optional[str] = ...,
    threads: Optional[int] = ...,
    dims: Optional[Mapping[str, int]] = ...,
    shapes: Optional[Mapping[str, Sequence[int]]] = ...,
    precision: Optional[str] = ...,
    symbolic: bool = ...,
    without_passes: Optional[Iterable[str]] = ...,
    limits: Optional[Mapping[str, int]] = ...,
) -> CompiledModel: ...
def quantise(
    model: Any,
    calibrate: Optional[Iterable[Any]] = ...,
    *,
    dynamic: bool = ...,
    weights: Optional[str] = ...,
    block: int = ...,
    method: str = ...,
    percentile: float = ...,
    equalise: bool = ...,
    correct_bias: bool = ...,
    compensate: bool = ...,
    keep_float: Iterable[str] = ...,
    max_loss: Optional[str] = ...,
    target: Optional[str] = ...,
    threads: Optional[int] = ...,
    dims: Optional[Mapping[str, int]] = ...,
    limits: Optional[Mapping[str, int]] = ...,
) -> Quantised: ...
def runs_here() -> bool: ...
def get_available_providers() -> List[str]: ...
def get_all_providers() -> List[str]: ...
def get_device() -> str: ...
def set_default_logger_severity(severity: int) -> None: ...
def set_default_logger_verbosity(verbosity: int) -> None: ...
def set_seed(seed: int) -> None: ...
def disable_telemetry_events() -> None: ...
def enable_telemetry_events() -> None: ...
def get_version_string() -> str: ...
def get_build_info() -> str: ...

def replace_onnxruntime() -> ModuleType: ...

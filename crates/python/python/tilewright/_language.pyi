import os
from typing import (
    Any,
    Dict,
    Iterable,
    Iterator,
    List,
    Literal,
    Mapping,
    Optional,
    Sequence,
    Tuple,
    Union,
    overload,
)

class GeneratedText(str):
    tokens: Tuple[int, ...]
    reason: str
    def __new__(cls, text: str, tokens: Iterable[int], reason: str) -> "GeneratedText": ...

class TextStream(Iterator[str]):
    text: Optional[GeneratedText]
    def __iter__(self) -> "TextStream": ...
    def __next__(self) -> str: ...

Messages = Union[str, Iterable[Dict[str, str]]]
Stop = Union[str, Sequence[str], None]

class LLM:
    context: int
    def __init__(
        self,
        model: Union[str, "os.PathLike[str]"],
        *,
        threads: Optional[int] = ...,
        target: Optional[str] = ...,
        activations: Optional[str] = ...,
        context: Optional[int] = ...,
        limits: Optional[Mapping[str, int]] = ...,
    ) -> None: ...
    def encode(self, text: str, *, control: bool = ...) -> List[int]: ...
    def decode(self, tokens: Iterable[int]) -> str: ...
    def encode_chat(self, messages: Messages) -> List[int]: ...
    def save(self, path: Union[str, "os.PathLike[str]"], *, context: int = ...) -> None: ...
    @overload
    def generate(
        self,
        prompt: Union[str, Iterable[int]],
        max_tokens: int = ...,
        *,
        temperature: float = ...,
        top_k: int = ...,
        top_p: float = ...,
        min_p: float = ...,
        repetition_penalty: float = ...,
        seed: int = ...,
        stop: Stop = ...,
        stream: Literal[False] = ...,
    ) -> GeneratedText: ...
    @overload
    def generate(
        self,
        prompt: Union[str, Iterable[int]],
        max_tokens: int = ...,
        *,
        temperature: float = ...,
        top_k: int = ...,
        top_p: float = ...,
        min_p: float = ...,
        repetition_penalty: float = ...,
        seed: int = ...,
        stop: Stop = ...,
        stream: Literal[True],
    ) -> TextStream: ...
    def chat(self, messages: Messages, max_tokens: int = ..., **options: Any) -> Any: ...

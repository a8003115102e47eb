"""Language models: texts that go on, and answers."""

import math
import os
from typing import Dict, Iterator, List, Optional, Tuple

from . import _native
from ._errors import ModelError
from ._model import options, whole


class GeneratedText(str):
    """What a language model has written.

    Beside the text there are ``tokens``, those of the text, one that ended it included, and
    ``reason``: ``"end"`` (the model ended it), ``"stop"`` (one of the texts at which it was to
    end), ``"length"`` (there are as many tokens as were asked for), ``"context"`` (there is no room
    for more) or ``"no number"`` (the model computed none).
    """

    tokens: Tuple[int, ...]
    reason: str

    def __new__(cls, text, tokens, reason):
        made = super().__new__(cls, text)
        made.tokens, made.reason = tuple(tokens), reason
        return made

    def __reduce__(self):
        return GeneratedText, (str(self), self.tokens, self.reason)


class TextStream(Iterator[str]):
    """Pieces of a text, each as soon as it is settled, in whole characters.

    Behind the last piece ``text`` is the whole :class:`GeneratedText`; before it is ``None``. What
    is not asked for is not written: who wants no more of it stops asking.
    """

    def __init__(self, native):
        self._native, self._pieces = native, []
        self.text: Optional[GeneratedText] = None

    def __iter__(self) -> "TextStream":
        return self

    def __next__(self) -> str:
        while self.text is None:
            piece, reason = self._native.step()
            self._pieces.append(piece)
            if reason is not None:
                self.text = GeneratedText("".join(self._pieces), self._native.tokens, reason)
            if piece:
                return piece
        raise StopIteration


class LLM:
    """A language model: a GGUF file, a folder as Hugging Face writes it, or an engine file that
    :meth:`save` or ``tilewright compile --emit engine`` has written.

    >>> model = tilewright.LLM("model.gguf")
    >>> model.generate("Once upon a time", max_tokens=50)

    ``activations="int8"`` rounds the data of products with weights in blocks to 8 bits, which is
    faster and less exact; ``context`` is how many tokens of prompt and text there is room for, by
    default as many as the model was made for (memory is taken when it is used); ``target``,
    ``threads`` and ``limits`` are those of :func:`tilewright.compile`. Any number of threads may
    call it at once: the interpreter lock is released meanwhile.

    A tokenizer of a folder (``tokenizer.json``) is read where the package was built with what reads
    it; else the folder is refused, and its model is to be converted to GGUF.

    Raises :class:`ModelError` for what is no language model, :class:`FileError`,
    :class:`TargetError`.
    """

    def __init__(
        self, model, *, threads=None, target=None, activations=None, context=None, limits=None
    ):
        if not isinstance(model, (str, os.PathLike)):
            kind = f"{type(model).__module__}.{type(model).__qualname__}"
            raise TypeError(f"model: expected a path, not {kind}")
        given = options(
            target=target, threads=threads, dims=None, shapes=None, precision=None,
            symbolic=False, without_passes=None, limits=limits,
        )  # fmt: skip
        if activations is not None:
            given["activations"] = str(activations)
        room = None if context is None else whole("context", context, 1)
        self._path = os.fspath(model)
        self._native = _native.read_language(self._path, given)
        self.context: int = self._native.trained_places if room is None else room

    def __repr__(self) -> str:
        tokens = f"{self._native.vocabulary} tokens"
        return f"<tilewright.LLM of {self._path}: {tokens}, room for {self.context} of a text>"

    def encode(self, text: str, *, control: bool = False) -> List[int]:
        """The tokens of a text, those that begin and end texts included where the model wants them.
        With ``control`` names of tokens such as ``<|im_end|>`` stand for these."""
        if not isinstance(text, str):
            raise TypeError(f"text: expected a text, not {text!r}")
        return self._native.encode(text, bool(control))

    def decode(self, tokens) -> str:
        """The text of tokens."""
        return self._native.decode(_tokens("tokens", tokens))

    def save(self, path, *, context=4096) -> None:
        """Saves what has been compiled as an engine file, which starts mapped and compiles nothing
        for texts of up to ``context`` tokens; code for longer ones is made when it is met.

        Raises :class:`FileError`.
        """
        self._native.save(os.fspath(path), min(whole("context", context, 1), self.context))

    def generate(
        self, prompt, max_tokens=256, *, temperature=0.0, top_k=0, top_p=1.0, min_p=0.0,
        repetition_penalty=1.0, seed=0, stop=None, stream=False,
    ):  # fmt: skip
        """Continues a prompt, a text or a list of tokens, by at most ``max_tokens`` tokens.

        With ``temperature`` 0 each token is the likeliest; else it is drawn, and the same ``seed``
        draws the same: of the ``top_k`` likeliest tokens (0: of all), of the likeliest that
        together are at least as likely as ``top_p``, of those at least ``min_p`` times as likely as the
        likeliest. ``repetition_penalty`` divides the logits of tokens that came shortly before.
        ``stop`` is a text, or several, at which the text ends, and which is not part of it.

        Returns a :class:`GeneratedText`, a ``str``; with ``stream`` a :class:`TextStream`, which
        gives it piece by piece.

        Raises :class:`RunError` for a prompt without tokens, that is too long, or that has tokens
        which the model does not have.
        """
        tokens = self.encode(prompt) if isinstance(prompt, str) else _tokens("prompt", prompt)
        how = _how(
            max_tokens, temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p,
            repetition_penalty=repetition_penalty, seed=seed, stop=stop,
        )  # fmt: skip
        made = TextStream(self._native.begin(tokens, self.context, how))
        if stream:
            return made
        for _ in made:
            pass
        return made.text

    def chat(self, messages, max_tokens=256, **options):
        """Answers messages, dictionaries of ``role`` (``"system"``, ``"user"``, ``"assistant"``)
        and ``content``, or one text of the user's. They are written by the template of the model's file
        with the package ``jinja2``; the options are those of :meth:`generate`.

        Raises :class:`ModelError` for a model without a template, or whose template refuses the
        messages; :class:`ImportError` without ``jinja2``.
        """
        return self.generate(self.encode_chat(messages), max_tokens, **options)

    def encode_chat(self, messages) -> List[int]:
        """The tokens of messages as :meth:`chat` writes them, with the beginning of the answer."""
        template = self._native.chat_template
        if template is None:
            raise ModelError(
                "the model has no chat template: it continues texts, and was not made to answer; "
                "give it a text to go on with"
            )
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        first, last = self._native.around
        text = _written(template, [_message(one) for one in messages], first, last)
        return self.encode(text, control=True)


def _message(one) -> Dict[str, str]:
    if not isinstance(one, dict) or not all(isinstance(one.get(k), str) for k in _MESSAGE):
        raise TypeError(f"messages: expected dictionaries of role and content, not {one!r}")
    return {key: one[key] for key in _MESSAGE}


_MESSAGE = ("role", "content")


def _written(template, messages, first, last) -> str:
    """Messages as a template has them written, which may do nothing but that."""
    try:
        from jinja2 import TemplateError
        from jinja2.sandbox import ImmutableSandboxedEnvironment
    except ImportError as missing:
        reason = "chat templates are written with the package jinja2: python -m pip install jinja2"
        raise ImportError(reason) from missing

    def refuse(reason):
        raise ModelError(f"the chat template of the model refuses the messages: {reason}")

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.globals["raise_exception"] = refuse
    try:
        return environment.from_string(template).render(
            messages=messages, bos_token=first, eos_token=last, add_generation_prompt=True
        )
    except (TemplateError, OverflowError, RecursionError) as found:
        raise ModelError(f"the chat template of the model cannot be used: {found}") from found


def _tokens(name, tokens) -> List[int]:
    if isinstance(tokens, (str, bytes, dict)) or not hasattr(tokens, "__iter__"):
        other = "a text or " if name == "prompt" else ""
        raise TypeError(f"{name}: expected {other}tokens, not {tokens!r}")
    return [whole(name, token, 0, 2**32 - 1) for token in tokens]


def _number(name, value, least, most=math.inf) -> float:
    if isinstance(value, (str, bytes, bool)):
        raise TypeError(f"{name}: expected a number, not {value!r}")
    value = float(value)
    if not least <= value <= most or math.isinf(value):
        bounds = f"from {least:g} to {most:g}" if most < math.inf else f"of at least {least:g}"
        raise ValueError(f"{name}: expected a number {bounds}, not {value!r}")
    return value


def _how(max_tokens, *, temperature, top_k, top_p, min_p, repetition_penalty, seed, stop):
    """The options of a text, checked, as the compiler takes them."""
    penalty = _number("repetition_penalty", repetition_penalty, 0.0)
    if penalty == 0.0:
        raise ValueError("repetition_penalty: expected a number above 0")
    stops = [stop] if isinstance(stop, str) or not hasattr(stop, "__iter__") else list(stop)
    stops = [] if stop is None else stops
    if not all(isinstance(one, str) for one in stops):
        raise TypeError(f"stop: expected a text, or several, not {stop!r}")
    return {
        "max_tokens": whole("max_tokens", max_tokens, 0),
        "temperature": _number("temperature", temperature, 0.0),
        "top_k": whole("top_k", top_k, 0),
        "top_p": _number("top_p", top_p, 0.0, 1.0),
        "min_p": _number("min_p", min_p, 0.0, 1.0),
        "repetition_penalty": penalty,
        "seed": whole("seed", seed, 0),
        "stop": stops,
    }

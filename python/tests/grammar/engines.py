"""Two grammar engines, as one thing to walk.

In: tools, a tool choice, what the prompt left open. Out: the tokens that may come next. Held: an engine's matcher.
"""

from __future__ import annotations

import json
from typing import Any, ClassVar, Protocol

import llguidance
import llguidance.numpy
import numpy
import xgrammar
from vocabulary import CONTROL, EOS, FIRST_CONTROL, TOKENS


class Walker(Protocol):
    """A grammar that is being walked."""

    def allowed(self) -> list[int]:
        """The tokens that may come next; none at the end."""

    def take(self, token: int) -> None:
        """Goes on by a token."""

    def is_done(self) -> bool:
        """Whether what was taken is all that the grammar wants."""


def numbers(mask: Any) -> list[int]:
    """The numbers of the bits that are set."""
    bits = numpy.unpackbits(numpy.asarray(mask, dtype=numpy.int32).view(numpy.uint8), bitorder="little")
    return [int(number) for number in numpy.flatnonzero(bits[: len(TOKENS)])]


class XGrammar:
    """xgrammar's own structural tag of `kimi_k3`."""

    info = xgrammar.TokenizerInfo(TOKENS, vocab_type=xgrammar.VocabType.RAW, stop_token_ids=[EOS])
    compiler = xgrammar.GrammarCompiler(info)

    def __init__(self, tools: list[Any], choice: Any, opened: str, parallel: bool) -> None:
        tag = xgrammar.get_model_structural_tag(
            "kimi_k3",
            tools=tools,
            tool_choice=choice,
            reasoning="enabled" if opened == "think" else "disabled",
            parallel_tool_calls=parallel,
        )
        self.matcher = xgrammar.GrammarMatcher(self.compiler.compile_structural_tag(tag))
        self.mask = xgrammar.allocate_token_bitmask(1, len(TOKENS))

    def allowed(self) -> list[int]:
        if self.matcher.is_terminated():
            return []
        self.matcher.fill_next_token_bitmask(self.mask)
        return numbers(self.mask[0].numpy())

    def take(self, token: int) -> None:
        assert self.matcher.accept_token(token), TOKENS[token]

    def is_done(self) -> bool:
        return bool(self.matcher.is_completed())


class _Tokenizer:
    eos_token_id = EOS
    bos_token_id = None
    tokens: ClassVar = [b"\xff" + token if number >= FIRST_CONTROL else token for number, token in enumerate(TOKENS)]
    special_token_ids: ClassVar = list(range(FIRST_CONTROL, len(TOKENS)))

    def __call__(self, text: bytes | str) -> list[int]:
        return list(text.encode() if isinstance(text, str) else text)


def attribute(text: str) -> str:
    """A value of an attribute."""
    return text.replace("&", "&amp;").replace('"', "&quot;")


class LlGuidance:
    """llguidance, with control tokens by their ids: no text is one."""

    tokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(_Tokenizer()))

    def __init__(self, tools: list[Any], choice: Any, opened: str, parallel: bool) -> None:
        [tool] = tools
        self.matcher = llguidance.LLMatcher(self.tokenizer, grammar(tool["function"], choice, opened, parallel))
        if error := self.matcher.get_error():
            raise ValueError(error)
        self.mask = llguidance.numpy.allocate_token_bitmask(1, len(TOKENS))

    def allowed(self) -> list[int]:
        if self.matcher.is_stopped():
            return []
        llguidance.numpy.fill_next_token_bitmask(self.matcher, self.mask, 0)
        return numbers(self.mask[0])

    def take(self, token: int) -> None:
        assert self.matcher.consume_token(token), self.matcher.get_error()

    def is_done(self) -> bool:
        return bool(self.matcher.is_accepting())


#: The types of the wire, by those of a schema.
TYPES = {"integer": "number", "number": "number", "boolean": "boolean", "null": "null", "array": "array"}


def grammar(function: Any, choice: Any, opened: str, parallel: bool) -> str:
    """The format's grammar of one tool, as Lark."""
    spelled = {"[EOS]": "F", "<|end_of_msg|>": "E", "<|open|>": "O", "<|close|>": "C", "<|sep|>": "S"}
    tokens = {letter: f"<[{FIRST_CONTROL + list(CONTROL).index(name)}]>" for name, letter in spelled.items()}
    o, c, s = tokens["O"], tokens["C"], tokens["S"]
    parameters = function["parameters"]
    shared = {key: parameters[key] for key in ("$defs", "definitions") if key in parameters}
    required = parameters.get("required", [])
    arguments, rules = [], []
    for number, (key, schema) in enumerate(parameters.get("properties", {}).items()):
        schema = schema if isinstance(schema, dict) else {}
        if schema.get("type") == "string" and schema.keys() <= {"type", "description", "title", "default"}:
            kind, value = "string", "text"
        else:
            kind, value = TYPES.get(str(schema.get("type")), "object"), f"%json {json.dumps({**schema, **shared})}"
        head = json.dumps(f'argument key="{attribute(key)}" type="{kind}"')
        rules.append(f'a{number}: {o} {head} {s} v{number} {c} "argument" {s}\nv{number}: {value}')
        arguments.append(f"a{number}" if key in required else f"a{number}?")
    head = json.dumps(f'call tool="{attribute(function["name"])}" index="')
    body = " ".join(arguments)
    calls = "call" if not parallel else "call+"
    think = f'text {c} "think" {s}' + f' {o} "response" {s}' if opened == "think" else ""
    needed = "" if choice != "auto" else "?"
    return "\n".join(
        [
            "%llguidance {}",
            f'start: {think} text {c} "response" {s} tools{needed} {c} "message" {s}',
            f'tools: {o} "tools" {s} {calls} {c} "tools" {s}',
            f'call: {o} {head} /[1-9][0-9]?/ "\\"" {s} {body} {c} "call" {s}',
            "text: /(.|\\n)*/",
            *rules,
        ]
    )


ENGINES: dict[str, Any] = {"xgrammar": XGrammar, "llguidance": LlGuidance}

"""What the engine tests share: streams and their results as a client sees them, a tokenizer, requests.

In: the corpora. Out: streams whose ids are those of Kimi's tokenizer, cut and delayed as engines do it.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import corpora
from corpora import Stream

CONTROL = {"[EOS]": 163585, "<|end_of_msg|>": 163586, "<|open|>": 163587, "<|close|>": 163588, "<|sep|>": 163589}
NAMES = {
    "think": 39964,
    "response": 12092,
    "tools": 25385,
    "call": 10257,
    "argument": 47185,
    "json": 5534,
    "message": 2778,
}
PROMPTS = {
    "think": [CONTROL["<|open|>"], NAMES["think"], CONTROL["<|sep|>"]],
    "response": [CONTROL["<|open|>"], NAMES["response"], CONTROL["<|sep|>"]],
}


class Tokenizer:
    """As much of a tokenizer as parsers ask for."""

    all_special_tokens = tuple(CONTROL)

    def get_vocab(self) -> dict[str, int]:
        return CONTROL | NAMES

    @property
    def vocab(self) -> dict[str, int]:
        return self.get_vocab()

    def encode(self, text: str, add_special_tokens: bool = False) -> list[int]:
        ids: list[int] = []
        while text:
            known = next((word for word in CONTROL | NAMES if text.startswith(word)), text[0])
            ids.append((CONTROL | NAMES).get(known, ord(known[0])))
            text = text[len(known) :]
        return ids

    def decode(self, ids: list[int], skip_special_tokens: bool = False) -> str:
        words = {number: word for word, number in (CONTROL | NAMES).items()}
        return "".join(words.get(number) or chr(number) for number in ids)

    def convert_tokens_to_ids(self, token: str) -> int | None:
        return self.get_vocab().get(token)


def of_engines() -> list[Stream]:
    """The streams that an engine can give: text, after a prompt that left a channel open."""
    return [
        stream
        for stream in corpora.streams()
        if stream.context.get("initial_channel") in PROMPTS and all(isinstance(chunk, str) for chunk in stream.chunks)
    ]


def stopped(stream: Stream) -> Stream:
    """The stream as engines give it: with the end token's id, and without its text."""
    chunks = [str(chunk) for chunk in stream.chunks]
    if chunks and chunks[-1].endswith("<|end_of_msg|>"):
        chunks[-1] = chunks[-1].removesuffix("<|end_of_msg|>")
    return replace(stream, chunks=chunks)


def deltas(stream: Stream, size: int = 1, lag: int = 0) -> Iterator[tuple[str, list[int]]]:
    """Text and ids of each delta: `size` recorded chunks each, the text `lag` deltas behind the ids."""
    chunks = [str(chunk) for chunk in stream.chunks]
    ids = stream.ids or [[] for _ in chunks]
    texts = ["".join(chunks[at : at + size]) for at in range(0, len(chunks), size)]
    numbers = [[number for some in ids[at : at + size] for number in some] for at in range(0, len(chunks), size)]
    for text, some in zip([""] * lag + texts, numbers + [[]] * lag, strict=True):
        if text or some:
            yield text, some


def seen(result: dict[str, Any], *, incomplete: bool) -> dict[str, Any]:
    """A result as an engine's client sees it, with or without the calls that are not whole."""
    return {
        "reasoning": result["reasoning"],
        "content": result["content"],
        "tool_calls": [call[:2] for call in result["tool_calls"] if incomplete or call[2]],
    }


def right(stream: Stream, told: dict[str, Any], *, incomplete: bool) -> bool:
    """Whether an engine's answer is one of the accepted ones."""
    return told in [seen(result, incomplete=incomplete) for result in stream.accepted]


def tools(stream: Stream) -> list[dict[str, Any]] | None:
    """The request's tools as clients declare them."""
    return [
        {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}}
        for name in stream.context.get("tools", [])
    ] or None

"""The adapter in Dynamo's SGLang processor, which builds the parsers itself and decodes tokens itself."""

from typing import Any

import pytest

pytest.importorskip("dynamo.frontend.sglang_prepost")

from dynamo.frontend.sglang_prepost import SglangStreamingPostProcessor, convert_tools, create_parsers

import kimi_xtml.sglang
from corpora import Stream
from harness import of_engines, right, seen, tools


class Spelled:
    """The tokenizer of one stream: what each of its ids spells."""

    def __init__(self, stream: Stream) -> None:
        self.words = {number: str(text) for (number,), text in zip(stream.ids or [], stream.chunks, strict=True)}

    def decode(self, ids: list[int], skip_special_tokens: bool = False) -> str:
        return "".join(self.words.get(number, "") for number in ids)


# One token a delta, each with a text of its own.
STREAMS = [
    stream
    for stream in of_engines()
    if stream.ids and not stream.identity and all(len(ids) == 1 for ids in stream.ids) and all(stream.chunks)
]


def told(name: str, stream: Stream, size: int) -> dict[str, Any]:
    declared = tools(stream)
    request = {"tools": declared, "tool_choice": stream.context.get("tool_choice") or "auto"}
    tokenizer = Spelled(stream)
    tool_parser, reasoning_parser = create_parsers(
        request,
        tool_call_parser_name=name,
        reasoning_parser_name=name,
        force_reasoning=stream.context["initial_channel"] == "think",
        guided_decoding={"structural_tag": {}},
        tokenizer=tokenizer,
    )
    post = SglangStreamingPostProcessor(
        tokenizer=tokenizer,
        tool_call_parser=tool_parser,
        reasoning_parser=reasoning_parser,
        sglang_tools=convert_tools(declared),
        tool_call_parser_name=name,
        eos_token_ids=[163586],
    )
    answer: dict[str, Any] = {"reasoning": "", "content": "", "tool_calls": []}
    ids = [number for (number,) in stream.ids or []]
    for at in range(0, len(ids), size):
        last = at + size >= len(ids)
        choice = post.process_output(
            {"token_ids": ids[at : at + size], "finish_reason": stream.reason if last else None}
        )
        delta = choice["delta"] if choice else {}
        answer["reasoning"] += delta.get("reasoning_content") or ""
        answer["content"] += delta.get("content") or ""
        for call in delta.get("tool_calls") or []:
            answer["tool_calls"].append((call["function"]["name"], call["function"]["arguments"]))
    return answer


@pytest.fixture(scope="module", autouse=True)
def _registered() -> None:
    kimi_xtml.sglang.register()


def fits(stream: Stream, answer: dict[str, Any]) -> bool:
    """Right, but for what Dynamo leaves out itself: calls that are not whole, and calls of tools not declared."""
    names = stream.context.get("tools", [])
    for result in stream.accepted:
        expected = seen(result, incomplete=False)
        expected["tool_calls"] = [call for call in expected["tool_calls"] if call[0] in names]
        if answer == expected:
            return True
    return right(stream, answer, incomplete=True)


@pytest.mark.parametrize("size", [1, 3, 10**6])
def test_streamed(size: int) -> None:
    assert len(STREAMS) > 60
    answers = {stream.id: told("kimi_xtml", stream, size) for stream in STREAMS}
    assert not {
        stream.id: (answers[stream.id], stream.accepted) for stream in STREAMS if not fits(stream, answers[stream.id])
    }

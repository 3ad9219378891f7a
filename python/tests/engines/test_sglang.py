"""The adapter against the SGLang that is installed here: streamed and not, for every recorded stream.

Driven as `serving_chat` does it: reasoning parser, then tool parser on what it left. SGLang passes no token ids.
"""

import subprocess
import sys
from typing import Any

import pytest

pytest.importorskip("sglang.srt.function_call.function_call_parser")

from sglang.srt.entrypoints.openai.protocol import ChatCompletionRequest
from sglang.srt.function_call.function_call_parser import FunctionCallParser
from sglang.srt.parser.reasoning_parser import ReasoningParser

import kimi_xtml.sglang
from corpora import Stream
from harness import Tokenizer, deltas, of_engines, right, stopped, tools

STREAMS = [stream for stream in of_engines() if not stream.identity]
TOKENIZER = Tokenizer()


def request_of(stream: Stream, **more: Any) -> ChatCompletionRequest:
    fields: dict[str, Any] = {"model": "k3", "messages": [{"role": "user", "content": "?"}]}
    declared = tools(stream)
    if declared:
        fields |= {"tools": declared, "tool_choice": stream.context.get("tool_choice") or "auto"}
    return ChatCompletionRequest(**(fields | more))


class Choice:
    """One choice of an answer, as `serving_chat` drives it."""

    def __init__(self, name: str, stream: Stream, *, streamed: bool = True, **more: Any) -> None:
        self.request = request = request_of(stream, **more)
        detector = FunctionCallParser.ToolCallParserEnum[name]
        declared = request.tools or []
        # As in _tool_call_parsing_active.
        self.active = detector.parses_without_tools() if not declared else request.tool_choice != "none"
        self.reasoning_parser = ReasoningParser(
            name,
            stream_reasoning=streamed and request.stream_reasoning,
            force_reasoning=stream.context["initial_channel"] == "think",
            request=request,
            tokenizer=TOKENIZER,
            tool_call_parser_active=self.active,
        )
        self.tool_parser = (
            FunctionCallParser(
                tools=declared, tool_call_parser=name, tokenizer=TOKENIZER, tool_choice=request.tool_choice
            )
            if self.active
            else None
        )
        if request.tool_choice == "required":
            assert self.tool_parser
            assert self.tool_parser.owns_tool_format()
        self.ours = name == "kimi_xtml"
        self.reasoning, self.content, self.calls = "", "", []
        self.at: dict[int, int] = {}

    def step(self, text: str, reason: str | None) -> None:
        reasoning, rest = self.reasoning_parser.parse_stream_chunk(text)
        if reason:
            more_reasoning, more = self.reasoning_parser.parse_stream_end()
            reasoning, rest = (reasoning or "") + (more_reasoning or ""), (rest or "") + (more or "")
        self.reasoning += reasoning or ""
        if self.tool_parser is None:
            self.content += rest
            return
        content, items = self.tool_parser.parse_stream_chunk(rest)
        if reason:
            more_content, more_items = self.tool_parser.parse_stream_end()
            content, items = (content or "") + more_content, list(items) + more_items
        self.content += content or ""
        for item in items:
            if item.name:
                self.at[item.tool_index] = len(self.calls)
                self.calls.append([item.name, ""])
            self.calls[self.at[item.tool_index]][1] += item.parameters
        if self.ours:
            assert list(self.at) == list(range(len(self.calls)))
            books = self.tool_parser.detector
            assert [each["arguments"] for each in books.prev_tool_call_arr] == books.streamed_args_for_tool

    def whole(self, text: str) -> None:
        reasoning, content = self.reasoning_parser.parse_non_stream(text)
        items: list[Any] = []
        if self.tool_parser and self.tool_parser.has_tool_call(content):
            content, items = self.tool_parser.parse_non_stream(content)
        self.reasoning, self.content = reasoning or "", content or ""
        self.calls = [(item.name, item.parameters) for item in items]

    def told(self) -> dict[str, Any]:
        calls = [tuple(call) for call in self.calls]
        return {"reasoning": self.reasoning, "content": self.content, "tool_calls": calls}


def told(name: str, stream: Stream, size: int = 1, **more: Any) -> dict[str, Any]:
    choice = Choice(name, stream, **more)
    parts = list(deltas(stream, size))
    for at, (text, _) in enumerate(parts):
        choice.step(text, stream.reason if at == len(parts) - 1 else None)
    return choice.told()


def whole(name: str, stream: Stream, **more: Any) -> dict[str, Any]:
    choice = Choice(name, stream, streamed=False, **more)
    choice.whole("".join(map(str, stream.chunks)))
    return choice.told()


@pytest.fixture(scope="module", autouse=True)
def _registered() -> None:
    kimi_xtml.sglang.register()
    kimi_xtml.sglang.register()


@pytest.mark.parametrize("size", [1, 3, 10**6])
def test_streamed(size: int) -> None:
    answers = {stream.id: told("kimi_xtml", stream, size) for stream in STREAMS}
    assert not {
        stream.id: (answers[stream.id], stream.accepted)
        for stream in STREAMS
        if not right(stream, answers[stream.id], incomplete=True)
    }


def test_without_the_text_of_the_end_token() -> None:
    streams = [stopped(stream) for stream in STREAMS]
    assert not [each.id for each in streams if not right(each, told("kimi_xtml", each, 2), incomplete=True)]
    assert not [each.id for each in streams if not right(each, whole("kimi_xtml", each), incomplete=False)]


def test_by_characters() -> None:
    wrong = []
    for stream in STREAMS:
        choice = Choice("kimi_xtml", stream)
        for character in "".join(map(str, stream.chunks)):
            choice.step(character, None)
        choice.step("", stream.reason)
        if not right(stream, choice.told(), incomplete=True):
            wrong.append((stream.id, choice.told()))
    assert not wrong


def test_whole() -> None:
    answers = {stream.id: whole("kimi_xtml", stream) for stream in STREAMS}
    assert not {
        stream.id: (answers[stream.id], stream.accepted)
        for stream in STREAMS
        if not right(stream, answers[stream.id], incomplete=False)
    }


@pytest.mark.parametrize("choice", ["required", "named", "none"])
def test_tool_choices(choice: str) -> None:
    for stream in STREAMS:
        if not stream.context.get("tools") or stream.context.get("tool_choice", "auto") != "auto":
            continue
        name = stream.context["tools"][0]
        wanted = {"type": "function", "function": {"name": name}} if choice == "named" else choice
        streamed = told("kimi_xtml", stream, tool_choice=wanted)
        at_once = whole("kimi_xtml", stream, tool_choice=wanted)
        if choice == "none":
            assert streamed == at_once
            assert not streamed["tool_calls"]
        else:
            assert right(stream, streamed, incomplete=True), stream.id
            assert right(stream, at_once, incomplete=False), stream.id


def test_reasoning_that_is_not_streamed() -> None:
    for stream in STREAMS:
        answer = told("kimi_xtml", stream, stream_reasoning=False)
        assert right(stream, answer, incomplete=True), stream.id


def test_choices_do_not_mix() -> None:
    running = [(stream, Choice("kimi_xtml", stream), list(deltas(stream))) for stream in STREAMS]
    for at in range(max(len(parts) for *_, parts in running)):
        for stream, choice, parts in running:
            if at < len(parts):
                choice.step(parts[at][0], stream.reason if at == len(parts) - 1 else None)
    assert not [stream.id for stream, choice, _ in running if not right(stream, choice.told(), incomplete=True)]


def test_required_calls_have_a_grammar() -> None:
    stream = next(stream for stream in STREAMS if stream.context.get("tools"))
    parser = FunctionCallParser(tools=request_of(stream).tools, tool_call_parser="kimi_xtml", tokenizer=TOKENIZER)
    kind, grammar = parser.get_structure_constraint("required")
    assert kind == "structural_tag"
    assert "<|open|>tools<|sep|>" in str(grammar)


def test_the_entry_point() -> None:
    """In a new process: SGLang loads its plugins before it reads its arguments, and takes the name."""
    code = """
from sglang.srt.plugins import load_plugins
load_plugins()
from sglang.srt.server_args import _reasoning_parser_choices, _tool_call_parser_choices
print("kimi_xtml" in _reasoning_parser_choices(), "kimi_xtml" in _tool_call_parser_choices())
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.stdout.strip().endswith("True True"), run.stderr

"""The adapter in Dynamo's vLLM processor: its own post-processor drives the two classes, streamed and not."""

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("dynamo.frontend.prepost")

import dynamo.frontend.vllm_processor as processor
from dynamo.frontend.prepost import StreamingPostProcessor
from vllm.reasoning import ReasoningParserManager
from vllm.sampling_params import SamplingParams
from vllm.tool_parsers import ToolParserManager

import kimi_xtml.vllm
from corpora import Stream
from harness import CONTROL, PROMPTS, deltas, of_engines, right, seen, stopped
from vllm_driver import TOKENIZER, request_of

STREAMS = of_engines()
SPELLED = [stream for stream in STREAMS if not stream.identity]


class Choice:
    """One choice as the processor builds it: request, metadata, tool parser, post-processor."""

    def __init__(self, name: str, stream: Stream, *, streamed: bool, index: int = 0, **more: Any) -> None:
        tool_class = ToolParserManager.get_tool_parser(name)
        reasoning_class = ReasoningParserManager.get_reasoning_parser(name)
        request = request_of(stream, **more)
        prompt = PROMPTS[stream.context["initial_channel"]]
        template = request.chat_template_kwargs or {}
        tool_parser = None
        if request.tools and request.tool_choice != "none":
            tool_parser = tool_class(TOKENIZER, request.tools)
            request = tool_parser.adjust_request(request)
        request = reasoning_class(TOKENIZER, chat_template_kwargs=template, model_config=None).adjust_request(request)
        metadata = processor._build_reasoning_parser_metadata(
            reasoning_class, TOKENIZER, template, request, prompt, None
        )
        self.index = index
        self.post = StreamingPostProcessor(
            tokenizer=TOKENIZER,
            request_for_sampling=request,
            sampling_params=SamplingParams(),
            prompt_token_ids=prompt,
            tool_parser=tool_class(TOKENIZER, request.tools) if tool_parser is not None else None,
            reasoning_parser_class=reasoning_class,
            chat_template_kwargs=template,
            model_config=None,
            response_reasoning_ended=metadata.response_reasoning_ended,
            stream_response=streamed,
        )
        self.reasoning, self.content, self.calls = "", "", []

    def step(self, text: str, ids: list[int], reason: str | None) -> None:
        output = SimpleNamespace(index=self.index, text=text, token_ids=ids, finish_reason=reason, logprobs=None)
        choice = self.post.process_output(output)
        delta = choice["delta"] if choice else {}
        self.reasoning += delta.get("reasoning_content") or ""
        self.content += delta.get("content") or ""
        for call in delta.get("tool_calls") or []:
            if call["function"].get("name"):
                assert call["id"]
                assert call["index"] == len(self.calls)
                self.calls.append([call["function"]["name"], ""])
            self.calls[call["index"]][1] += call["function"].get("arguments") or ""

    def told(self) -> dict[str, Any]:
        calls = [tuple(call) for call in self.calls]
        return {"reasoning": self.reasoning, "content": self.content, "tool_calls": calls}


def told(name: str, stream: Stream, size: int = 1, lag: int = 0, streamed: bool = True, **more: Any) -> dict[str, Any]:
    choice = Choice(name, stream, streamed=streamed, **more)
    parts = list(deltas(stream, size, lag))
    for at, (text, ids) in enumerate(parts):
        choice.step(text, ids, stream.reason if at == len(parts) - 1 else None)
    return choice.told()


def fits(stream: Stream, answer: dict[str, Any], *, incomplete: bool = True) -> bool:
    """Right, but for the control tokens that Dynamo removes from every answer that quotes them."""
    if right(stream, answer, incomplete=incomplete):
        return True
    parsed = stream.context.get("tools") and stream.context.get("tool_choice") != "none"
    removed = [token for token in CONTROL if not (parsed and token in ("<|open|>", "<|close|>", "<|sep|>"))]
    for result in stream.accepted:
        expected = seen(result, incomplete=incomplete)
        for token in removed:
            expected["content"] = expected["content"].replace(token, "")
        if answer == expected:
            return True
    return False


@pytest.fixture(scope="module", autouse=True)
def _registered() -> None:
    kimi_xtml.vllm.register()


def test_setup_accepts_the_parser() -> None:
    processor._ensure_reasoning_parser_output_capable(
        "kimi_xtml", ReasoningParserManager.get_reasoning_parser("kimi_xtml"), TOKENIZER, {}, None
    )


@pytest.mark.parametrize(("size", "lag"), [(1, 0), (3, 0), (1, 2), (4, 1), (10**6, 0)])
def test_streamed(size: int, lag: int) -> None:
    streams = STREAMS if lag == 0 else [stream for stream in STREAMS if stream.ids]
    answers = {stream.id: told("kimi_xtml", stream, size, lag) for stream in streams}
    assert not {
        stream.id: (answers[stream.id], stream.accepted) for stream in streams if not fits(stream, answers[stream.id])
    }


def test_without_the_text_of_the_end_token() -> None:
    streams = [stopped(stream) for stream in STREAMS]
    assert not [stream.id for stream in streams if not fits(stream, told("kimi_xtml", stream, 2))]


def test_whole() -> None:
    # Dynamo keeps no ids for the tool parser of an answer that is not streamed; without tools it streams it.
    streams = [stream for stream in SPELLED if stream.context.get("tools")]
    answers = {stream.id: told("kimi_xtml", stream, streamed=False) for stream in streams}
    assert not {
        stream.id: (answers[stream.id], stream.accepted)
        for stream in streams
        if not fits(stream, answers[stream.id], incomplete=False)
    }


def test_choices_do_not_mix() -> None:
    running = [
        (stream, Choice("kimi_xtml", stream, streamed=True, index=at), list(deltas(stream)))
        for at, stream in enumerate(STREAMS)
    ]
    for at in range(max(len(parts) for *_, parts in running)):
        for stream, choice, parts in running:
            if at < len(parts):
                choice.step(*parts[at], stream.reason if at == len(parts) - 1 else None)
    assert not [stream.id for stream, choice, _ in running if not fits(stream, choice.told())]

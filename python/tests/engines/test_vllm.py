"""The adapter against the vLLM that is installed here: streamed and not, for every recorded stream."""

import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import kimi_xtml.vllm
from corpora import Stream
from harness import PROMPTS, deltas, of_engines, right, stopped
from vllm_driver import TOKENIZER, Server, request_of

STREAMS = of_engines()
SPELLED = [stream for stream in STREAMS if not stream.identity]


@pytest.fixture(scope="module")
def server() -> Server:
    kimi_xtml.vllm.register()
    kimi_xtml.vllm.register()
    return Server("kimi_xtml")


def wrong(streams: list[Stream], told: "dict[str, dict[str, object]]", *, incomplete: bool) -> dict[str, object]:
    return {
        stream.id: (told[stream.id], stream.accepted)
        for stream in streams
        if not right(stream, told[stream.id], incomplete=incomplete)
    }


def test_the_unified_parser_is_what_vllm_builds(server: Server) -> None:
    assert issubclass(server.parser_cls, kimi_xtml.vllm.KimiXtmlParser)
    assert server.parser_cls.tool_parser_cls is kimi_xtml.vllm.KimiXtmlToolParser
    assert not issubclass(Server("kimi_k3").parser_cls, kimi_xtml.vllm.KimiXtmlParser)


@pytest.mark.parametrize(("size", "lag"), [(1, 0), (3, 0), (1, 1), (1, 4), (4, 1), (10**6, 0)])
def test_streamed(server: Server, size: int, lag: int) -> None:
    streams = STREAMS if lag == 0 else [stream for stream in STREAMS if stream.ids]
    told = {stream.id: server.stream(stream, deltas(stream, size, lag)) for stream in streams}
    assert not wrong(streams, told, incomplete=True)


def test_whole(server: Server) -> None:
    told = {stream.id: server.whole(stream) for stream in STREAMS}
    assert not wrong(STREAMS, told, incomplete=False)


def test_without_the_text_of_the_end_token(server: Server) -> None:
    streams = [stopped(stream) for stream in STREAMS]
    told = {stream.id: server.stream(stream, deltas(stream, 2)) for stream in streams}
    assert not wrong(streams, told, incomplete=True)
    told = {stream.id: server.whole(stream) for stream in streams}
    assert not wrong(streams, told, incomplete=False)


@pytest.mark.parametrize("choice", ["required", "named", "none"])
def test_tool_choices(server: Server, choice: str) -> None:
    for stream in STREAMS:
        if not stream.context.get("tools") or stream.context.get("tool_choice", "auto") != "auto":
            continue
        name = stream.context["tools"][0]
        wanted = {"type": "function", "function": {"name": name}} if choice == "named" else choice
        streamed = server.stream(stream, deltas(stream), tool_choice=wanted)
        whole = server.whole(stream, tool_choice=wanted)
        if choice == "none":
            assert not streamed["tool_calls"]
            assert not whole["tool_calls"]
            assert streamed["reasoning"] == whole["reasoning"]
            assert streamed["content"] == whole["content"]
        else:
            assert right(stream, streamed, incomplete=True), stream.id
            assert right(stream, whole, incomplete=False), stream.id


def test_reasoning_is_left_out_when_asked(server: Server) -> None:
    for stream in STREAMS:
        told = server.stream(stream, deltas(stream), include_reasoning=False)
        assert told["reasoning"] == ""
        assert any(told["content"] == result["content"] for result in stream.accepted)


def test_choices_do_not_mix(server: Server) -> None:
    """Many choices at once, a delta of each in turn."""
    running = [(stream, server.choice(stream), list(deltas(stream))) for stream in STREAMS]
    for at in range(max(len(parts) for *_, parts in running)):
        for stream, choice, parts in running:
            if at < len(parts):
                choice.step(*parts[at], stream.reason if at == len(parts) - 1 else None)
    assert not wrong(STREAMS, {stream.id: choice.told() for stream, choice, _ in running}, incomplete=True)


def test_ids_of_calls_are_unique(server: Server) -> None:
    ids = []
    for stream in STREAMS:
        choice = server.choice(stream)
        parts = list(deltas(stream))
        for at, part in enumerate(parts):
            choice.step(*part, "stop" if at == len(parts) - 1 else None)
        ids += [identifier for *_, identifier in choice.calls]
    assert len(set(ids)) == len(ids) > 50


def test_cut_anywhere_loses_nothing(server: Server) -> None:
    """Each prefix of a stream: nothing of the texts is lost, and a longer prefix only adds."""
    for stream in [stream for stream in STREAMS if stream.ids and len(stream.chunks) < 120][::6]:
        parts = list(deltas(stream))
        before = {"reasoning": "", "content": ""}
        for end in range(1, len(parts) + 1):
            told = server.stream(stream, parts[:end])
            for channel, text in before.items():
                assert told[channel].startswith(text)
                before[channel] = told[channel]


@pytest.mark.usefixtures("server")
def test_only_a_reasoning_parser() -> None:
    alone = Server(None, "kimi_xtml")
    assert issubclass(alone.parser_cls, kimi_xtml.vllm.KimiXtmlParser)
    for stream in STREAMS:
        told = alone.stream(stream, deltas(stream))
        forced = stream.context.get("tool_choice", "auto") not in ("auto", "none")
        assert bool(told["tool_calls"]) == forced, stream.id
        assert any(told["reasoning"] == result["reasoning"] for result in stream.accepted)


def test_the_pair_by_itself() -> None:
    """What drives the two classes and no unified parser: vLLM's own delegation."""
    from vllm.parser.abstract_parser import DelegatingParser

    class Pair(DelegatingParser):
        reasoning_parser_cls = kimi_xtml.vllm.KimiXtmlReasoningParser
        tool_parser_cls = kimi_xtml.vllm.KimiXtmlToolParser

    def is_asked(stream: Stream) -> bool:
        """Where the prompt ended the reasoning, vLLM asks its parser for none."""
        return stream.context["initial_channel"] != "response" or not stream.accepted[0]["reasoning"]

    pair = Server("kimi_xtml")
    pair.parser_cls = Pair
    streams, spelled = list(filter(is_asked, STREAMS)), list(filter(is_asked, SPELLED))
    assert len(streams) > len(STREAMS) - 9
    told = {stream.id: pair.stream(stream, deltas(stream)) for stream in streams}
    assert not wrong(streams, told, incomplete=True)
    told = {stream.id: pair.stream(stream, deltas(stream, 5)) for stream in streams}
    assert not wrong(streams, told, incomplete=True)
    told = {stream.id: pair.whole(stream) for stream in spelled}
    assert not wrong(spelled, told, incomplete=False)


def test_the_end_of_reasoning_by_ids() -> None:
    """What the engine's own process asks, for structured output."""
    think = PROMPTS["think"]
    close = [163588, 39964, 163589]
    parser = kimi_xtml.vllm.KimiXtmlReasoningParser(TOKENIZER)
    assert not parser.is_reasoning_end([1, *think])
    assert parser.is_reasoning_end([1, *think, 5, *close])
    assert not parser.is_reasoning_end([1, *think, 5, *close, 7, *think])
    assert parser.is_reasoning_end([1, *think, 5, *close, *PROMPTS["response"]])
    assert parser.is_reasoning_end_streaming([5, *close], [163589])
    assert parser.is_reasoning_end_streaming([5, *close, 9], [*close, 9])
    assert not parser.is_reasoning_end_streaming([5, *close, 9, 9, 9], [9])
    assert parser.extract_content_ids([5, *close, 9]) == [9]
    assert parser.count_reasoning_tokens([5, 6, *close, 9]) == 2
    assert kimi_xtml.vllm.KimiXtmlReasoningParser(TOKENIZER, chat_template_kwargs={"thinking": False}).is_reasoning_end(
        [1]
    )


def test_the_prompt_is_right_where_the_arguments_of_the_template_say_otherwise() -> None:
    think, response = PROMPTS["think"], PROMPTS["response"]
    off = kimi_xtml.vllm.KimiXtmlReasoningParser(TOKENIZER, chat_template_kwargs={"thinking": False})
    assert not off.is_reasoning_end([1, *think])
    assert not off.is_reasoning_end_streaming([1, *think, 5], [5])
    assert off.is_reasoning_end_streaming([1, *think, 5, 163588, 39964, 163589], [163589])
    off.set_prompt_token_ids([1, *think])
    assert off.count_reasoning_tokens([5, 6, 163588, 39964, 163589, 9]) == 2
    on = kimi_xtml.vllm.KimiXtmlReasoningParser(TOKENIZER)
    assert on.is_reasoning_end([1, *response])
    on.set_prompt_token_ids([1, *response])
    assert on.count_reasoning_tokens([5, 6]) == 0


BLOCK = (
    '<|open|>call tool="run" index="1"<|sep|><|open|>json type="object"<|sep|>{}<|close|>json<|sep|>'
    "<|close|>call<|sep|>"
)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ('{"a": 1e2}', {"a": 1e2}),
        ("[1, 2]", {"INVALID_JSON": "[1, 2]"}),
        ('"text"', {"INVALID_JSON": '"text"'}),
        ("", {}),
        ("no JSON", {"INVALID_JSON": "no JSON"}),
        ("NaN", {"INVALID_JSON": "NaN"}),
        ('{"a": "\\ud800"}', {"a": "\ufffd"}),
    ],
)
def test_no_json_block_costs_a_reply_of_the_messages_api(
    server: Server, monkeypatch: pytest.MonkeyPatch, written: str, read: object
) -> None:
    from vllm.entrypoints.anthropic import serving
    from vllm.entrypoints.anthropic.protocol import AnthropicMessagesRequest

    kimi_xtml.vllm._mark_messages()
    kimi_xtml.vllm._mark_messages()
    asked = AnthropicMessagesRequest(
        model="k3",
        max_tokens=9,
        messages=[{"role": "user", "content": "?"}],
        tools=[{"name": "run", "input_schema": {}}],
    )
    request = serving.AnthropicServingMessages.to_chat_completion_request(asked)
    assert request.model_dump(exclude_unset=True)
    text = "<|open|>tools<|sep|>" + BLOCK.replace("{}", written, 1) + "<|close|>tools<|sep|>"
    parser = server.parser(request)
    parser.set_prompt_token_ids(PROMPTS["response"])
    *_, calls = parser.parse(text, request, enable_auto_tools=True)
    assert [json.loads(call.arguments) for call in calls] == [read]
    parser, arguments = server.parser(request), ""
    for at, letter in enumerate(text):
        last = at == len(text) - 1
        message = parser.parse_delta(letter, [], request, prompt_token_ids=PROMPTS["response"], finished=last)
        arguments += "".join(call.function.arguments or "" for call in (message and message.tool_calls) or ())
    assert json.loads(arguments) == read
    monkeypatch.setenv("KIMI_XTML_ARGUMENTS", "verbatim")
    parser = server.parser(request)
    parser.set_prompt_token_ids(PROMPTS["response"])
    *_, calls = parser.parse(text, request, enable_auto_tools=True)
    assert [call.arguments for call in calls] == [written]


def test_requests_are_adjusted(server: Server) -> None:
    stream = next(stream for stream in STREAMS if stream.context.get("tools"))
    for choice in ("auto", "required", {"type": "function", "function": {"name": stream.context["tools"][0]}}):
        request = request_of(stream, tool_choice=choice, skip_special_tokens=True, spaces_between_special_tokens=True)
        adjusted = server.parser(request).adjust_request(request)
        assert adjusted.skip_special_tokens is False
        assert adjusted.spaces_between_special_tokens is False
        outputs = adjusted.structured_outputs
        assert outputs is None or outputs.json is None
        if choice != "auto":
            assert outputs is not None
            assert "<|open|>tools<|sep|>" in outputs.structural_tag


def test_the_report_is_there(server: Server) -> None:
    stream = next(stream for stream in STREAMS if stream.ids)
    choice = server.choice(stream)
    parts = list(deltas(stream))
    for at, part in enumerate(parts):
        choice.step(*part, "stop" if at == len(parts) - 1 else None)
    assert choice.parser.report["tokens"]["input"] == sum(len(ids) for _, ids in parts)


def test_the_entry_point() -> None:
    """In a new process: what vLLM calls in each of its processes, and before it reads its arguments."""
    code = """
from vllm.plugins import load_general_plugins
load_general_plugins()
from vllm.parser.parser_manager import ParserManager
parser = ParserManager.get_parser("kimi_xtml", "kimi_xtml", True)
print([base.__name__ for base in parser.__mro__])
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "KimiXtmlParser" in run.stdout, run.stderr


@pytest.mark.parametrize("plugin", ["kimi_xtml.vllm_plugin", "path"])
def test_the_plugin_flags(plugin: str) -> None:
    """The same through `--tool-parser-plugin` and `--reasoning-parser-plugin`."""
    path = str(Path(kimi_xtml.vllm.__file__).with_name("vllm_plugin.py"))
    given = path if plugin == "path" else plugin
    code = f"""
from vllm.reasoning import ReasoningParserManager
from vllm.tool_parsers import ToolParserManager
ToolParserManager.import_tool_parser({given!r})
ReasoningParserManager.import_reasoning_parser({given!r})
print(ToolParserManager.get_tool_parser("kimi_xtml"), ReasoningParserManager.get_reasoning_parser("kimi_xtml"))
"""
    if plugin != "path" and version("vllm").startswith(("0.29", "0.31")):
        pytest.skip("this release takes paths only")
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "KimiXtmlToolParser" in run.stdout, run.stderr
    assert "KimiXtmlReasoningParser" in run.stdout, run.stderr

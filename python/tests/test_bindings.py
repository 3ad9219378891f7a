"""The bindings: events, arguments, misuse, threads."""

import copy
import inspect
import json
import pickle
import subprocess
import sys
import threading
import time
import weakref
from collections import UserDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kimi_xtml
from kimi_xtml import (
    ArgumentEnd,
    Arguments,
    ArgumentStart,
    CallEnd,
    CallStart,
    ChatStream,
    Content,
    Diagnostic,
    Dropped,
    End,
    Markup,
    Parser,
    Reasoning,
    Start,
    StateError,
    Withheld,
    opened_channel,
    parse,
    render,
)
from results import by_deltas, by_events

CALL = (
    "Look.<|close|>think<|sep|><|open|>tools<|sep|>"
    '<|open|>call tool="ls" index="1"<|sep|><|open|>argument key="p" type="string"<|sep|>/"a<|close|>argument<|sep|>'
    "<|close|>call<|sep|><|close|>tools<|sep|><|close|>message<|sep|><|end_of_msg|>"
)


def test_events_of_a_call() -> None:
    assert parse(CALL, opened="think", tools=["ls"]) == [
        Start("think"),
        Reasoning("Look.", (0, 5)),
        End("think", (5, 26)),
        Start("tools", (26, 46)),
        CallStart(0, "ls", (46, 85)),
        ArgumentStart(0, "p", "string", '{"p":"', (85, 130)),
        Arguments(0, '/\\"a', (130, 133)),
        ArgumentEnd(0, '"', True, (133, 157)),
        CallEnd(0, "}", True, (157, 177)),
        End("tools", (177, 198)),
        Markup("<|close|>message<|sep|><|end_of_msg|>", (198, 235)),
    ]


def test_other_events() -> None:
    kinds = {type(event) for event in parse("a<|close|>x<|sep|>" + CALL + "more", opened="think")}
    assert {Withheld, Diagnostic, Dropped} <= kinds
    assert Diagnostic("tools-withheld").code in kimi_xtml.CODES
    assert parse("hi") == [Content("hi", (0, 2))]


EVENTS: list[Any] = [
    Start("think", (0, 1)),
    Reasoning("a"),
    Content("a", (0, 1), (0, 1)),
    CallStart(0, "ls"),
    ArgumentStart(0, None, "block", ""),
    Arguments(1, "2"),
    ArgumentEnd(1, "", False),
    CallEnd(1, "}", True),
    End("tools"),
    Withheld("a"),
    Markup("a"),
    Dropped("a"),
    Diagnostic("cut-tag"),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_event_classes(event: Any) -> None:
    fields = type(event).__match_args__
    values = [getattr(event, name) for name in fields]
    same = type(event)(*values, event.span, event.tokens)
    assert event == same == copy.copy(event) == pickle.loads(pickle.dumps(event))
    assert hash(event) == hash(same)
    assert event != type(event)(*values, (7, 9))
    assert event != tuple(values)
    assert eval(repr(event)) == event
    for name in (*fields, "span", "tokens"):
        with pytest.raises(AttributeError):
            setattr(event, name, None)
    with pytest.raises(TypeError):
        type("Sub", (type(event),), {})


def test_kinds_differ() -> None:
    assert len({Reasoning("a"), Content("a"), Markup("a"), Dropped("a"), Withheld("a")}) == 5
    assert Reasoning("a") != Content("a")


def test_tools_and_choices() -> None:
    def called(**request: Any) -> bool:
        return any(isinstance(event, CallStart) for event in parse(CALL, opened="think", **request))

    tool = {"type": "function", "function": {"name": "ls", "parameters": {}}}
    typed = SimpleNamespace(type="function", function=SimpleNamespace(name="ls"))
    flat = {"type": "function", "name": "ls"}
    for tools in (["ls"], ("ls",), {"ls": 1}, [tool], [typed], [flat], [MappingProxyType(tool)], iter([tool])):
        assert called(tools=tools)
    assert not called()
    assert not called(tools=None)
    assert not called(tools=[])
    for choice in (None, "auto", "required", tool, typed):
        assert called(tools=[tool], tool_choice=choice)
    assert not called(tools=[tool], tool_choice="none")


@pytest.mark.parametrize(
    ("kwargs", "error"),
    [
        ({"tools": "ls"}, TypeError),
        ({"tools": b"ls"}, TypeError),
        ({"tools": [{}]}, TypeError),
        ({"tools": [3]}, TypeError),
        ({"tools": 3}, TypeError),
        ({"tools": {"type": "function", "function": {"name": "ls"}}}, TypeError),
        ({"tools": ["ls"], "tool_choice": {"name": "cat"}}, ValueError),
        ({"value_limit": True}, TypeError),
        ({"tool_choice": "ls"}, ValueError),
        ({"tool_choice": {}}, TypeError),
        ({"opened": "thinking"}, ValueError),
        ({"undeclared": "drop"}, ValueError),
        ({"value_limit": -1}, OverflowError),
        ({"tool": []}, TypeError),
    ],
)
def test_requests_that_are_wrong(kwargs: dict[str, Any], error: type[Exception]) -> None:
    for make in (Parser, ChatStream, lambda **request: parse("", **request)):
        with pytest.raises(error):
            make(**kwargs)


def test_misuse() -> None:
    parser, chat = Parser(), ChatStream()
    parser.finish()
    chat.finish("length")
    inputs: list[Callable[[Any], object]] = [
        lambda parser: parser.push(""),
        lambda parser: parser.push(b"a"),
        lambda parser: parser.push_text("a"),
        lambda parser: parser.push_with_ids("a", [1]),
        lambda parser: parser.push_marker("<|open|>"),
        lambda parser: parser.push_token("", 163587),
        lambda parser: parser.finish(),
    ]
    for use in inputs:
        for finished in (parser, chat):
            with pytest.raises(StateError, match="finished"):
                use(finished)
    assert chat.finish_reason == "length"
    parser.reset()
    assert parser.finish_reason is None
    assert parser.push("a") == [Content("a", (0, 1))]
    for wrong in (None, 3, ["a"]):
        with pytest.raises(TypeError):
            Parser().push(wrong)  # type: ignore[arg-type]
    for marker in ("<|open", 5, "open"):
        with pytest.raises(ValueError, match="control token"):
            Parser().push_marker(marker)
    for raw in (b"a", bytearray(b"a")):
        with pytest.raises(TypeError, match="are no token ids"):
            Parser().push_with_ids("a", raw)
    for ids in ([-1], [1 << 32]):
        with pytest.raises(OverflowError):
            Parser().push_with_ids("a", ids)
    assert issubclass(StateError, RuntimeError)


def test_markers_and_tokens() -> None:
    by_marker, by_token = Parser(opened="response", tools=["ls"]), Parser(opened="response", tools=["ls"])
    pieces: list[Any] = ["a <|open|>tools<|sep|> b", 163588, "response", "<|sep|>", "", 163586]
    for piece in pieces:
        if isinstance(piece, int) or piece == "<|sep|>":
            by_marker.push_marker(piece)
            by_token.push_token("", piece if isinstance(piece, int) else 163589)
        else:
            by_marker.push_text(piece)
            by_token.push_token(piece, 7)
    for parser in (by_marker, by_token):
        parser.finish()
        assert parser.report["bytes"]["content"] == len(str(pieces[0]))
    assert by_token.report["tokens"] is not None
    assert by_token.report["tokens"]["content"] == 1


def test_tokens_of_events() -> None:
    parser = Parser(opened="response")
    events = parser.push_with_ids("ab", [1, 2]) + parser.push_with_ids(
        "<|close|>response<|sep|>", [163588, 12092, 163589]
    )
    assert Content("ab", (0, 2), (0, 2)) in events
    assert End("response", (2, 26), (2, 5)) in events


def test_looking_on() -> None:
    parser = Parser(opened="think")
    assert parser.channel == "think"
    parser.push("a<|clo")
    assert parser.held == "<|clo"
    assert parser.report["bytes"]["reasoning"] == 1
    parser.push("se|>think<|sep|>")
    assert parser.channel is None
    parser.finish()
    assert parser.report["diagnostics"] == []
    assert json.loads(json.dumps(parser.report)) == parser.report


@pytest.mark.parametrize("make", [Parser, ChatStream])
def test_repr_tells_the_state(make: type[Parser] | type[ChatStream]) -> None:
    stream, name = make(opened="think"), f"<kimi_xtml.{make.__name__} "
    assert repr(stream) == name + 'in channel "think">'
    stream.push("<|close|>think<|sep|>")
    assert repr(stream) == name + "in no channel>"
    stream.finish("length")
    assert repr(stream) == name + 'finished: "length">'


@pytest.mark.parametrize("make", [Parser, ChatStream])
def test_weak_references(make: type[Parser] | type[ChatStream]) -> None:
    stream = make()
    reference = weakref.ref(stream)
    assert reference() is stream
    del stream
    assert reference() is None


def test_chat() -> None:
    chat = ChatStream(opened="think", tools=["ls"], call_ids=3)
    assert chat.push("") is None
    assert chat.push("Lo") == [{"reasoning_content": "Lo"}]
    assert chat.push(CALL[2:].encode()) == [
        {"reasoning_content": "ok."},
        {"tool_calls": [{"index": 0, "id": "ls_3", "type": "function", "function": {"name": "ls", "arguments": ""}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"p":"/\\"a"}'}}]},
    ]
    assert chat.finish() is None
    assert chat.finish_reason == "tool_calls"
    assert chat.message == {
        "role": "assistant",
        "content": "",
        "reasoning_content": "Look.",
        "tool_calls": [{"id": "ls_3", "type": "function", "function": {"name": "ls", "arguments": '{"p":"/\\"a"}'}}],
    }
    cut = ChatStream(opened="think", tools=["ls"])
    cut.push(CALL[:140])
    cut.finish("length")
    assert cut.message is not None
    assert cut.message["tool_calls"][0]["complete"] is False
    assert ChatStream(keep_message=False).message is None


def test_a_chat_stream_again() -> None:
    chat = ChatStream(opened="think", tools=["ls"], call_ids=3)
    first = [chat.push(CALL), chat.finish(), chat.message, chat.report]
    chat.reset()
    assert (chat.finish_reason, chat.channel, chat.held) == (None, "think", "")
    assert chat.message == {"role": "assistant", "content": ""}
    assert [chat.push(CALL), chat.finish(), chat.message, chat.report] == first
    chat.reset()
    chat.push("a<|clo")
    assert chat.held == "<|clo"
    bare = ChatStream(keep_message=False)
    bare.reset()
    assert bare.message is None


def test_render() -> None:
    call = {"type": "function", "function": {"name": "ls", "arguments": {"p": '/"a'}}}
    message = {"role": "assistant", "content": None, "reasoning_content": "Look.", "tool_calls": [call]}
    # The encoder writes the answer's channel also where the answer is empty.
    written = CALL.replace("<|open|>tools", "<|open|>response<|sep|><|close|>response<|sep|><|open|>tools", 1)
    assert render(message, opened="think") == written
    typed = SimpleNamespace(content="", reasoning="Look.", tool_calls=[SimpleNamespace(function=call["function"])])
    assert render(typed, opened="think") == written
    with pytest.raises(ValueError, match="think"):
        render(message, opened="response")
    with pytest.raises(ValueError, match="name"):
        render({"tool_calls": [{"function": {"name": ""}}]})
    with pytest.raises(TypeError):
        render({"content": 3})
    for mapping in (UserDict(message), MappingProxyType(message)):
        assert render(mapping, opened="think") == written
    assert render({}) == render(SimpleNamespace(content=None))


@pytest.mark.parametrize(
    ("message", "told"),
    [
        *((wrong, "message is a mapping or an object with content or .*, not ") for wrong in (None, "x", 3, ["a"])),
        ({"tool_calls": "ls"}, "an entry of tool_calls is .* function or name, not str"),
        ({"tool_calls": [None]}, "an entry of tool_calls is .*, not NoneType"),
        ({"tool_calls": [{"function": "ls"}]}, "function is .* name, not str"),
    ],
)
def test_what_cannot_be_rendered(message: object, told: str) -> None:
    with pytest.raises(TypeError, match=told):
        render(message)


def test_opened_channel() -> None:
    assert opened_channel("<|open|>think<|sep|>") == "think"
    assert opened_channel("") is None
    assert opened_channel([1, 163587, 12092, 163589]) == "response"
    assert opened_channel([1, 163587, 12092, 163589, 5, 163588, 12092, 163589]) is None
    assert opened_channel((1,)) is None
    with pytest.raises(TypeError):
        opened_channel(3)  # type: ignore[arg-type]
    for raw in (b"<|open|>think<|sep|>", bytearray(b"a"), b""):
        with pytest.raises(TypeError, match="are no token ids"):
            opened_channel(raw)


def test_lone_surrogates_are_replaced() -> None:
    assert by_events(parse("a\ud800b")) == by_events(parse("a\ufffdb"))
    assert Parser().push("\ud83d\ude00") == Parser().push("\U0001f600")
    assert Parser().push_text("\udc80")[0] == Content("\ufffd", (0, 3))
    for stream in (Parser(), ChatStream()):
        stream.finish("\ud83d\ude00\ud800")
        assert stream.finish_reason == "\U0001f600\ufffd"


TEXTS = st.text(st.sampled_from('ab<|>\n é😀"&')) | st.sampled_from(
    ["<|open|>", "<|close|>", "<|sep|>", "<|end_of_msg|>", "think", "response", "tools", 'call tool="a"', "call"]
)


@given(st.lists(TEXTS), st.sampled_from([None, "think", "response"]), st.lists(st.integers(1, 9)))
def test_any_text_any_cut(pieces: list[str], opened: Any, sizes: list[int]) -> None:
    """Nothing raises; cuts make no difference; every byte is somewhere."""
    text = "".join(pieces)
    request: dict[str, Any] = {"opened": opened, "tools": ["a"]}
    whole = parse(text, **request)
    parser, chat = Parser(**request), ChatStream(**request)
    events, deltas, at = [], [], 0
    for size in sizes:
        events += parser.push(text[at : at + size])
        deltas += chat.push(text[at : at + size].encode()) or []
        at += size
    events += parser.push(text[at:]) + parser.finish()
    deltas += (chat.push(text[at:]) or []) + (chat.finish() or [])
    assert by_events(events) == by_events(whole)
    told = by_events(whole)
    assert by_deltas(deltas) == {**told, "tool_calls": [call[:2] for call in told["tool_calls"]]}
    ends = [0] + [event.span[1] for event in whole]
    assert [event.span[0] for event in whole] == ends[:-1]
    assert ends[-1] == len(text.encode())


@given(
    st.text(max_size=30), st.text(max_size=30), st.dictionaries(st.text(max_size=5), st.text(max_size=9), max_size=3)
)
def test_what_was_rendered_comes_back(reasoning: str, content: str, arguments: dict[str, str]) -> None:
    if any("<|" in text or "|>" in text for text in (reasoning, content, *arguments, *arguments.values())):
        return
    call = {"function": {"name": "ls", "arguments": arguments}}
    message = {"reasoning_content": reasoning, "content": content, "tool_calls": [call]}
    told = by_events(parse(render(message, opened="think"), opened="think", tools=["ls"]))
    assert (told["reasoning"], told["content"]) == (reasoning, content)
    assert json.loads(told["tool_calls"][0][1]) == arguments


def test_one_parser_from_two_threads() -> None:
    """It raises, and never crashes."""
    big = "a <|clo" * 3_000_000
    parser = Parser(opened="response")
    errors: list[Exception] = []
    started = threading.Event()

    def push() -> None:
        started.set()
        try:
            parser.push(big)
        except StateError as error:
            errors.append(error)

    other = threading.Thread(target=push)
    other.start()
    started.wait()
    until = time.monotonic() + 60
    told = set()
    while other.is_alive() and time.monotonic() < until:
        told.add(repr(parser))
        try:
            _ = parser.report
        except StateError as error:
            errors.append(error)
            if len(told) > 1:
                break
    other.join()
    assert errors
    assert "in use" in str(errors[0])
    assert "<kimi_xtml.Parser in use>" in told
    assert parser.push("b")


def test_threads_with_a_parser_each() -> None:
    text = CALL * 20
    expected = by_events(parse(text, opened="think", tools=["ls"]))

    def work(seed: int) -> bool:
        right = True
        for size in range(1, 40):
            parser = Parser(opened="think", tools=["ls"])
            events = []
            for at in range(0, len(text), size + seed % 3):
                events += parser.push(text[at : at + size + seed % 3])
            right &= by_events(events + parser.finish()) == expected
        return right

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(16)))


def test_threads_that_share_everything() -> None:
    """Stress: many threads, few parsers. Each call works or raises StateError; afterwards all of them still work."""
    parsers: list[Any] = [Parser(opened="response") for _ in range(3)]
    chats: list[Any] = [ChatStream(opened="response") for _ in range(3)]
    big = "x" * 100_000

    def work(seed: int) -> None:
        for turn in range(60):
            for stream in (parsers[(seed + turn) % 3], chats[(seed * turn) % 3]):
                try:
                    stream.push(big if turn % 5 else "<|close|>")
                    _ = stream.report, stream.channel
                except StateError:
                    pass

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(16)))
    for stream in (*parsers, *chats):
        stream.push("end")
        stream.finish()
        assert stream.report["bytes"]["content"] > 0


LARGE = "a < b " * 200_000
PUSHES: dict[str, Callable[[Any], object]] = {
    "text": lambda stream: stream.push(LARGE),
    "bytes": lambda stream: stream.push(LARGE.encode()),
    "plain text": lambda stream: stream.push_text(LARGE),
    "a token": lambda stream: stream.push_token(LARGE, 7),
    "text with ids": lambda stream: stream.push_with_ids(LARGE, [7]),
    "ids": lambda stream: stream.push_with_ids("", [7] * 400_000),
}


def pushed(make: type[Parser] | type[ChatStream], push: Callable[[Any], object]) -> object:
    return push(make(opened="response"))


READS: dict[str, Callable[[], object]] = {
    "parse": lambda: parse(LARGE),
    "render reasoning": lambda: render({"reasoning": LARGE}),
    "render content": lambda: render({"content": LARGE}),
    "render arguments": lambda: render({"tool_calls": [{"name": "ls", "arguments": f'{{"p":"{LARGE}"}}'}]}),
    **{f"Parser: {kind}": partial(pushed, Parser, push) for kind, push in PUSHES.items()},
    **{f"ChatStream: {kind}": partial(pushed, ChatStream, push) for kind, push in PUSHES.items()},
}


@pytest.mark.parametrize("call", READS.values(), ids=READS)
def test_large_inputs_leave_the_gil_to_others(call: Callable[[], object]) -> None:
    """Nothing but a call that leaves the GIL lets the other thread take a turn."""
    turns, done = 0, threading.Event()

    def count() -> None:
        nonlocal turns
        while not done.is_set():
            turns += 1
            time.sleep(0)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(600)
    other = threading.Thread(target=count)
    try:
        other.start()
        during = 0
        for _ in range(500):
            before = turns
            call()
            during += turns - before
            if during:
                break
    finally:
        done.set()
        sys.setswitchinterval(interval)
        other.join()
    assert during


def test_importing_needs_nothing_else() -> None:
    code = "import sys, kimi_xtml; print([m for m in ('vllm', 'sglang', 'typing_extensions') if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_everything_has_a_doc() -> None:
    for name in kimi_xtml.__all__:
        if name not in ("CODES", "Event", "__version__"):
            assert inspect.getdoc(getattr(kimi_xtml, name)), name

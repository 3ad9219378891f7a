"""What the engine adapters share, without an engine."""

import logging
import sys
import types
from typing import Any

import pytest

from kimi_xtml._engines import (
    EngineError,
    Place,
    Split,
    Stream,
    find,
    started,
    thinks,
    together,
    tool_choice,
    tool_names,
    whole,
)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """An engine that has moved a class."""
    module = types.ModuleType("moved")
    module.Wanted = object  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "moved", module)
    return module


def test_a_name_is_found_where_it_is_now(engine: types.ModuleType) -> None:
    places = (Place("gone.away", "1.0"), Place("sys", "1.1"), Place("moved", "2.0"))
    assert find("pytest", "1.0", {"Wanted": places}) == {"Wanted": engine.Wanted}


def test_one_error_tells_what_is_missing() -> None:
    wanted = {"Wanted": (Place("gone.away", "1.0 to 1.3"), Place("sys", "2.0")), "Other": (Place("gone", "3.0"),)}
    with pytest.raises(EngineError) as caught:
        find("pytest", "1.0, 2.0", wanted)
    message = str(caught.value)
    for part in ("pytest", pytest.__version__, "tested with 1.0, 2.0", "Wanted", "gone.away", "1.0 to 1.3", "Other"):
        assert part in message
    with pytest.raises(EngineError, match="not installed"):
        find("no-such-engine", "1.0", wanted)


@pytest.mark.parametrize("name", ["vllm", "sglang"])
def test_an_adapter_without_its_engine(name: str) -> None:
    """One error, and the package goes on."""
    import importlib

    with pytest.raises(EngineError, match=f"does not fit: {name} not installed"):
        importlib.import_module(f"kimi_xtml.{name}")
    assert __import__("kimi_xtml").parse("a")


def test_requests() -> None:
    tool = types.SimpleNamespace(function=types.SimpleNamespace(name="a"))
    assert tool_names([tool, {"function": {"name": "b"}}, {"type": "web_search"}, {"name": "c"}]) == ["a", "b", "c"]
    assert tool_names(None) == []
    assert [tool_choice(choice) for choice in (None, "auto", "none", "required", tool)] == [
        "auto",
        "auto",
        "none",
        "required",
        "required",
    ]
    assert [thinks(template) for template in (None, {}, {"thinking": False}, {"enable_thinking": False})] == [
        True,
        True,
        False,
        False,
    ]


def told(stream: Stream, parts: list[tuple[str, list[int]]]) -> tuple[str, str]:
    deltas: list[Any] = []
    for text, ids in parts:
        deltas += stream.push(text, ids)
    deltas += stream.finish() + stream.finish()
    all_of_it = together(deltas)
    return all_of_it.reasoning, all_of_it.content


def test_ids_decide_if_they_come() -> None:
    tag, ids = "<|close|>think<|sep|>", [163588, 39964, 163589]
    quoted = [27, 91, 10794, 91, 29, 39964, 27, 91, 40433, 91, 29]
    parts = [("a", [1]), (tag, quoted), ("", ids), (tag + "b", [2])]
    assert told(Stream("test", opened="think"), parts) == ("a" + tag, "b")
    assert told(Stream("test", opened="think"), [("a", []), (tag + "b", [])]) == ("a", "b")
    assert told(Stream("test", opened="think"), [("a", []), (tag + "b", [1, 2])]) == ("a", "b")


def test_whole_leaves_out_calls_that_are_not() -> None:
    text = '<|open|>tools<|sep|><|open|>call tool="a"<|sep|><|close|>call<|sep|><|open|>call tool="b"<|sep|>'
    answer, report = whole("test", text, tools=["a", "b"])
    assert [(call.name, call.arguments) for call in answer.calls] == [("a", "{}")]
    assert report["diagnostics"]


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    lines = [record.message for record in caplog.records if record.levelno >= logging.INFO]
    caplog.clear()
    return lines


def test_the_log_tells_of_deviations_with_the_request_and_of_no_cut(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kimi_xtml")
    for cut in ("Think", "Think.<|close|>think<|sep|><|open|>response<|sep|>Ans", "Think.<|clo"):
        stream = Stream("test", opened="think", request="chatcmpl-1")
        stream.push(cut)
        stream.finish()
        whole("test", cut, opened="think", request="chatcmpl-1")
    assert logged(caplog) == []
    orphan = "a<|close|>response<|sep|><|close|>call<|sep|>"
    stream = Stream("test", opened="response", request="chatcmpl-1")
    stream.push(orphan)
    stream.finish()
    whole("test", orphan, opened="response", request="chatcmpl-2")
    first, second = logged(caplog)
    assert first == "test: chatcmpl-1: the stream deviated: orphan-close x1"
    assert second == "test: chatcmpl-2: the stream deviated: orphan-close x1"


def test_the_log_tells_the_version_at_the_start(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kimi_xtml")
    started("Pytest", "pytest", f"1.0, {pytest.__version__}")
    started("Pytest", "pytest", "1.0, 2.0")
    tested, other = logged(caplog)
    assert tested == f"Pytest {pytest.__version__}: registered as kimi_xtml; this version was tested"
    assert "not tested with this version, but with 1.0, 2.0" in other
    assert caplog.records == []


@pytest.mark.parametrize(
    ("block", "read"),
    [
        ('{"a": 1}', '{"a": 1}'),
        ("[1]", '{"INVALID_JSON":"[1]"}'),
        ('{"a":1,}', '{"a":1,"INVALID_JSON":"}"}'),
        ("", "{}"),
    ],
)
def test_arguments_that_are_always_an_object(block: str, read: str) -> None:
    head = '<|open|>tools<|sep|><|open|>call tool="a" index="1"<|sep|><|open|>json type="object"<|sep|>'
    text = head + block + "<|close|>json<|sep|><|close|>call<|sep|><|close|>tools<|sep|>"
    answer, _ = whole("test", text, tools=["a"], opened="response", object_arguments=True)
    assert [call.arguments for call in answer.calls] == [read]
    stream = Stream("test", tools=["a"], opened="response", object_arguments=True)
    deltas = [delta for letter in text for delta in stream.push(letter)] + stream.finish()
    assert [call.arguments for call in together(deltas).calls] == [read]


@pytest.mark.parametrize("size", [1, 2, 5, 99])
def test_a_split_loses_nothing_behind_surrogates(size: int) -> None:
    """Spans count the bytes of what the parser makes of a text: pairs are joined, lone ones are replaced."""
    for faces, read in (
        ("\U0001f600", "\U0001f600"),
        ("\ud83d\ude00", "\U0001f600"),
        ("\ud800 \ude00", "\ufffd \ufffd"),
    ):
        text = [*"a<|close|>think<|sep|><|open|>response<|sep|>", faces, *" hi<|close|>response<|sep|>"]
        split, reasoning, rest = Split("think"), "", ""
        parts = ["".join(text[at : at + size]) for at in range(0, len(text), size)]
        for more, raw in [*map(split.push, parts), split.finish()]:
            reasoning, rest = reasoning + more, rest + raw
        assert reasoning == "a"
        assert rest == f"<|open|>response<|sep|>{read} hi<|close|>response<|sep|>"

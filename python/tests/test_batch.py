"""`parse_batch`: a row is what a `ChatStream` makes of the output, whichever way it goes in and comes out.

In: the corpora, and outputs that the tests make. PyArrow takes what comes out, where it is installed.
"""

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from corpora import folder
from kimi_xtml import Batch, ChatStream, Content, Markup, labels, parse, parse_batch, parse_tokens
from kimi_xtml.types import Row

CASES: list[dict[str, Any]] = [
    case
    for path in sorted(folder().glob("*.jsonl"))
    for case in map(json.loads, path.read_text().splitlines())
    if case.get("chunks")
]
TEXT = (
    "Hm.<|close|>think<|sep|><|open|>response<|sep|>Yes.<|close|>response<|sep|><|open|>tools<|sep|>"
    '<|open|>call tool="ls" index="1"<|sep|><|open|>argument key="path" type="string"<|sep|>/<|close|>argument<|sep|>'
    "<|close|>call<|sep|><|close|>tools<|sep|><|close|>message<|sep|><|end_of_msg|>"
)


def request(case: dict[str, Any]) -> dict[str, Any]:
    context = case.get("context", {})
    opened = context.get("initial_channel", "none")
    choice = context.get("tool_choice", "auto")
    return {
        "tools": context.get("tools", []),
        "tool_choice": choice
        if choice in ("auto", "none", "required") or isinstance(choice, dict)
        else {"name": choice},
        "opened": None if opened == "none" else opened,
    }


def by_stream(output: Any, reason: str, options: dict[str, Any]) -> Row:
    stream = ChatStream(call_ids=0, **options)
    match output:
        case (str() as text, ids):
            stream.push_with_ids(text, ids)
        case (texts, ids):
            for token in zip(texts, ids, strict=True):
                stream.push_token(*token)
        case _:
            stream.push(output)
    stream.finish(reason)
    message, report = stream.message, stream.report
    assert message is not None
    assert stream.finish_reason is not None
    return {
        "reasoning": message.get("reasoning_content"),
        "content": message["content"],
        "tool_calls": [
            {"id": call["id"], **call["function"], "complete": call.get("complete", True)}
            for call in message.get("tool_calls", [])
        ],
        "finish_reason": stream.finish_reason,
        "bytes": report["bytes"],
        "tokens": report["tokens"],
        "diagnostics": report["diagnostics"],
    }


def test_each_row_is_what_a_stream_makes() -> None:
    for case in CASES:
        options = request(case)
        if isinstance(options["tool_choice"], dict) and "name" in options["tool_choice"]:
            options["tools"] = [*options["tools"], options["tool_choice"]["name"]]
        text = "".join(case["chunks"])
        outputs: list[Any] = [text, text.encode(), bytearray(text.encode()), memoryview(text.encode())]
        if ids := case.get("ids"):
            outputs.append((text, [number for delta in ids for number in delta]))
            if all(len(delta) == 1 for delta in ids):
                outputs.append((case["chunks"], [number for (number,) in ids]))
        rows = list(parse_batch(outputs, call_ids=0, finish_reason=["stop"] * len(outputs), **options))
        assert rows == [by_stream(output, "stop", options) for output in outputs], case["id"]


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("rows", [1, 3, 1024])
def test_the_order_stays(threads: int, rows: int) -> None:
    done: list[int] = []
    batch = parse_batch(map(str, range(1000)), opened="response", threads=threads, rows=rows, progress=done.append)
    assert [row["content"] for row in batch] == [str(number) for number in range(1000)]
    assert done == sorted(set(done))
    assert done[-1] == 1000
    assert list(batch) == []  # the iterator is at its end


def test_a_list_can_be_gone_through_again() -> None:
    batch = parse_batch(["a", "b"], opened="response")
    assert [row["content"] for row in batch] == [row["content"] for row in batch] == ["a", "b"]
    assert list(parse_batch([])) == []
    assert repr(parse_batch([], threads=3)) == "<kimi_xtml.Batch on 3 threads>"


def test_what_is_read_ahead_is_bounded() -> None:
    asked = 0

    def outputs() -> Iterator[str]:
        nonlocal asked
        while True:
            asked += 1
            yield "x"

    for number, _ in zip(range(100), parse_batch(outputs(), threads=2, rows=4), strict=False):
        assert asked <= number + 1 + 2 * 4 * 4
    asked = 0
    big = "x" * (40 << 20)
    next(iter(parse_batch((big for _ in outputs()), threads=2)))
    assert asked == 2  # 64 MiB


def test_each_output_has_its_own_finish_reason() -> None:
    rows = list(
        parse_batch(["a", TEXT, "b"], tools=["ls"], opened="think", finish_reason=iter(["length", "stop", "\ud800"]))
    )
    assert [row["finish_reason"] for row in rows] == ["length", "tool_calls", "\ufffd"]
    with pytest.raises(ValueError, match="finish_reason has 1 entries, and outputs has more"):
        list(parse_batch(["a", "b"], finish_reason=["stop"]))
    with pytest.raises(TypeError, match=r"finish_reason\[0\]: expected str"):
        list(parse_batch(["a", "b"], finish_reason=[None]))  # type: ignore[list-item]


def test_the_first_tag_tells_what_was_open() -> None:
    outputs = [TEXT, "4<|close|>response<|sep|>", "<|open|>think<|sep|>Hm", "cut", "<|close|>" + TEXT]
    rows = list(parse_batch(outputs, tools=["ls"], opened="auto", call_ids=0))
    assert [row["reasoning"] for row in rows] == ["Hm.", None, "Hm", None, "<|close|>Hm."]
    assert [row["content"] for row in rows] == ["Yes.", "4", "", "cut", "Yes."]
    assert rows[0] == next(iter(parse_batch([TEXT], tools=["ls"], opened="think", call_ids=0)))


def test_misuse_is_told() -> None:
    wrong: list[Any] = ["text", b"text", {"a": 1}, 3, None]
    for outputs in wrong:
        with pytest.raises(TypeError, match="expected an iterable of outputs"):
            parse_batch(outputs)
    wrong = [3, None, ["a"], ("a", [1], 2), ("a", b"ab"), (["a"], ["1"])]
    for output in wrong:
        with pytest.raises(TypeError, match=r"outputs\[1\]"):
            list(parse_batch(["x", output]))
    with pytest.raises(ValueError, match=r"outputs\[0\]: 1 ids have no text"):
        list(parse_batch([(["a"], [1, 2])]))
    for name in ("rows", "threads"):
        with pytest.raises(ValueError, match="1 or more"):
            parse_batch([], **dict[str, Any]({name: 0}))
    for name in ("rows", "threads", "call_ids", "value_limit"):
        with pytest.raises(TypeError, match=f"expected int, got bool\nwhile processing '{name}'"):
            parse_batch([], **dict[str, Any]({name: True}))


def test_a_fault_of_the_caller_comes_through() -> None:
    def outputs() -> Iterator[str]:
        yield "a"
        raise KeyError("mine")

    def stop(_done: int) -> None:
        raise KeyError("mine")

    for batch in (parse_batch(outputs()), parse_batch(["a"], progress=stop)):
        rows = iter(batch)
        with pytest.raises(KeyError, match="mine"):
            next(rows)
        assert list(rows) == []


def test_other_threads_run_meanwhile() -> None:
    ticks, done = 0, threading.Event()

    def count() -> None:
        nonlocal ticks
        while not done.wait(0.0005):
            ticks += 1

    thread = threading.Thread(target=count)
    thread.start()
    list(parse_batch([TEXT * 2000] * 8, opened="think", threads=1))
    done.set()
    thread.join()
    assert ticks > 3


def test_tokens_at_once() -> None:
    """Each token is in exactly one part, also one that begins in another than it ends in, or never had a text."""
    counted = 0
    for case in CASES:
        ids = case.get("ids")
        if not ids or not all(len(delta) == 1 for delta in ids):
            continue
        options = request(case)
        options.pop("tool_choice")
        flat = [number for (number,) in ids]
        events = parse_tokens(case["chunks"], flat, **options)
        at = 0
        for event in events:
            if event.tokens is not None:  # as that of a channel that the prompt opened
                assert event.tokens[0] == at, case["id"]
                at = event.tokens[1]
        assert at == len(flat), case["id"]
        assert len(labels(case["chunks"], flat, **options)) == len(flat)
        counted += at
    assert counted == 10_926
    assert parse_tokens(["", ""], [7, 8])[-1] == Markup("", (0, 0), (0, 2))
    assert parse_tokens(["<|close|>"], [7], opened="response")[1] == Content("<|close|>", (0, 9), (0, 1))


@pytest.mark.parametrize("of", [bytes, bytearray, memoryview])
def test_buffers_are_taken(of: Any) -> None:
    assert parse(of(TEXT.encode()), opened="think") == parse(TEXT, opened="think")
    with pytest.raises(TypeError, match="expected str, bytes, bytearray or memoryview, got int"):
        parse(3)  # type: ignore[arg-type]


def test_arrow() -> None:
    pa = pytest.importorskip("pyarrow")
    outputs = [TEXT, "cut"] * 700
    batch = parse_batch(outputs, tools=["ls"], opened="think", call_ids=0, rows=100, threads=2)
    table = pa.table(batch)
    table.validate(full=True)
    assert table.to_pylist() == list(batch)
    assert pa.schema(batch) == table.schema
    assert len(table["content"].chunks) == 14
    of_ids = parse_batch([(["a"], [7]), "b"], opened="response")
    assert pa.table(of_ids)["tokens"].to_pylist()[1] is None
    for column in (pa.array(outputs), pa.chunked_array([outputs]), pa.array(outputs).cast(pa.binary())):
        assert pa.table(parse_batch(column, tools=["ls"], opened="think", call_ids=0)).equals(table)
    with pytest.raises(pa.ArrowException, match=r"outputs\[2\]: expected str"):
        pa.table(parse_batch(["a", "b", 3]))  # type: ignore[list-item]


def test_a_batch_is_a_type() -> None:
    assert isinstance(parse_batch([]), Batch)

"""Every recorded stream through Python: as recorded, whole, by characters, by ids, by bytes; same results."""

from typing import Any

import pytest

import corpora
from corpora import Stream
from kimi_xtml import ChatStream, Parser
from results import by_events, conserved, of_chat

STREAMS = corpora.streams()


def named(streams: list[Stream]) -> list[object]:
    return [pytest.param(stream, id=stream.id) for stream in streams]


SPELLED = [stream for stream in STREAMS if not stream.identity]
TEXT = [stream for stream in SPELLED if all(isinstance(chunk, str) for chunk in stream.chunks)]
WITH_IDS = [stream for stream in STREAMS if stream.ids]


def pushed(stream: Stream, chunks: "list[str] | list[bytes] | str") -> Any:
    """The result of a `ChatStream` and of a `Parser`, which agree."""
    chat = ChatStream(**stream.request)
    parser = Parser(**stream.request)
    deltas, events = [], []
    for chunk in chunks:
        deltas += chat.push(chunk) or []
        events += parser.push(chunk)
    deltas += chat.finish(stream.reason) or []
    events += parser.finish(stream.reason)
    assert by_events(events) == of_chat(chat, deltas)["by_events"]
    assert parser.finish_reason == chat.finish_reason
    report = parser.report
    assert report == chat.report
    conserved(report)
    return of_chat(chat, deltas)["result"]


def test_there_are_streams() -> None:
    assert len(STREAMS) >= 160


@pytest.mark.parametrize("stream", named(SPELLED))
def test_as_recorded(stream: Stream) -> None:
    assert pushed(stream, stream.chunks) in stream.accepted


@pytest.mark.parametrize("stream", named(TEXT))
def test_whole_and_by_characters(stream: Stream) -> None:
    text = "".join(map(str, stream.chunks))
    assert pushed(stream, [text]) in stream.accepted
    assert pushed(stream, text) in stream.accepted


@pytest.mark.parametrize("stream", named(TEXT))
def test_by_bytes(stream: Stream) -> None:
    raw = "".join(map(str, stream.chunks)).encode()
    assert pushed(stream, [raw[at : at + 1] for at in range(len(raw))]) in stream.accepted


@pytest.mark.parametrize("stream", named(WITH_IDS))
@pytest.mark.parametrize("lag", [0, 1, 3])
def test_with_ids(stream: Stream, lag: int) -> None:
    """Ids as recorded, and text that comes some deltas behind its ids."""
    assert stream.ids is not None
    chat = ChatStream(**stream.request)
    texts = [""] * lag + [str(chunk) for chunk in stream.chunks]
    ids = stream.ids + [[]] * lag
    deltas = []
    for text, some in zip(texts, ids, strict=True):
        deltas += chat.push_with_ids(text, some) or []
    deltas += chat.finish(stream.reason) or []
    assert of_chat(chat, deltas)["result"] in stream.accepted
    tokens = chat.report["tokens"]
    assert tokens is not None
    assert tokens["input"] == sum(map(len, stream.ids))

"""What a client makes of deltas, messages and events, so that they can be compared.

In: deltas, a message, events. Out: one form of a result: reasoning, content, calls, finish reason.
"""

from collections.abc import Iterable
from typing import Any

from kimi_xtml import (
    ArgumentEnd,
    Arguments,
    ArgumentStart,
    CallEnd,
    CallStart,
    ChatStream,
    Content,
    Dropped,
    Event,
    Markup,
    Reasoning,
    Withheld,
)
from kimi_xtml.types import Delta, Report


def by_events(events: Iterable[Event]) -> dict[str, Any]:
    """The result that events tell."""
    reasoning, content = "", ""
    calls: list[list[Any]] = []
    for event in events:
        match event:
            case Reasoning(text):
                reasoning += text
            case Content(text):
                content += text
            case CallStart(call, name):
                assert call == len(calls)
                calls.append([name, "", False])
            case CallEnd(call, json, complete):
                calls[call][1] += json
                calls[call][2] = complete
            case ArgumentStart(call, _, _, json) | Arguments(call, json) | ArgumentEnd(call, json, _):
                calls[call][1] += json
            case _:
                pass
    return {"reasoning": reasoning, "content": content, "tool_calls": [tuple(call) for call in calls]}


def joined(events: Iterable[Event], *, spans: bool = True) -> list[list[Any]]:
    """Events as kind, fields, start and end, parts of one text joined: as `parse` joins them, without tokens."""
    whole: list[list[Any]] = []
    for event in events:
        kind, fields = type(event), [getattr(event, name) for name in event.__match_args__]
        start, end = event.span if spans else (0, 0)
        if whole and whole[-1][0] is kind in (Reasoning, Content, Arguments, Withheld, Markup, Dropped):
            whole[-1][1][-1] += fields[-1]
            whole[-1][3] = end
        else:
            whole.append([kind, fields, start, end])
    return whole


def conserved(report: Report) -> None:
    """Each byte and token that was decided counts as one thing."""
    decided: list[Any] = [report["bytes"], report["tokens"]]
    for counts in filter(None, decided):
        assert counts["input"] == sum(count for kind, count in counts.items() if kind != "input")


def by_deltas(deltas: Iterable[Delta]) -> dict[str, Any]:
    """The result that a client assembles; it cannot see which calls are complete."""
    reasoning, content = "", ""
    calls: list[list[Any]] = []
    for delta in deltas:
        assert len(delta) == 1
        reasoning += delta.get("reasoning_content", "")
        content += delta.get("content", "")
        for call in delta.get("tool_calls", []):
            if "id" in call:
                assert call["index"] == len(calls)
                assert call["type"] == "function"
                calls.append([call["function"]["name"], ""])
            else:
                assert call["index"] == len(calls) - 1
            calls[call["index"]][1] += call["function"]["arguments"]
    return {"reasoning": reasoning, "content": content, "tool_calls": [tuple(call) for call in calls]}


def of_chat(chat: ChatStream, deltas: list[Delta]) -> dict[str, Any]:
    """The result of a finished stream, whose message and deltas agree."""
    message = chat.message
    assert message is not None
    assert message["role"] == "assistant"
    told: dict[str, Any] = {
        "reasoning": message.get("reasoning_content", ""),
        "content": message["content"],
        "tool_calls": [
            (call["function"]["name"], call["function"]["arguments"], call.get("complete", True))
            for call in message.get("tool_calls", [])
        ],
    }
    calls = [(name, arguments) for name, arguments, _ in told["tool_calls"]]
    assert by_deltas(deltas) == {**told, "tool_calls": calls}
    return {"by_events": told, "result": {**told, "finish_reason": chat.finish_reason}}

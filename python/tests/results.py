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
    Event,
    Reasoning,
)
from kimi_xtml.types import Delta


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

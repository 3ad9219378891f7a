"""Verifying what a policy generated: the message, calls as dicts, and a reward for its format.

In: outputs, as `parse_batch` takes them. Out: a `Verdict` each, in order. The reward is for the form alone; whether an
answer is right is its task's own affair.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from kimi_xtml import parse_batch
from kimi_xtml.types import Output, Row

PENALTY = 0.25
"""What each kind of deviation costs that `penalties` does not name."""


@dataclass(frozen=True)
class Call:
    """A call. `arguments` is None if it is not complete or its arguments are no JSON object: it must not be run."""

    id: str
    name: str
    arguments: dict[str, Any] | None


@dataclass(frozen=True)
class Verdict:
    """What an output says, what is wrong with its form, and the reward for it, from 0 to 1."""

    reasoning: str | None
    content: str
    tool_calls: tuple[Call, ...]
    finish_reason: str
    faults: Mapping[str, int]
    reward: float

    @property
    def message(self) -> dict[str, Any]:
        """The message as Chat Completions has it, with the calls that can be run, and their arguments as dicts."""
        message: dict[str, Any] = {"role": "assistant", "content": self.content}
        if self.reasoning is not None:
            message["reasoning_content"] = self.reasoning
        calls = [call for call in self.tool_calls if call.arguments is not None]
        if calls:
            message["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                for call in calls
            ]
        return message


def verify(
    outputs: Iterable[Output], /, *, penalties: Mapping[str, float] | None = None, **options: Any
) -> Iterator[Verdict]:
    """Reads outputs, with the options of `parse_batch`.

    The reward is 1 less what each kind of fault costs, however often it was met: the codes of `kimi_xtml.CODES`, and
    `incomplete-call` and `no-object` for calls that must not be run.
    """
    for row in parse_batch(outputs, **options):
        yield _verdict(row, penalties or {})


def _verdict(row: Row, penalties: Mapping[str, float]) -> Verdict:
    faults = {noted["code"]: noted["count"] for noted in row["diagnostics"]}
    calls: list[Call] = []
    for call in row["tool_calls"]:
        arguments = _object(call["arguments"]) if call["complete"] else None
        if arguments is None:
            fault = "no-object" if call["complete"] else "incomplete-call"
            faults[fault] = faults.get(fault, 0) + 1
        calls.append(Call(call["id"], call["name"], arguments))
    reward = max(0.0, 1.0 - sum(penalties.get(code, PENALTY) for code in faults))
    return Verdict(row["reasoning"], row["content"], tuple(calls), row["finish_reason"], faults, reward)


def _object(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None

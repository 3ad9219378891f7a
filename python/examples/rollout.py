"""A rollout with two tool turns, tokens in and tokens out: each prompt begins with the last one and what was generated.

    python rollout.py tiktoken.model

In: ranks, and a policy that gives ids for ids; here one that says what was written for it. Out: the tokens of the whole
rollout and a mask of those that the policy generated. Nothing that was generated is ever encoded again.
"""

import json
import sys
from collections.abc import Callable
from typing import Any

from kimi_xtml import LABELS, Tokenizer, Turn
from kimi_xtml.rl import verify

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "add",
            "description": "Adds two numbers.",
            "parameters": {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}},
        },
    }
]
SAID: list[dict[str, Any]] = [
    {
        "reasoning_content": "First 2 and 3.",
        "tool_calls": [{"function": {"name": "add", "arguments": '{"a":2,"b":3}'}}],
    },
    {"reasoning_content": "Then 4.", "tool_calls": [{"function": {"name": "add", "arguments": '{"a":5,"b":4}'}}]},
    {"reasoning_content": "Done.", "content": "It is <|sep|> 9."},
]
"""What the policy says. The last answer spells a control token, which is text: in ids the two are told apart."""

Policy = Callable[[list[int], str | None], list[int]]


def scripted(tokenizer: Tokenizer) -> Policy:
    """A policy that says one message after the other."""
    messages = iter(SAID)
    return lambda _prompt, opened: tokenizer.render(next(messages), opened=opened)  # type: ignore[arg-type]


def rollout(
    tokenizer: Tokenizer, policy: Policy, question: str, turns: int = 8
) -> tuple[list[int], bytes, list[float]]:
    """Lets a policy answer with its tools: the ids, a byte 1 for each that it generated, the rewards for the form."""
    request: dict[str, Any] = {"messages": [{"role": "user", "content": question}], "tools": TOOLS}
    turn = Turn(tokenizer, request)
    rewards: list[float] = []
    for _ in range(turns):
        prompt = turn.ids
        generated = policy(prompt, turn.opened)
        (verdict,) = verify(
            [generated], tokenizer=tokenizer, tools=TOOLS, opened=turn.opened, call_ids=len(request["messages"])
        )
        rewards.append(verdict.reward)
        request["messages"].append(as_request(verdict.message))
        results = [
            {"role": "tool", "tool_call_id": call.id, "content": json.dumps(add(**call.arguments))}
            for call in verdict.tool_calls
            if call.arguments is not None
        ]
        request["messages"] += results or [{"role": "user", "content": "Thank you."}]
        turn = turn.next(generated, request)
        if turn.ids[: len(prompt) + len(generated)] != prompt + generated:
            raise AssertionError("the next prompt does not begin with the last one and what was generated")
        if not results:
            break
    mask = bytearray(len(turn))
    for start, end in turn.generated:
        mask[start:end] = b"\1" * (end - start)
    return turn.ids, bytes(mask), rewards


def as_request(message: dict[str, Any]) -> dict[str, Any]:
    """The message with its arguments as JSON, as a request has them."""
    calls = [
        call | {"function": call["function"] | {"arguments": json.dumps(call["function"]["arguments"])}}
        for call in message.get("tool_calls", [])
    ]
    return message | {"tool_calls": calls} if calls else message


def add(a: float, b: float) -> float:
    """The tool."""
    return a + b


if __name__ == "__main__":
    tokenizer = Tokenizer(sys.argv[1])
    ids, mask, rewards = rollout(tokenizer, scripted(tokenizer), "What is 2 + 3 + 4?")
    print(f"{len(ids)} tokens, {sum(mask)} of them generated, rewards {rewards}, labels {LABELS}")

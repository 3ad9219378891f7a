"""The official clients of OpenAI and Anthropic against a live server.

In: the folder that `model.py` made, a base URL, the names of ways to ask. Out, as JSON lines: for each way and each
case what the client was told, and whether that is right. Nothing is held beyond the requests under way.

A way is an API, `streamed` with its interval or `whole`, and what is special about the request.
"""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anthropic
import openai

Case = dict[str, Any]
Told = dict[str, Any]
MODEL = "k3"
OPEN = {"type": "object", "properties": {}}


def user(case: Case, more: str = "") -> str:
    """The prompt that names a case."""
    return f"case-{case['number']}-{case['opened']}{more}"


def limit(case: Case) -> int:
    """As many tokens as were recorded, where the limit ended the recorded stream; else more than it needs."""
    return len(case["ids"]) if case["reason"] == "length" else len(case["ids"]) + 8


def empty() -> Told:
    """An answer that says nothing."""
    return {"reasoning": "", "content": "", "tool_calls": [], "finish_reason": None}


def chat_request(case: Case, **more: Any) -> dict[str, Any]:
    """A request of Chat Completions."""
    request: dict[str, Any] = {
        "model": MODEL,
        "messages": [{"role": "user", "content": user(case)}],
        "max_tokens": limit(case),
        "temperature": 0,
    }
    if case["tools"]:
        request["tools"] = [
            {"type": "function", "function": {"name": name, "parameters": OPEN}} for name in names(case)
        ]
        request["tool_choice"] = "none" if case["tool_choice"] == "none" else "auto"
    extra = {"chat_template_kwargs": {"thinking": False}} if case["opened"] == "response" else {}
    request["extra_body"] = extra | more.pop("extra_body", {})
    return request | more


def names(case: Case) -> list[str]:
    """The declared tools."""
    return [tool if isinstance(tool, str) else tool["function"]["name"] for tool in case["tools"]]


async def chat_whole(clients: "Clients", case: Case, **more: Any) -> list[Told]:
    """Chat Completions, in one body."""
    answer = await clients.openai.chat.completions.create(**chat_request(case, **more))
    return [
        {
            "reasoning": said(choice.message, "reasoning"),
            "content": choice.message.content or "",
            "tool_calls": [[call.function.name, call.function.arguments] for call in choice.message.tool_calls or []],
            "finish_reason": choice.finish_reason,
            "logprobs": len(choice.logprobs.content or []) if choice.logprobs else None,
            "usage": answer.usage.model_dump(exclude_none=True) if answer.usage else None,
        }
        for choice in answer.choices
    ]


def said(thing: Any, member: str) -> str:
    """Text of a member that the SDK has no type for."""
    return str(getattr(thing, member, None) or getattr(thing, f"{member}_content", None) or "")


async def chat_streamed(clients: "Clients", case: Case, interval: int = 1, **more: Any) -> list[Told]:
    """Chat Completions, streamed."""
    extra = more.pop("extra_body", {})
    if interval > 1:
        extra = extra | {"stream_interval": interval}
    began = time.monotonic()
    request = chat_request(case, **more, stream=True, stream_options={"include_usage": True}, extra_body=extra)
    choices = [empty() | {"ids": [], "logprobs": None} for _ in range(more.get("n", 1))]
    usage = None
    async for chunk in await clients.openai.chat.completions.create(**request):
        usage = chunk.usage.model_dump(exclude_none=True) if chunk.usage else usage
        for choice in chunk.choices:
            told = choices[choice.index]
            told["reasoning"] += said(choice.delta, "reasoning")
            told["content"] += choice.delta.content or ""
            if choice.logprobs:
                told["logprobs"] = (told["logprobs"] or 0) + len(choice.logprobs.content or [])
            for call in choice.delta.tool_calls or []:
                if call.function and call.function.name:
                    if call.index != len(told["tool_calls"]):
                        raise ValueError(f"call {call.index} begins after {len(told['tool_calls'])}")
                    told["tool_calls"].append([call.function.name, ""])
                    told["ids"].append(call.id)
                arguments = (call.function and call.function.arguments) or ""
                if arguments:
                    told["tool_calls"][call.index][1] += arguments
                    told.setdefault("first_arguments", round(time.monotonic() - began, 3))
            told["finish_reason"] = choice.finish_reason or told["finish_reason"]
    for told in choices:
        if len(set(told.pop("ids"))) != len(told["tool_calls"]):
            raise ValueError("two calls have one id")
        told["seconds"] = round(time.monotonic() - began, 3)
        told["usage"] = usage
    return choices


def responses_request(case: Case, **more: Any) -> dict[str, Any]:
    """A request of Responses."""
    request: dict[str, Any] = {
        "model": MODEL,
        "input": user(case),
        "max_output_tokens": limit(case),
        "temperature": 0,
        "store": False,
    }
    if case["tools"]:
        request["tools"] = [
            {"type": "function", "name": name, "parameters": OPEN, "strict": False} for name in names(case)
        ]
        request["tool_choice"] = "none" if case["tool_choice"] == "none" else "auto"
    if case["opened"] == "response":
        request["extra_body"] = {"chat_template_kwargs": {"thinking": False}}
    return request | more


def of_response(answer: Any) -> Told:
    """What the items of a response say."""
    told = empty()
    for item in answer.output:
        if item.type == "reasoning":
            told["reasoning"] += "".join(part.text for part in item.content or [])
        elif item.type == "message":
            told["content"] += "".join(part.text for part in item.content)
        elif item.type == "function_call":
            told["tool_calls"].append([item.name, item.arguments])
    incomplete = answer.incomplete_details
    told["finish_reason"] = "length" if incomplete else "tool_calls" if told["tool_calls"] else "stop"
    return told


async def responses_whole(clients: "Clients", case: Case, **more: Any) -> list[Told]:
    """Responses, in one body."""
    return [of_response(await clients.openai.responses.create(**responses_request(case, **more)))]


async def responses_streamed(clients: "Clients", case: Case, **more: Any) -> list[Told]:
    """Responses, streamed: the deltas must be what the last event holds."""
    told, final = empty(), None
    async for event in await clients.openai.responses.create(**responses_request(case, **more), stream=True):
        match event.type:
            case "response.reasoning_text.delta":
                told["reasoning"] += event.delta
            case "response.output_text.delta":
                told["content"] += event.delta
            case "response.output_item.added" if event.item.type == "function_call":
                told["tool_calls"].append([event.item.name, ""])
            case "response.function_call_arguments.delta":
                told["tool_calls"][-1][1] += event.delta
            case "response.completed" | "response.incomplete" | "response.failed":
                final = of_response(event.response)
            case _:
                pass
    if final is None:
        raise ValueError("the stream has no last event")
    told["finish_reason"] = final["finish_reason"]
    if any(final[member] != told[member] for member in ("reasoning", "content", "tool_calls")):
        told["last_event"] = final
    return [told]


def messages_request(case: Case, **more: Any) -> dict[str, Any]:
    """A request of Messages."""
    request: dict[str, Any] = {
        "model": MODEL,
        "messages": [{"role": "user", "content": user(case)}],
        "max_tokens": limit(case),
    }
    if case["tools"]:
        request["tools"] = [{"name": name, "input_schema": OPEN} for name in names(case)]
        request["tool_choice"] = {"type": "none" if case["tool_choice"] == "none" else "auto"}
    if case["opened"] == "response":
        request["extra_body"] = {"chat_template_kwargs": {"thinking": False}}
    return request | more


STOPPED = {"end_turn": "stop", "tool_use": "tool_calls", "max_tokens": "length", "stop_sequence": "stop"}


def of_message(message: Any) -> Told:
    """What the blocks of a message say."""
    told = empty()
    for block in message.content:
        if block.type == "thinking":
            told["reasoning"] += block.thinking
        elif block.type == "text":
            told["content"] += block.text
        elif block.type == "tool_use":
            told["tool_calls"].append([block.name, json.dumps(block.input)])
    told["finish_reason"] = STOPPED.get(message.stop_reason or "", message.stop_reason)
    return told


async def messages_whole(clients: "Clients", case: Case, **more: Any) -> list[Told]:
    """Messages, in one body. The input of a call is a value here, no text."""
    return [of_message(await clients.anthropic.messages.create(**messages_request(case, **more)))]


async def messages_streamed(clients: "Clients", case: Case, **more: Any) -> list[Told]:
    """Messages, streamed, by the SDK's own accumulation; the pieces of each input are kept as they came."""
    pieces: list[list[str]] = []
    async with clients.anthropic.messages.stream(**messages_request(case, **more)) as stream:
        async for event in stream:
            if event.type == "content_block_start" and event.content_block.type == "tool_use":
                pieces.append([event.content_block.name, ""])
            elif event.type == "content_block_delta" and event.delta.type == "input_json_delta":
                pieces[-1][1] += event.delta.partial_json
        told = of_message(await stream.get_final_message())
    return [told | {"tool_calls": pieces}]


class Clients:
    """The two SDKs, at one server."""

    def __init__(self, url: str) -> None:
        self.openai = openai.AsyncOpenAI(base_url=url + "/v1", api_key="x", max_retries=0, timeout=900)
        self.anthropic = anthropic.AsyncAnthropic(base_url=url, api_key="x", max_retries=0, timeout=900)


Way = Callable[..., Awaitable[list[Told]]]
WAYS: dict[str, tuple[Way, dict[str, Any], bool]] = {
    # name: how it is asked, with what, and whether calls that were cut are told
    "chat": (chat_whole, {}, False),
    "chat streamed": (chat_streamed, {}, True),
    "chat streamed, interval 5": (chat_streamed, {"interval": 5}, True),
    "responses": (responses_whole, {}, False),
    "responses streamed": (responses_streamed, {}, True),
    "messages": (messages_whole, {}, False),
    "messages streamed": (messages_streamed, {}, True),
    "chat, n = 2": (chat_whole, {"n": 2, "temperature": 1}, False),
    "chat streamed, n = 2": (chat_streamed, {"n": 2, "temperature": 1}, True),
    "chat, log-probabilities": (chat_whole, {"logprobs": True, "top_logprobs": 1}, False),
    "chat streamed, log-probabilities": (chat_streamed, {"logprobs": True, "top_logprobs": 1}, True),
    "chat, include_reasoning: false": (chat_whole, {"extra_body": {"include_reasoning": False}}, False),
    "chat streamed, include_reasoning: false": (chat_streamed, {"extra_body": {"include_reasoning": False}}, True),
}


def value(arguments: str) -> Any:
    """Arguments as JSON, or as they are."""
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


def judge(case: Case, told: Told, *, cut: bool, reasoning: bool = True, by_value: bool = False) -> tuple[str, bool]:
    """`exact`, `value` (another spelling of the JSON) or `other`; and whether the finish reason is the expected one."""
    best, finish = "other", False
    for result in case["accepted"]:
        calls = [call[:2] for call in result["tool_calls"] if cut or call[2]]
        if told["content"] != result["content"] or told["reasoning"] != (result["reasoning"] if reasoning else ""):
            continue
        if told["tool_calls"] == calls and not by_value:
            return "exact", told["finish_reason"] == result["finish_reason"]
        if [[name, value(text)] for name, text in told["tool_calls"]] == [[name, value(text)] for name, text in calls]:
            best, finish = "exact" if by_value else "value", told["finish_reason"] == result["finish_reason"]
    return best, finish


async def ask(clients: Clients, case: Case, name: str, gate: asyncio.Semaphore) -> list[dict[str, Any]]:
    """One case in one way."""
    way, more, cut = WAYS[name]
    about = {"way": name, "id": case["id"]}
    async with gate:
        try:
            answers = await way(clients, case, **more)
        except Exception as error:
            return [about | {"verdict": "error", "error": f"{type(error).__name__}: {error}"[:500]}]
    by_value, reasoning = name == "messages", "include_reasoning" not in name
    verdicts = [judge(case, told, cut=cut, reasoning=reasoning, by_value=by_value) for told in answers]
    return [
        about | {"verdict": verdict, "finish": finish, "told": told}
        for told, (verdict, finish) in zip(answers, verdicts, strict=True)
    ]


async def main() -> None:
    """Asks for all cases in all ways."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("folder", type=Path)
    options.add_argument("url")
    options.add_argument("way", nargs="*", help="all if none is named")
    options.add_argument("--ids", help="cases, by commas; all if none are given")
    options.add_argument("--at-once", type=int, default=16)
    given = options.parse_args()
    cases = [json.loads(line) for line in (given.folder / "cases.jsonl").open(encoding="utf-8")]
    for number, case in enumerate(cases):
        case["number"] = number
    if given.ids:
        cases = [case for case in cases if case["id"] in given.ids.split(",")]
    clients, gate = Clients(given.url), asyncio.Semaphore(given.at_once)
    for name in given.way or WAYS:
        began = time.monotonic()
        asked = [ask(clients, case, name, gate) for case in cases]
        rows = [row for rows in await asyncio.gather(*asked) for row in rows]
        for row in rows:
            print(json.dumps(row))
        tally = {
            verdict: sum(row["verdict"] == verdict for row in rows) for verdict in ("exact", "value", "other", "error")
        }
        finish = sum(row.get("finish", False) for row in rows)
        print(f"{name}: {tally}, finish {finish}, {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)


if __name__ == "__main__":
    asyncio.run(main())

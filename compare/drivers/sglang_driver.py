"""Plays streams through SGLang's built-in kimi_k3 detectors, as its chat serving drives them.

In: a stream a JSON line. Out: first the installed version, then what the detectors said of each stream, a JSON line each:
[chunk, kind, call, text]. Reasoning first; its normal text goes to the tool detector where tools are declared.
"""

import json
import os
import sys
from importlib.metadata import version

OUT = os.fdopen(os.dup(1), "w", encoding="utf-8")
os.dup2(2, 1)  # what the package prints must not mix with the answers

from sglang.srt.entrypoints.openai.protocol import ChatCompletionRequest, Tool  # noqa: E402
from sglang.srt.function_call.function_call_parser import FunctionCallParser  # noqa: E402
from sglang.srt.parser.reasoning_parser import ReasoningParser  # noqa: E402

SCHEMA = {"type": "object", "properties": {}}


def play(stream):
    tools = [
        Tool(**{"type": "function", "function": {"name": name, "parameters": SCHEMA}}) for name in stream["tools"]
    ]
    request = ChatCompletionRequest(model="k3", messages=[{"role": "user", "content": "?"}], tools=tools or None)
    reasoning = ReasoningParser("kimi_k3", True, stream["opened"] == "think", request)
    calls = FunctionCallParser(tools, "kimi_k3") if tools else None
    said = []

    def say(number, result):
        thought, text = result
        if thought:
            said.append([number, "reasoning", 0, thought])
        if calls is None:
            if text:
                said.append([number, "content", 0, text])
        elif text:
            tell(number, calls.parse_stream_chunk(text))

    def tell(number, result):
        text, items = result
        if text:
            said.append([number, "content", 0, text])
        for item in items:
            if item.name:
                said.append([number, "name", item.tool_index, item.name])
            if item.parameters:
                said.append([number, "arguments", item.tool_index, item.parameters])

    for number, text in enumerate(stream["chunks"]):
        if text:
            say(number, reasoning.parse_stream_chunk(text))
    end = len(stream["chunks"])
    if stream["reason"] != "abort" and hasattr(reasoning, "parse_stream_end"):
        say(end, reasoning.parse_stream_end())
    if calls is not None:
        if stream["reason"] != "abort" and hasattr(calls, "parse_stream_end"):
            tell(end, calls.parse_stream_end())
        unsent(said, end, calls)
    return said


def unsent(said, end, calls):
    """Arguments that the detector knows and did not stream: the server sends them at the end."""
    detector = calls.detector
    known = getattr(detector, "prev_tool_call_arr", [])
    streamed = getattr(detector, "streamed_args_for_tool", [])
    if not known or not streamed:
        return
    at = len(known) - 1
    arguments = known[at].get("arguments", {})
    whole = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    sent = streamed[at] if at < len(streamed) else ""
    if whole.startswith(sent) and len(whole) > len(sent):
        said.append([end, "arguments", at, whole[len(sent) :]])


def main():
    print(json.dumps({"version": version("sglang")}), file=OUT, flush=True)
    for line in sys.stdin:
        try:
            answer = {"said": play(json.loads(line))}
        except Exception as error:  # what a parser raises is its result
            answer = {"said": [], "error": f"{type(error).__name__}: {error}"[:300]}
        print(json.dumps(answer), file=OUT, flush=True)


main()

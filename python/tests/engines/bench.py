"""What a delta costs in an engine: its own Kimi K3 parser and this package, on the same streams, in the same process.

In: streams in tokens, as case records (KIMI_XTML_CORPORA names their folder); the engine that is installed here, its
name in the first argument. Out: a JSON line for each parser and stream: nanoseconds a delta of the best round, the
loop around the calls included, or what is wrong with the answer. `python/engines --bench` runs it in each environment.
"""

import importlib.util
import json
import logging
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import corpora
import harness
import kimi_xtml
from corpora import Stream
from kimi_xtml._kimi_xtml import _Empty
from results import by_deltas, by_events

SECONDS = 1.0
Told = dict[str, Any]


@dataclass
class Contender:
    """A parser: how to begin a stream, and what it tells of a whole one. `begin` gives what takes each delta."""

    begin: Callable[[Stream], Callable[..., object]]
    told: Callable[[Stream], Told]
    with_ids: bool = False


def package() -> dict[str, Contender]:
    """The package by itself."""

    def parser(stream: Stream) -> kimi_xtml.Parser:
        return kimi_xtml.Parser(**stream.request)

    def chat(stream: Stream) -> kimi_xtml.ChatStream:
        return kimi_xtml.ChatStream(**stream.request, keep_message=False)

    def by_parser(stream: Stream) -> Told:
        each = parser(stream)
        return by_events([event for text in stream.chunks for event in each.push(text)] + each.finish())

    def by_chat(stream: Stream) -> Told:
        each = chat(stream)
        pushed = [delta for text in stream.chunks for delta in each.push(text) or []]
        return by_deltas(pushed + (each.finish() or []))

    def by_ids(stream: Stream) -> Told:
        each = chat(stream)
        given = zip(map(str, stream.chunks), stream.ids or [], strict=True)
        pushed = [delta for text, ids in given for delta in each.push_with_ids(text, ids) or []]
        return by_deltas(pushed + (each.finish() or []))

    return {
        "an empty call": Contender(lambda _: _Empty().push, by_parser),
        "kimi_xtml.Parser.push": Contender(lambda stream: parser(stream).push, by_parser),
        "kimi_xtml.ChatStream.push": Contender(lambda stream: chat(stream).push, by_chat),
        "kimi_xtml.ChatStream.push_with_ids": Contender(lambda stream: chat(stream).push_with_ids, by_ids, True),
    }


def vllm() -> dict[str, Contender]:
    """VLLM's own parser, and this package's adapter, as its chat serving drives them."""
    import kimi_xtml.vllm
    import vllm_driver

    kimi_xtml.vllm.register()

    def contender(name: str) -> Contender:
        server = vllm_driver.Server(name)

        def begin(stream: Stream) -> Callable[..., object]:
            choice = server.choice(stream)
            prompt, processor = choice.prompt, choice.processor
            if processor is not None:
                return lambda text, ids: processor.step(text, ids, None, prompt)
            parse, request = choice.parser.parse_delta, choice.request
            return lambda text, ids: parse(text, ids, request, prompt_token_ids=prompt, finished=False)

        return Contender(begin, lambda stream: server.stream(stream, harness.deltas(stream)), True)

    return {"its own kimi_k3": contender("kimi_k3"), "kimi_xtml's adapter": contender("kimi_xtml")}


def sglang() -> dict[str, Contender]:
    """SGLang's own detectors, and this package's adapter, as its chat serving drives them."""
    import kimi_xtml.sglang
    import test_sglang

    kimi_xtml.sglang.register()

    def contender(name: str) -> Contender:
        def begin(stream: Stream) -> Callable[..., object]:
            choice = test_sglang.Choice(name, stream)
            reasoning, calls = choice.reasoning_parser.parse_stream_chunk, choice.tool_parser.parse_stream_chunk

            def step(text: str) -> object:
                thought, rest = reasoning(text)
                return thought, calls(rest) if rest else None

            return step

        return Contender(begin, lambda stream: test_sglang.told(name, stream))

    return {"its own kimi_k3": contender("kimi_k3"), "kimi_xtml's adapter": contender("kimi_xtml")}


def nanoseconds(contender: Contender, stream: Stream) -> float:
    """The cost of one delta, in the best round; one that takes long has one round."""
    texts = [str(chunk) for chunk in stream.chunks]
    ids = stream.ids or [[]] * len(texts)
    best = float("inf")
    began = time.perf_counter()
    while best == float("inf") or time.perf_counter() - began < SECONDS:
        step = contender.begin(stream)
        start = time.perf_counter_ns()
        if contender.with_ids:
            for text, some in zip(texts, ids, strict=True):
                step(text, some)
        else:
            for text in texts:
                step(text)
        best = min(best, time.perf_counter_ns() - start)
    return best / len(texts)


def wrong(contender: Contender, stream: Stream) -> str | None:
    """What is wrong with a parser's answer; the spelling of a call's JSON is free."""

    def value(told: Told) -> Told:
        calls = []
        for name, arguments, *_ in told["tool_calls"]:
            try:
                calls.append((name, json.loads(arguments)))
            except ValueError:
                calls.append((name, arguments))
        return {"reasoning": told["reasoning"], "content": told["content"], "tool_calls": calls}

    try:
        told = value(contender.told(stream))
    except Exception as error:  # what a parser raises is its answer
        return f"{type(error).__name__}: {error}"[:80]
    said = value(stream.accepted[0])
    faults = [f"{part} {told[part]!r:.60} for {said[part]!r:.20}" for part in said if told[part] != said[part]]
    return "; ".join(faults) or None


def main() -> None:
    """Measures and prints."""
    logging.disable(logging.ERROR)
    contenders = package()
    if importlib.util.find_spec("sglang"):
        contenders |= sglang()
    elif importlib.util.find_spec("vllm"):
        contenders |= vllm()
    for name, contender in contenders.items():
        for stream in corpora.streams():
            fault = wrong(contender, stream)
            cost = None if fault else round(nanoseconds(contender, stream), 1)
            row = {"environment": sys.argv[1], "parser": name, "shape": stream.id, "per_delta": cost, "wrong": fault}
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()

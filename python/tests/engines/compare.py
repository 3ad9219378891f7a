"""The same streams through the engine's own Kimi K3 parser and through ours, streamed and at once.

In: the recorded streams; which engine, by what is installed. Out: one JSON line for each stream and way in which
the engine's own parser gives another result than ours: both, and whether each is one of the results that are right.
"""

import importlib.util
import json
import logging
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

from corpora import Stream
from harness import deltas, of_engines, right, stopped

Ways = dict[str, Callable[[str, Stream], dict[str, Any]]]
SIZES = {"one chunk a delta": 1, "four chunks a delta": 4}


def _vllm() -> Ways:
    import kimi_xtml.vllm
    import vllm_driver

    kimi_xtml.vllm.register()
    servers = {name: vllm_driver.Server(name) for name in ("kimi_k3", "kimi_xtml")}
    ways: Ways = {
        way: lambda name, stream, size=size: servers[name].stream(stream, deltas(stream, size))  # type: ignore[misc]
        for way, size in SIZES.items()
    }
    return ways | {"whole": lambda name, stream: servers[name].whole(stream)}


def _dynamo() -> Ways:
    import kimi_xtml.vllm
    import test_dynamo

    kimi_xtml.vllm.register()
    ways: Ways = {
        way: lambda name, stream, size=size: test_dynamo.told(name, stream, size)  # type: ignore[misc]
        for way, size in SIZES.items()
    }
    return ways | {"whole": lambda name, stream: test_dynamo.told(name, stream, streamed=False)}


def _sglang() -> Ways:
    import kimi_xtml.sglang
    import test_sglang

    kimi_xtml.sglang.register()
    ways: Ways = {
        way: lambda name, stream, size=size: test_sglang.told(name, stream, size)  # type: ignore[misc]
        for way, size in SIZES.items()
    }
    return ways | {"whole": test_sglang.whole}


def value(answer: Any) -> Any:
    """An answer without the spelling of its calls' JSON."""
    if isinstance(answer, str):
        return answer
    calls = []
    for name, arguments in answer["tool_calls"]:
        try:
            calls.append((name, json.loads(arguments)))
        except ValueError:
            calls.append((name, arguments))
    return answer | {"tool_calls": calls}


def main() -> None:
    """Compares and prints."""
    logging.disable(logging.ERROR)
    has = {name: importlib.util.find_spec(name) is not None for name in ("vllm", "sglang", "dynamo")}
    ways = _sglang() if has["sglang"] else _dynamo() if has["dynamo"] else _vllm()
    counts: Counter[str] = Counter()
    for stream in map(stopped, of_engines()):
        # SGLang gives text alone; vLLM's own parser looks for the end of reasoning in the ids.
        if stream.identity if has["sglang"] else not stream.ids:
            continue
        for way, run in ways.items():
            incomplete = way != "whole"
            ours = run("kimi_xtml", stream)
            try:
                theirs: Any = run("kimi_k3", stream)
            except Exception as error:
                theirs = f"{type(error).__name__}: {error}"
            counts[f"{way}: streams"] += 1
            counts[f"{way}: ours right"] += right(stream, ours, incomplete=incomplete)
            theirs_right = right(stream, theirs, incomplete=incomplete)
            counts[f"{way}: theirs right"] += theirs_right
            if theirs == ours:
                continue
            if value(theirs) == value(ours):
                counts[f"{way}: differ in the spelling of JSON alone"] += 1
                continue
            counts[f"{way}: differ"] += 1
            record = {"id": stream.id, "way": way, "theirs right": theirs_right, "theirs": theirs, "ours": ours}
            print(json.dumps(record, ensure_ascii=False))
    print(json.dumps(counts), file=sys.stderr)


if __name__ == "__main__":
    main()

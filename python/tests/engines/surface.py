"""What an adapter takes from the engine that is installed here: where each name is, and how its methods are called.

In: the adapter's name, `vllm` or `sglang`. Out: one JSON object, of each name its module and the signatures of its
methods, or null where it is gone. Two of them, of two versions, tell what moved.
"""

import importlib
import inspect
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from kimi_xtml import _engines

# Looked for when a server is built, and not by name at import.
HOOKS = {
    "vllm": {
        "AnthropicServingMessages": "vllm.entrypoints.anthropic.serving",
        "ChatCompletionRequest": "vllm.entrypoints.openai.chat_completion.protocol",
        "ChatStreamProcessor": "vllm.entrypoints.openai.chat_completion.stream_processor",
    },
    "sglang": {"OpenAIServingChat": "sglang.srt.entrypoints.openai.serving_chat"},
}


def surface(found: Any) -> dict[str, str]:
    """The signatures of a class's own and inherited methods; of what is no class, its own."""
    if not inspect.isclass(found):
        return {"": str(inspect.signature(found)) if callable(found) else type(found).__name__}
    methods = {}
    for name, member in inspect.getmembers(found):
        if callable(member) and (not name.startswith("_") or name in ("__init__", "_compose_parser")):
            try:
                methods[name] = str(inspect.signature(member))
            except (TypeError, ValueError):
                methods[name] = "?"
    return methods


def main(adapter: str) -> None:
    """Looks."""
    told: dict[str, dict[str, Any] | None] = {}
    find = _engines.find

    def recorded(distribution: str, tested: str, wanted: Mapping[str, Sequence[_engines.Place]]) -> dict[str, Any]:
        for name, places in wanted.items():
            told[name] = None
            for place in places:
                try:
                    found = find(distribution, tested, {name: (place,)})[name]
                except _engines.EngineError:
                    continue
                told[name] = {"module": place.module, "methods": surface(found)}
                break
        return find(distribution, tested, wanted)

    _engines.find = recorded
    try:
        importlib.import_module(f"kimi_xtml.{adapter}")
    except _engines.EngineError as error:
        print(error, file=sys.stderr)
    for name, module in HOOKS[adapter].items():
        try:
            told[name] = {"module": module, "methods": surface(getattr(importlib.import_module(module), name))}
        except (ImportError, AttributeError):
            told[name] = None
    print("\nsurface " + json.dumps(told))


if __name__ == "__main__":
    main(sys.argv[1])

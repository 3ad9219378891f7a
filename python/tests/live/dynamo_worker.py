"""A worker of Dynamo's that says one recorded output, whatever it is asked: no engine, no weights.

In: the folder that `model.py` made, names of parsers for the model's card, ids of tokens. Out: an endpoint that gives
these ids, three a delta, to a frontend that finds it through a folder.
"""

import argparse
import asyncio
from collections.abc import AsyncIterator
from typing import Any

import uvloop
from dynamo.llm import ModelInput, ModelRuntimeConfig, ModelType, WorkerType, register_model
from dynamo.runtime import DistributedRuntime


async def main() -> None:
    """Registers the model and serves."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("folder")
    options.add_argument("--ids", required=True, help="token ids, by commas")
    options.add_argument("--dyn-tool-call-parser")
    options.add_argument("--dyn-reasoning-parser")
    given = options.parse_args()
    ids = [int(number) for number in given.ids.split(",")]

    async def generate(request: Any, context: Any) -> AsyncIterator[dict[str, Any]]:
        del request, context  # whatever is asked; Dynamo looks at their names
        for at in range(0, len(ids), 3):
            last = at + 3 >= len(ids)
            yield {"token_ids": ids[at : at + 3], "index": 0} | ({"finish_reason": "stop"} if last else {})

    runtime = DistributedRuntime(asyncio.get_running_loop(), "file", "tcp")
    endpoint = runtime.endpoint("live.backend.generate")
    card = ModelRuntimeConfig()
    card.tool_call_parser = given.dyn_tool_call_parser
    card.reasoning_parser = given.dyn_reasoning_parser
    await register_model(
        ModelInput.Tokens,
        ModelType.Chat | ModelType.Completions,
        endpoint,
        given.folder,
        "k3",
        worker_type=WorkerType.Aggregated,
        runtime_config=card,
        ignore_weights=True,
    )
    await endpoint.serve_endpoint(generate)


if __name__ == "__main__":
    uvloop.run(main())

"""Dynamo's frontend, started with each spelling of the parsers' flags: which starts, and which reaches these parsers.

In: the folder that `model.py` made; this Python has Dynamo and, for its processors, vLLM or SGLang. Out: a row of a
Markdown table a spelling: whether it starts, and what a client gets of one stream in which a quoted tag tells the
parsers apart. Held: one frontend and one worker at a time, which find each other through a folder.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
OURS, OWN = ("kimi_xtml", "kimi_xtml"), ("kimi_k3", "kimi_k3")
# processor, how the flags are spelled on the frontend, on the worker; the parsers' names
SPELLINGS = [
    *[(processor, "", "--dyn-{}", OURS) for processor in ("dynamo", "vllm", "sglang")],
    *[(processor, "--{}", "", OURS) for processor in ("dynamo", "vllm", "sglang")],
    *[(processor, "--dyn-{}", "", OURS) for processor in ("dynamo", "vllm", "sglang")],
    *[(processor, "", "", OURS) for processor in ("dynamo", "vllm", "sglang")],
    ("dynamo", "", "--dyn-{}", OWN),
    ("vllm", "--{}", "", OWN),
    ("sglang", "--{}", "", OWN),
]


def flags(spelling: str, names: tuple[str, str]) -> list[str]:
    """The two flags as they are spelled."""
    if not spelling:
        return []
    return [spelling.format("tool-call-parser"), names[0], spelling.format("reasoning-parser"), names[1]]


def ask(url: str) -> dict[str, Any]:
    """What a client gets."""
    body = {
        "model": "k3",
        "messages": [{"role": "user", "content": "case-0-think"}],
        "tools": [
            {"type": "function", "function": {"name": "read_file", "parameters": {"type": "object", "properties": {}}}}
        ],
        "max_tokens": 200,
        "stream": True,
    }
    request = urllib.request.Request(
        url + "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    told: dict[str, Any] = {"reasoning": "", "content": "", "calls": ""}
    with urllib.request.urlopen(request, timeout=60) as answer:
        for line in answer:
            if not line.startswith(b"data: {"):
                continue
            for choice in json.loads(line[6:]).get("choices", []):
                delta = choice["delta"]
                told["reasoning"] += delta.get("reasoning_content") or delta.get("reasoning") or ""
                told["content"] += delta.get("content") or ""
                for call in delta.get("tool_calls") or []:
                    told["calls"] += (call["function"].get("name") or "") + (call["function"].get("arguments") or "")
                told["finish"] = choice.get("finish_reason") or told.get("finish")
    return told


def error_of(log: Path) -> str:
    """The line that says why."""
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line).strip() for line in log.read_text(errors="replace").splitlines()]
    told = [
        line
        for line in lines
        if re.search(r"error|invalid|unrecognized|not registered|not found|No module", line, re.I)
    ]
    return (told or lines or ["nothing said"])[-1][:300]


def attempt(folder: Path, ids: str, spelled: Any, frontend: str, port: int) -> dict[str, Any]:
    """One frontend and one worker."""
    processor, before, behind, names = spelled
    row: dict[str, Any] = {
        "processor": processor,
        "frontend": before,
        "worker": behind,
        "names": names,
        "started": False,
    }
    with tempfile.TemporaryDirectory() as scratch:
        variables = os.environ | {
            "DYN_FILE_KV": scratch,
            "DYN_DISCOVERY_BACKEND": "file",
            "DYN_SYSTEM_PORT": "0",
            "HF_HUB_OFFLINE": "1",
            "KIMI_XTML_LOG": "info",
        }
        logs = [Path(scratch, name) for name in ("worker.log", "frontend.log")]
        commands = [
            [HERE / "dynamo_worker.py", folder, "--ids", ids, *flags(behind, names)],
            [
                *("-m", frontend, "--http-port", str(port), "--discovery-backend", "file"),
                *("--dyn-chat-processor", processor, *flags(before, names)),
            ],
        ]
        running = []
        for command, log in zip(commands, logs, strict=True):
            with log.open("w") as lines:
                parts = [sys.executable, *map(str, command)]
                running.append(subprocess.Popen(parts, env=variables, stdout=lines, stderr=lines))
        try:
            url = f"http://127.0.0.1:{port}"
            until = time.monotonic() + 240
            while time.monotonic() < until and all(process.poll() is None for process in running):
                try:
                    with urllib.request.urlopen(url + "/v1/models", timeout=5) as answer:
                        if json.load(answer)["data"]:
                            row["started"] = True
                            break
                except OSError:
                    pass
                time.sleep(1)
            if row["started"]:
                try:
                    row["told"] = ask(url)
                except Exception as error:
                    row["error"] = f"{error}: {error.read()[:300]!r}" if hasattr(error, "read") else str(error)
            else:
                row["error"] = "; ".join(error_of(log) for log in logs[::-1])
            row["ours"] = any("the stream deviated" in log.read_text(errors="replace") for log in logs)
        finally:
            for process in running:
                process.terminate()
            for process in running:
                try:
                    process.wait(20)
                except subprocess.TimeoutExpired:
                    process.kill()
    return row


def main() -> None:
    """Tries them in turn."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("folder", type=Path)
    options.add_argument(
        "--case", default="K01", help="the recorded stream; one that deviates, so that the log tells of it"
    )
    options.add_argument("--processor", action="append", help="only these")
    options.add_argument("--port", type=int, default=8500)
    given = options.parse_args()
    cases = [json.loads(line) for line in (given.folder / "cases.jsonl").open(encoding="utf-8")]
    ids = ",".join(map(str, next(case for case in cases if case["id"] == given.case)["ids"]))
    for at, spelled in enumerate(SPELLINGS):
        if given.processor and spelled[0] not in given.processor:
            continue
        frontend = "kimi_xtml.dynamo_frontend" if spelled[0] == "sglang" else "dynamo.frontend"
        print(json.dumps(attempt(given.folder, ids, spelled, frontend, given.port + at)), flush=True)


if __name__ == "__main__":
    main()

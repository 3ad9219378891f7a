"""The recorded streams: corpora of the repository and, where KIMI_XTML_DATA is set, its cases.

Out: one `Stream` a choice of a record, with what a parser shall make of it.
"""

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Results = list[dict[str, Any]]


def folder() -> Path:
    """The corpora folder: two levels up in the repository, else from KIMI_XTML_CORPORA."""
    given = os.environ.get("KIMI_XTML_CORPORA")
    return Path(given) if given else Path(__file__).resolve().parents[2] / "corpora"


@dataclass
class Stream:
    """Deltas of one choice, the request they answer, and the results that are right."""

    id: str
    context: dict[str, Any]
    chunks: list[str] | list[bytes]
    ids: list[list[int]] | None
    identity: bool
    accepted: Results = field(default_factory=list)

    @property
    def request(self) -> dict[str, Any]:
        """Keyword arguments of a parser."""
        opened = self.context.get("initial_channel", "none")
        return {
            "tools": self.context.get("tools", []),
            "tool_choice": self.context.get("tool_choice"),
            "opened": None if opened == "none" else opened,
        }

    @property
    def reason(self) -> str:
        """The engine's own finish reason."""
        return str(self.context.get("engine_finish_reason", "stop"))


def result(expected: dict[str, Any], reason: str) -> dict[str, Any]:
    """An expectation with nothing left out."""
    calls = [
        (call["name"], call["arguments_json"], call.get("complete", True)) for call in expected.get("tool_calls", [])
    ]
    if reason == "stop" and any(complete for *_, complete in calls):
        reason = "tool_calls"
    return {
        "reasoning": expected.get("reasoning", ""),
        "content": expected.get("content", ""),
        "tool_calls": calls,
        "finish_reason": expected.get("finish_reason", reason),
    }


def streams() -> list[Stream]:
    """Every stream of every file there is."""
    files = sorted(folder().glob("*.jsonl"))
    data = os.environ.get("KIMI_XTML_DATA")
    if data:
        cases = Path(data) / "cases"
        files += [path for path in (cases / "field.jsonl", cases / "second" / "second.jsonl") if path.exists()]
    found = []
    for path in files:
        for line in path.read_text(encoding="utf-8").split("\n"):
            if line.strip():
                found.extend(_of_record(json.loads(line)))
    return found


def _of_record(record: dict[str, Any]) -> list[Stream]:
    context = record["context"]
    reason = context.get("engine_finish_reason", "stop")
    name = record["id"]
    if "interleaved_choices" in record:
        choices = sorted({choice for choice, _ in record["interleaved_choices"]})
        return [
            Stream(
                f"{name}-{choice}",
                context,
                [text for other, text in record["interleaved_choices"] if other == choice],
                None,
                False,
                [result(record["expected_choices"][choice], reason)],
            )
            for choice in choices
        ]
    chunks: Any = record.get("chunks", [])
    if "byte_chunks_hex" in record:
        chunks = [bytes.fromhex(chunk) for chunk in record["byte_chunks_hex"]]
    accepted = [result(record["expected"], reason)]
    accepted += [result({**other}, reason) for other in record.get("alternatives", [])]
    return [Stream(name, context, chunks, record.get("ids"), record.get("identity", False), accepted)]

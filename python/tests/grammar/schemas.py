"""Schemas of tools' parameters.

In: this file, and the 212 schemas of `data/walle` below KIMI_XTML_DATA, if it is set. Out: tools. Held: nothing.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

OWN: dict[str, dict[str, Any]] = {
    "none": {"type": "object", "properties": {}},
    "string": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    "scalars": {
        "type": "object",
        "properties": {
            "count": {"type": "integer"},
            "share": {"type": "number"},
            "deep": {"type": "boolean"},
            "nothing": {"type": "null"},
        },
        "required": ["count", "deep"],
    },
    "nested": {
        "type": "object",
        "properties": {
            "rows": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
            "pair": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        },
        "required": ["rows"],
    },
    "words": {"type": "object", "properties": {"unit": {"enum": ["c", "f"]}, 'a "b" & c': {"type": "string"}}},
}


def as_parameters(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema as a tool's parameters, which are an object: any other is the one property `value`."""
    schema = {key: value for key, value in schema.items() if key != "$id"}
    if schema.get("type") == "object":
        return schema
    text = json.dumps(schema).replace('"$ref": "#"', '"$ref": "#/properties/value"')
    schema = json.loads(text)
    definitions: dict[str, Any] = {key: schema.pop(key) for key in ("$defs", "definitions") if key in schema}
    return {"type": "object", "properties": {"value": schema}, "required": ["value"], **definitions}


def schemas() -> dict[str, dict[str, Any]]:
    """All schemas, by name."""
    found = dict(OWN)
    if data := os.environ.get("KIMI_XTML_DATA"):
        for file in sorted(Path(data, "data/walle").glob("*.jsonl")):
            for number, line in enumerate(file.read_text().splitlines()):
                found[f"{file.stem}:{number}"] = as_parameters(json.loads(line))
    return found


def tool(name: str, parameters: dict[str, Any]) -> dict[str, Any]:
    """The schema as a tool of a request."""
    return {"type": "function", "function": {"name": name, "parameters": parameters}}

#!/usr/bin/env python3
"""Makes prompts.jsonl from ../source/prompts.toml, with the slow encoder of the Python tests.

`--check` says whether the file is what the source makes.
"""

import json
import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1] / "python" / "tests"))

import encoder  # noqa: E402


def record(request: dict[str, object]) -> str:
    """A line: the request keeps its spelling, so that numbers and escapes are what is tested."""
    body = str(request["json"])
    partial_mode = bool(request.get("partial_mode", True))
    members: dict[str, object] = {"id": request["id"], "about": request["about"]}
    if not partial_mode:
        members["partial_mode"] = False
    try:
        pieces = encoder.encode(json.loads(body), partial_mode=partial_mode)
    except encoder.Refused:
        made: dict[str, object] = {"error": True}
    else:
        made = {"prompt": [{"c" if is_control else "t": encoder.as_text(text)} for is_control, text in pieces]}
    head = json.dumps(members, ensure_ascii=False)[:-1]
    return f'{head}, "request": {body.replace(chr(10), " ")}, {json.dumps(made, ensure_ascii=False)[1:]}\n'


def main() -> None:
    """Writes the file, or compares it."""
    source = tomllib.loads((HERE.parent / "source" / "prompts.toml").read_text(encoding="utf-8"))
    lines = "".join(record(request) for request in source["request"])
    file = HERE / "prompts.jsonl"
    if "--check" not in sys.argv:
        file.write_text(lines, encoding="utf-8")
    elif file.read_text(encoding="utf-8") != lines:
        sys.exit(f"{file} is not what the source makes; run {sys.argv[0]}")


if __name__ == "__main__":
    main()

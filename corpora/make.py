#!/usr/bin/env python3
"""Makes the three corpora from the messages in source/: see README.md.

A message is rendered to its stream, the stream is cut with Kimi's tokenizer, and what a parser shall make of it follows
from the written message. Streams that break the grammar stand in source/malformed.toml with their results.
"""

from __future__ import annotations

import argparse
import ast
import base64
import json
import operator
import random
import re
import sys
import tomllib
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import tiktoken

HERE = Path(__file__).parent
FAMILIES = ("math", "tools", "malformed")
ORIGIN = "written for this project"
CONTROL = {"<|end_of_msg|>": 163586, "<|open|>": 163587, "<|close|>": 163588, "<|sep|>": 163589}
GROUPINGS = (1, 1, 1, 1, 1, 1, 2, 4, 8, 16)

# The pre-tokenizer's splits, in this order.
SPLITS = (
    r"[\p{Han}]+",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}",
    r" ?[^\s\p{L}\p{N}]+[\r\n]*",
    r"\s*[\r\n]+",
    r"\s+(?!\S)",
    r"\s+",
)

Record = dict[str, Any]


class Piece(NamedTuple):
    """A control token, or text that is none, whatever it looks like."""

    text: str
    control: bool = False


# Message -> pieces


def opener(head: str) -> list[Piece]:
    return [Piece("<|open|>", True), Piece(head), Piece("<|sep|>", True)]


def closer(name: str) -> list[Piece]:
    return [Piece("<|close|>", True), Piece(name), Piece("<|sep|>", True)]


def element(head: str, body: str) -> list[Piece]:
    return [*opener(head), Piece(body), *closer(head.split(" ")[0])]


def attribute(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;")


def wire(argument: Record) -> tuple[str, str]:
    """The type and the body of an argument."""
    value = argument.get("value")
    types = {str: "string", bool: "boolean", int: "number", float: "number", list: "array", dict: "object"}
    kind = argument.get("type") or types[type(value)]
    if "raw" in argument:
        return kind, argument["raw"]
    return kind, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def render_call(call: Record, position: int) -> Iterator[Piece]:
    yield from opener(f'call tool="{attribute(call["tool"])}" index="{call.get("index", position)}"')
    for argument in call.get("args", []):
        kind, body = wire(argument)
        yield from element(f'argument key="{attribute(argument["key"])}" type="{kind}"', body)
    if "json" in call:
        yield from element('json type="object"', call["json"])
    yield from closer("call")


def render(message: Record, opened: str) -> Iterator[Piece]:
    """The stream of a message, in a prompt that left the channel `opened` open."""
    for channel in ("think", "response"):
        if channel in message or channel == opened:
            pieces = element(channel, message.get(channel, ""))
            yield from pieces[3:] if channel == opened else pieces
    if calls := message.get("calls"):
        yield from opener("tools")
        for position, call in enumerate(calls, 1):
            yield from render_call(call, position)
        yield from closer("tools")
    end = message.get("end", "end_of_msg")
    if end != "tools":
        yield from closer("message")
    if end == "end_of_msg":
        yield Piece("<|end_of_msg|>", True)


def written(stream: str) -> Iterator[Piece]:
    """The pieces of a stream that is written out; `<\\|` begins a quoted marker."""
    for text in re.split("(" + "|".join(map(re.escape, CONTROL)) + ")", stream):
        yield Piece(text.replace("<\\|", "<|"), text in CONTROL)


# What a parser shall make of it


def arguments_json(call: Record) -> str:
    if "json" in call:
        return str(call["json"])
    members = []
    for argument in call.get("args", []):
        kind, body = wire(argument)
        value = json.dumps(body, ensure_ascii=False) if kind == "string" else body
        members.append(f"{json.dumps(argument['key'], ensure_ascii=False)}:{value}")
    return "{" + ",".join(members) + "}"


def result(reasoning: str, content: str, calls: list[Record]) -> Record:
    return {"reasoning": reasoning, "content": content, "tool_calls": calls}


def finished(outcome: Record, reason: str) -> Record:
    complete = any(call.get("complete", True) for call in outcome["tool_calls"])
    return outcome | {"finish_reason": "tool_calls" if reason == "stop" and complete else reason}


def results_of_message(message: Record, engaged: bool) -> list[Record]:
    """The expected result; then the other ones that a test accepts."""
    channels = message.get("think", ""), message.get("response", "")
    calls = [{"name": c["tool"], "arguments_json": arguments_json(c)} for c in message.get("calls", [])]
    delivered = result(*channels, calls)
    return [delivered] if engaged or not calls else [result(*channels, []), delivered]


def results_as_written(source: Record) -> list[Record]:
    outcomes = []
    for outcome in (source, *source.get("alternatives", [])):
        calls = [
            {"name": call["name"], "arguments_json": call["arguments"]}
            | ({} if call.get("complete", True) else {"complete": False})
            for call in outcome.get("calls", [])
        ]
        outcomes.append(result(outcome.get("reasoning", ""), outcome.get("content", ""), calls))
    return outcomes


# Pieces -> chunks


def load_tokenizer(path: Path) -> tiktoken.Encoding:
    import tiktoken

    lines = (line.split() for line in path.read_bytes().splitlines())
    ranks = {base64.b64decode(token): int(rank) for token, rank in lines}
    return tiktoken.Encoding("kimi", pat_str="|".join(SPLITS), mergeable_ranks=ranks, special_tokens=CONTROL)


def tokens(pieces: Iterator[Piece], tokenizer: tiktoken.Encoding) -> Iterator[tuple[str, int]]:
    """Each token's text and id. Text that ends inside a character waits for the token that completes it."""
    for text, control in pieces:
        if control:
            yield text, CONTROL[text]
            continue
        held = b""
        for token in tokenizer.encode_ordinary(text):
            held += tokenizer.decode_single_token_bytes(token)
            try:
                complete = held.decode()
            except UnicodeDecodeError:
                yield "", token
            else:
                yield complete, token
                held = b""


def make_record(family: str, source: Record, tokenizer: tiktoken.Encoding, seed: int) -> Record:
    if family == "malformed":
        tools = source.get("tools", ["lookup"])
        opened = source.get("opened", "think")
        pieces = written(source["stream"])
        choice: str | Record = "auto"
        outcomes = results_as_written(source)
    else:
        message = source if family == "tools" else source | {"response": source["solution"]}
        tools = source.get("tools", list(dict.fromkeys(c["tool"] for c in source.get("calls", []))))
        opened = source.get("opened", "think" if "think" in source else "response")
        pieces = render(message, opened)
        choice = source.get("tool_choice", "auto")
        if "named" in source:
            choice = {"type": "function", "function": {"name": source["named"]}}
        outcomes = results_of_message(message, bool(tools) and choice != "none")

    reason = source.get("reason", "stop")
    grouping = source.get("grouping") or random.Random(f"{seed} {source['id']}").choice(GROUPINGS)
    stream = list(tokens(pieces, tokenizer))
    stream = stream[: len(stream) - source.get("drop", 0)]
    chunks = [stream[at : at + grouping] for at in range(0, len(stream), grouping)]
    record: Record = {
        "id": source["id"],
        "kind": source.get("kind", "worked-solution"),
        "family": family,
        "origin": ORIGIN,
        "note": source.get("note"),
        "user": source.get("user", source.get("question")),
        "identity": source.get("identity"),
        "grouping": grouping,
        "context": {
            "tools": tools,
            "tool_choice": choice,
            "initial_channel": opened,
            "engine_finish_reason": reason,
        },
        "chunks": ["".join(text for text, _ in chunk) for chunk in chunks],
        "ids": [[token for _, token in chunk] for chunk in chunks],
        "expected": finished(outcomes[0], reason),
        "alternatives": outcomes[1:],
    }
    return {key: value for key, value in record.items() if value is not None}


# Checks of the sources


def evaluate(node: ast.expr) -> Fraction:
    operations: dict[type[ast.operator], Callable[[Fraction, Fraction], Fraction]] = {
        ast.Add: operator.add,
        ast.Sub: operator.sub,
        ast.Mult: operator.mul,
        ast.Div: operator.truediv,
    }
    match node:
        case ast.Constant(value=int() | float() as value):
            return Fraction(str(value))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -evaluate(operand)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in operations:
            return operations[type(op)](evaluate(left), evaluate(right))
    raise ValueError(f"not arithmetic: {ast.unparse(node)}")


def faults(sources: dict[str, list[Record]]) -> Iterator[str]:
    ids = [source["id"] for family in FAMILIES for source in sources[family]]
    yield from (f"{name}: id used twice" for name in set(ids) if ids.count(name) > 1)
    for source in sources["math"]:
        steps = re.findall(r"<<(.+?)=(.+?)>>(\S)", source["solution"])
        for expression, value, _ in steps:
            if evaluate(ast.parse(expression, mode="eval").body) != Fraction(value):
                yield f"{source['id']}: {expression} is not {value}"
        answers = re.findall(r"^#### (.+?)\r?$", source["solution"], re.MULTILINE)
        if len(answers) != 1 or Fraction(answers[0]) != Fraction(steps[-1][1]):
            yield f"{source['id']}: the answer is not the last step's result"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokenizer", type=Path, metavar="FILE", help="Kimi's BPE ranks, tiktoken.model")
    parser.add_argument("--seed", type=int, default=1, help="of the groupings (default: 1)")
    parser.add_argument("--check", action="store_true", help="compare with the files that are there; write nothing")
    options = parser.parse_args()

    sources: dict[str, list[Record]] = {}
    for family in FAMILIES:
        sources[family] = tomllib.loads((HERE / "source" / f"{family}.toml").read_text("utf-8"))["record"]
    wrong = list(faults(sources))
    if not options.tokenizer:
        if not options.check:
            parser.error("making the corpora takes --tokenizer FILE")
        print("sources checked; no --tokenizer FILE given: comparison of the streams skipped")
    else:
        tokenizer = load_tokenizer(options.tokenizer)
        for family in FAMILIES:
            records = [make_record(family, source, tokenizer, options.seed) for source in sources[family]]
            lines = (json.dumps(record, ensure_ascii=False, separators=(",", ":")) for record in records)
            text = "".join(line.replace("\u2028", "\\u2028") + "\n" for line in lines)
            path = HERE / f"{family}.jsonl"
            if not options.check:
                path.write_text(text, "utf-8", newline="\n")
            elif not path.exists() or path.read_text("utf-8") != text:
                wrong.append(f"{path.name}: differs from what its source makes")
            print(f"{path.name}: {len(records)} records")
    for fault in wrong:
        print(fault, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

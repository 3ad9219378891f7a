"""What a grammar lets through, our parser takes: random walks over the masks of two grammar engines.

In: schemas, a seed, how many walks for each tool choice. Out: a table of walks and disagreements, each sorted by
whose fault it is; the exit code says whether one is ours. Held: one walk at a time.

    python walks.py [--seed N] [--walks N] [--engine xgrammar|llguidance] [--only NAME] [--show N]
"""

from __future__ import annotations

import argparse
import codecs
import json
import random
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

import jsonschema
from schemas import schemas, tool
from vocabulary import CLOSE, END_OF_MSG, EOS, OPEN, SEP, TOKENS, is_control, parser_id

import kimi_xtml
from engines import ENGINES, Walker

#: The token that stands for none in `spell`.
NUL = 0
#: Tokens after which a walk that has not ended is given up, and after which it hurries to the end.
LONGEST, HURRY = 3_000, 250
CHOICES: dict[str, Any] = {"auto": "auto", "required": "required", "named": "named", "one call": "required"}


@dataclass
class Said:
    """What was generated, as it is meant: the parser shall find the same."""

    reasoning: str
    content: str
    calls: list[tuple[str, list[tuple[str, str, str]]]]


def walk(walker: Walker, rng: random.Random) -> list[int] | None:
    """Tokens that the grammar lets through, up to its end; none if it does not come."""
    tokens: list[int] = []
    # Most walks write no `<` that could begin a marker, and no `<|sep|>` where text may stand.
    tidy = rng.random() < 0.8
    while len(tokens) < LONGEST:
        allowed = walker.allowed()
        if not [token for token in allowed if token not in (EOS, END_OF_MSG)]:
            # A schema that nothing satisfies has no end.
            return tokens if walker.is_done() else None
        going_on = [token for token in allowed if token not in (EOS, END_OF_MSG, NUL)]
        if tidy:
            plain = [token for token in going_on if b"<" not in TOKENS[token] or token in (OPEN, CLOSE)]
            going_on = plain or [token for token in going_on if is_control(token)] or going_on
        token = choose(going_on or allowed, len(tokens), rng)
        walker.take(token)
        tokens.append(token)
    return None


def choose(allowed: list[int], length: int, rng: random.Random) -> int:
    """The next token: what leads to an end more often than not, and ordinary text else."""
    control = [token for token in allowed if is_control(token)]
    if control and rng.random() < (0.9 if length > HURRY else 0.3):
        closes = [token for token in control if token == CLOSE]
        return rng.choice(closes if closes and length > HURRY else control)
    text = [token for token in allowed if not is_control(token)] or control
    if length > HURRY or rng.random() < 0.3:
        ends = [token for token in text if TOKENS[token] in (b'"', b"}", b"]", b"0", b"1")]
        text = ends or text
    plain = [token for token in text if TOKENS[token].isascii()]
    return rng.choice(plain if plain and rng.random() < 0.9 else text)


MEANT = re.compile(r"\0(?P<open>[OC])(?P<head>[^\0]*)\0S", re.DOTALL)


def spell(tokens: Iterable[int]) -> str:
    """Text in which a control token is a zero byte and a letter, so that nothing that is quoted looks like one."""
    letters = {OPEN: b"\0O", CLOSE: b"\0C", SEP: b"\0S", END_OF_MSG: b"\0E", EOS: b"\0F"}
    parts = (letters.get(token) or TOKENS[token] for token in tokens)
    return b"".join(parts).decode("utf-8", "replace")


CHANNELS: list[Literal["think", "response"]] = ["think", "response"]


def meant(tokens: list[int], opened: str) -> Said | None:
    """Reads the tokens by the grammar, which is easy where control tokens are known; none if they are no message."""
    text, at = f"\0O{opened}\0S" + spell(tokens), 0
    said = Said("", "", [])
    key = kind = ""
    for tag in MEANT.finditer(text):
        body, at = text[at : tag.start()], tag.end()
        name, _, head = tag["head"].partition(" ")
        attributes = {
            k: v.replace("&quot;", '"').replace("&amp;", "&") for k, v in re.findall(r'(\w+)="([^"]*)"', head)
        }
        match tag["open"], name:
            case "C", "think":
                said.reasoning += body
            case "C", "response":
                said.content += body
            case "O", "call":
                said.calls.append((attributes["tool"], []))
            case "O", "argument":
                key, kind = attributes["key"], attributes["type"]
            case "C", "argument" if said.calls and kind:
                said.calls[-1][1].append((key, kind, body))
                kind = ""
            case "C", "argument":
                return None
    return said


def heard(events: list[Any]) -> tuple[Said, list[tuple[str, str, bool]], list[str]]:
    """What the parser says: texts, calls with their arguments, and deviations."""
    said = Said("", "", [])
    calls: list[tuple[str, str, bool]] = []
    codes: list[str] = []
    for event in events:
        match event:
            case kimi_xtml.Reasoning(text):
                said.reasoning += text
            case kimi_xtml.Content(text):
                said.content += text
            case kimi_xtml.CallStart(_, name):
                calls.append((name, "", False))
            case kimi_xtml.CallEnd(_, json_, complete):
                calls[-1] = (calls[-1][0], calls[-1][1] + json_, complete)
            case kimi_xtml.ArgumentStart() | kimi_xtml.Arguments() | kimi_xtml.ArgumentEnd():
                calls[-1] = (calls[-1][0], calls[-1][1] + event.json, False)
            case kimi_xtml.Diagnostic(code):
                codes.append(code)
    return said, calls, codes


def by_ids(parser: kimi_xtml.Parser, tokens: list[int]) -> list[Any]:
    """Pushes tokens, each as it is decoded: bytes of a character come with its last."""
    events: list[Any] = []
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    for token in tokens:
        # A control token ends a character that is cut, which is text before it.
        if is_control(token) and (cut := decoder.decode(b"", final=True)):
            events += parser.push_text(cut)
        text = "" if is_control(token) else decoder.decode(TOKENS[token])
        events += parser.push_token(text, parser_id(token))
    return events + parser.finish("stop")


def as_text(parser: kimi_xtml.Parser, tokens: list[int]) -> list[Any]:
    """Pushes the bytes of the tokens, each by itself."""
    events = [event for token in tokens for event in parser.push(TOKENS[token])]
    return events + parser.finish("stop")


def exact(raw: str) -> Any:
    """A JSON value, its numbers as they are written and its members in their order."""
    return json.loads(raw, object_pairs_hook=list, parse_float=str, parse_int=str)


def disagreements(expected: Said | None, events: list[Any], parameters: dict[str, Any]) -> list[str]:
    """What the parser did with a walk that it should not."""
    said, calls, codes = heard(events)
    faults = [f"diagnostic {code}" for code in codes]
    if expected is None:
        return [*faults, "no message"]
    if (said.reasoning, said.content) != (expected.reasoning, expected.content):
        faults.append("text differs")
    if [call[0] for call in calls] != [name for name, _ in expected.calls]:
        return [*faults, "calls differ"]
    for (_, arguments, complete), (_, values) in zip(calls, expected.calls, strict=True):
        if not complete:
            faults.append("incomplete call")
            continue
        try:
            pairs = [(key, text if kind == "string" else exact(text)) for key, kind, text in values]
        except ValueError:
            faults.append("not JSON")
            continue
        if exact(arguments) != pairs:
            faults.append("arguments differ")
        if not jsonschema.Draft202012Validator(parameters).is_valid(json.loads(arguments)):
            faults.append("invalid by the schema")
    return faults


def stray_separator(tokens: list[int]) -> bool:
    """Whether a real `<|sep|>` ends no tag."""
    in_tag = False
    for token in tokens:
        if token == SEP and not in_tag:
            return True
        in_tag = token in (OPEN, CLOSE) or (in_tag and token != SEP)
    return False


def fault_of(tokens: list[int], faults: list[str], way: str) -> str:
    """Whose fault a disagreement is."""
    quoted = bytes(b"".join(b"\0" if is_control(token) else TOKENS[token] for token in tokens))
    if any(marker in quoted for marker in (b"<|open|>", b"<|close|>", b"<|sep|>")):
        return "grammar: it takes a marker that ordinary tokens spell for a real one"
    if stray_separator(tokens):
        return "grammar: it takes a real <|sep|> for text"
    if (
        set(faults) <= {"diagnostic not-json", "not JSON", "arguments differ", "invalid by the schema"}
        and len(set(faults)) > 1
    ):
        return "grammar: the type that it lets through is not that of the value"
    if set(faults) == {"invalid by the schema"}:
        return "grammar: what it lets through is not valid by the schema"
    return f"ours, {way}"


def main() -> int:
    """Runs the walks and prints the table."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--walks", type=int, default=1)
    options.add_argument("--engine", action="append", choices=list(ENGINES))
    options.add_argument("--only")
    options.add_argument("--show", type=int, default=3)
    arguments = options.parse_args()
    ours = 0
    for engine in arguments.engine or list(ENGINES):
        count: Counter[str] = Counter()
        shown: Counter[str] = Counter()
        for name, parameters in schemas().items():
            if arguments.only and arguments.only not in name:
                continue
            for choice, word in CHOICES.items():
                for number in range(arguments.walks):
                    rng = random.Random(f"{arguments.seed} {engine} {name} {choice} {number}")
                    opened = rng.choice(CHANNELS)
                    choice_ = {"type": "function", "function": {"name": "f"}} if word == "named" else word
                    tools = [tool("f", parameters)]
                    try:
                        walker = ENGINES[engine](tools, choice_, opened, choice != "one call")
                    except (RuntimeError, ValueError) as error:
                        count["schemas that the engine refuses"] += 1
                        shown["refused"] += 1
                        if shown["refused"] <= arguments.show:
                            print(f"  refused: {name}: {str(error)[:150]}")
                        break
                    tokens = walk(walker, rng)
                    if tokens is None:
                        count["given up"] += 1
                        continue
                    count["walks"] += 1
                    expected = meant(tokens, opened)
                    count["calls"] += len(expected.calls) if expected else 0
                    ways: dict[str, Callable[[kimi_xtml.Parser, list[int]], list[Any]]]
                    ways = {"by ids": by_ids, "as text": as_text}
                    for way, push in ways.items():
                        events = push(kimi_xtml.Parser(tools=["f"], opened=opened), tokens)
                        if faults := disagreements(expected, events, parameters):
                            fault = fault_of(tokens, faults, way)
                            count[fault] += 1
                            shown[fault] += 1
                            ours += fault.startswith("ours")
                            if shown[fault] <= arguments.show:
                                text = b"".join(TOKENS[token] for token in tokens)
                                print(
                                    f"  {fault}\n    {engine}, {name}, {choice}, {way}: {faults}\n    {text[:1500]!r}"
                                )
        print(engine)
        for what, number in sorted(count.items()):
            print(f"  {number:6} {what}")
    return 1 if ours else 0


if __name__ == "__main__":
    sys.exit(main())

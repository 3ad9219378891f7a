"""Attacks the bindings with Atheris; not part of the package, and not run by python/ci.

In: a target (`parse` or `chat`) and libFuzzer's options. Out: libFuzzer's verdict; a crash is an exception, or a result
that depends on how the stream came in. Held: nothing from one input to the next.

An input is three bytes of context as those of ../fuzz, and a stream that 0xff cuts; where tokens are pushed, 0xf8 to
0xfb are control tokens. So the seeds and the dictionary of ../fuzz fit. The README says how to build and run it.
"""

import ctypes
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import atheris

if TYPE_CHECKING:
    from kimi_xtml import ChatStream, Parser
    from kimi_xtml.types import Delta

OPENED = (None, "think", "response", "tools")
TOLD = {b"\xf8": "<|open|>", b"\xf9": "<|close|>", b"\xfa": "<|sep|>", b"\xfb": "<|end_of_msg|>"}
IDS = {"<|end_of_msg|>": 163586, "<|open|>": 163587, "<|close|>": 163588, "<|sep|>": 163589}


def context(data: bytes) -> tuple[dict[str, Any], int, bytes]:
    """What is asked for, which way the stream comes in, and the stream."""
    given = atheris.FuzzedDataProvider(data)
    flags, limit, seed = given.ConsumeBytes(3).ljust(3, b"\0")
    request = {
        "opened": OPENED[flags % 4],
        "tools": ["f"] if flags & 4 else None,
        "tool_choice": "none" if flags & 8 else "auto",
        "separate_reasoning": not flags & 16,
        "undeclared": "content" if flags & 32 else "withhold",
        "stream_json": bool(flags & 64),
        "value_limit": (8 << 20, 8 << 20, 0, 3)[limit % 4],
    }
    return request, seed, given.ConsumeBytes(given.remaining_bytes())


def conserves(stream: "Parser | ChatStream", received: int) -> None:
    """Each byte is accounted for once."""
    from results import conserved

    conserved(stream.report)
    assert stream.report["bytes"]["input"] <= received


def fuzz_parse(data: bytes) -> None:
    """`parse` raises nothing; a parser gives its events for any cuts, and holds what it has not given."""
    from kimi_xtml import Parser, parse
    from results import joined

    request, _, raw = context(data)
    parts = [part.decode("utf-8", "replace") for part in raw.split(b"\xff")]
    whole = parse("".join(parts), **request)
    parser, events, received = Parser(**request), [], 0
    for part in parts:
        events += parser.push(part)
        received += len(part.encode())
        conserves(parser, received)
        assert (events[-1].span[1] if events else 0) + len(parser.held.encode()) == received
    events += parser.finish("stop")
    conserves(parser, received)
    assert joined(events) == joined(whole)
    assert [event.span[0] for event in whole] + [received] == [0] + [event.span[1] for event in whole]


def fuzz_chat(data: bytes) -> None:
    """A `ChatStream` raises for misuse alone; its deltas add up to its message, that of the whole stream."""
    from kimi_xtml import ChatStream, Parser, StateError, parse
    from results import by_events, of_chat

    request, way, raw = context(data)
    chat, received = ChatStream(**request, call_ids=0), 0
    deltas: list[Delta] = []
    pushes: list[tuple[Callable[..., Any], tuple[Any, ...], int]] = []
    if way % 4 < 2:
        parts = raw.split(b"\xff")
        texts = [part.decode("utf-8", "replace") for part in parts]
        if way % 4 == 1:
            whole = parse(b"".join(parts).decode("utf-8", "replace"), **request)
            pushes = [(chat.push, (part,), len(part)) for part in parts]
        else:
            whole = parse("".join(texts), **request)
            pushes = [(chat.push, (text,), len(text.encode())) for text in texts]
    else:
        reference, whole = Parser(**request), []
        for part in re.split(rb"([\xf8-\xfb])", raw):
            marker, text = TOLD.get(part), part.decode("utf-8", "replace")
            whole += reference.push_marker(marker) if marker else reference.push_text(text)
            size = len((marker or text).encode())
            if way % 4 == 2:
                pushes.append((chat.push_token, ("" if marker else text, IDS[marker] if marker else 7), size))
            else:
                pushes.append((chat.push_with_ids, (marker or text, [IDS[marker] if marker else 7]), size))
        whole += reference.finish()
    for push, arguments, size in pushes:
        deltas += push(*arguments) or []
        received += size
        conserves(chat, received)
        raises(TypeError, chat.push, None)
        raises(OverflowError, chat.push_token, "a", -1)
    deltas += chat.finish("stop") or []
    assert chat.report["bytes"]["input"] == received
    told = by_events(whole)
    assert of_chat(chat, deltas)["by_events"] == told
    done = any(complete for *_, complete in told["tool_calls"])
    assert chat.finish_reason == ("tool_calls" if done else "stop")
    raises(StateError, chat.push, "")


def raises(error: type[Exception], call: Callable[..., object], *arguments: object) -> None:
    """Misuse raises what it shall."""
    try:
        call(*arguments)
    except error:
        return
    raise AssertionError(f"{call} took {arguments}")


def with_counters(target: Callable[[bytes], None]) -> Callable[[bytes], None]:
    """A target that loads the bindings in its first run.

    If they count what runs, they look among the global symbols for libFuzzer, which is loaded by then.
    """

    def run(data: bytes) -> None:
        if "kimi_xtml" not in sys.modules:
            from atheris import core_with_libfuzzer

            ctypes.CDLL(core_with_libfuzzer.__file__, mode=os.RTLD_GLOBAL | os.RTLD_NOLOAD)
        target(data)

    return run


def main() -> None:
    """Runs a target until libFuzzer ends it."""
    here = Path(__file__).resolve().parent
    targets = {"parse": fuzz_parse, "chat": fuzz_chat}
    if len(sys.argv) < 2 or sys.argv[1] not in targets:
        sys.exit(f"usage: fuzz.py {{{','.join(targets)}}} [libFuzzer's options and folders]")
    target = with_counters(targets[sys.argv.pop(1)])
    sys.path.insert(0, str(here / "tests"))
    atheris.Setup([*sys.argv, f"-dict={here.parent / 'fuzz' / 'xtml.dict'}"], target)
    atheris.Fuzz()


if __name__ == "__main__":
    main()

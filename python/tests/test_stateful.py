"""A parser and a chat stream, used in every order that a caller can think of.

In: what Hypothesis makes up: text, bytes, markers, tokens, text behind its ids, misuse, resets, another thread. Out:
both give, piece by piece, what the stream gives as a whole. Held, as the model: the stream so far, in runs of one kind
of input. KIMI_XTML_EXAMPLES says how many streams are tried.
"""

import codecs
import copy
import os
import pickle
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kimi_xtml import ChatStream, Event, Parser, StateError, parse
from kimi_xtml.types import Delta
from results import by_events, conserved, joined, of_chat

MARKERS = {"[EOS]": 163585, "<|end_of_msg|>": 163586, "<|open|>": 163587, "<|close|>": 163588, "<|sep|>": 163589}
# The tokens of markers that are quoted.
QUOTED = [
    [(27, "<"), (91, "|"), (number, name), (91, "|"), (29, ">")]
    for number, name in ((4454, "open"), (10794, "close"), (40433, "sep"))
]


def tokens(text: str) -> list[tuple[int, str]]:
    """The tokens of a text whose markers are real."""
    parts = re.split(r"(<\|(?:open|close|sep|end_of_msg)\|>)", text)
    return [(MARKERS.get(part, 1000), part) for part in parts if part]


def within(*opened: str, text: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """A text with its tags around it."""
    openers = [f"<|open|>{head}<|sep|>" for head in opened]
    closers = [f"<|close|>{head.split()[0]}<|sep|>" for head in opened]
    return st.builds("{}{}{}".format, st.sampled_from(openers), text, st.sampled_from(closers))


PROSE = st.text(st.sampled_from('abc é😀"&\\{}[]:,0\n'), max_size=12)
JSON = st.sampled_from(["-0.5e3", "null", "true", '"a"', '{"a": [1, 2], "b": {}}', "[]", '{"a": [1, ', "]}"])
ARGUMENT = within(
    *('argument key="a" type="string"', 'argument key="b"', 'argument key="b &quot;" type="number"'),
    *('argument key="c" type="object"', 'argument key="" type="array"', 'argument type="odd" key="d"', "argument"),
    text=PROSE | JSON,
)
ARGUMENTS = st.lists(ARGUMENT, max_size=3).map("".join) | within('json type="object"', text=PROSE | JSON)
CALL = within('call tool="ls" index="1"', 'call index="2" tool="a &amp;&quot;"', "call", text=ARGUMENTS)
SECTION = st.one_of(
    within("tools", text=st.lists(CALL, min_size=1, max_size=3).map("".join)),
    within("think", "response", text=PROSE),
    PROSE.map("{}<|close|>think<|sep|>".format),
    PROSE.map("{}<|close|>response<|sep|>".format),
    ARGUMENT,
    CALL,
    PROSE,
    st.sampled_from(
        ["<|open|>", "<|close|>", "<|sep|>", "<|open|>tools<|sep|>", "<|close|>message<|sep|><|end_of_msg|>"]
    ),
)
PART = st.sampled_from(
    [
        *(
            "<|",
            "|>",
            "<",
            "think",
            "response<|sep|>",
            "call tool=",
            ' key="',
            "&quot;",
            "&amp;",
            '"',
            "\\",
            " ",
            "[EOS]",
        ),
        *("def f(x):\n    return x < 3 | 4\n", "é, 東京, 😀\0", "\ufffd", "\n" * 9, " " * 300),
    ]
)
TEXT = st.lists(SECTION | SECTION | PART, max_size=6).map("".join)
TOKENS = st.lists(SECTION.map(tokens) | SECTION.map(tokens) | st.sampled_from(QUOTED), max_size=6).map(
    lambda several: [token for tokens in several for token in tokens]
)

# What raises: a method, its arguments, the error.
MISUSE: list[tuple[str, tuple[Any, ...], type[Exception]]] = [
    *(("push", (wrong,), TypeError) for wrong in (None, 3, 0.5, ["a"])),
    *(("push", wrong, TypeError) for wrong in ((), ("a", "b"))),
    *(("push_text", (wrong,), TypeError) for wrong in (None, b"a", 3)),
    *(("push_with_ids", ("a", wrong), TypeError) for wrong in (None, 3, "ab", b"ab", [0.5], [1, None], {1})),
    *(("push_with_ids", ("a", [163587, wrong]), OverflowError) for wrong in (-1, 1 << 32, 1 << 99)),
    *(("push_with_ids", (wrong, [163587]), TypeError) for wrong in (None, b"a")),
    *(("push_token", ("a", wrong), TypeError) for wrong in (None, "1", 1.0)),
    *(("push_token", ("a", wrong), OverflowError) for wrong in (-1, 1 << 32)),
    *(("push_token", (wrong, 163587), TypeError) for wrong in (None, b"a")),
    *(("push_marker", (wrong,), TypeError) for wrong in (None, b"<|open|>", 0.5)),
    *(("push_marker", (wrong,), ValueError) for wrong in ("", "<|open", "open", 5, "\ud800")),
    *(("push_marker", (wrong,), OverflowError) for wrong in (-1, 1 << 32)),
    *(("finish", (wrong,), TypeError) for wrong in (None, 3, b"stop")),
]
LATE: list[tuple[str, tuple[Any, ...]]] = [
    *(("push", ("",)), ("push", (b"a",)), ("push_text", ("a",)), ("push_with_ids", ("", [1]))),
    *(("push_token", ("a", 1)), ("push_marker", ("<|open|>",)), ("finish", ()), ("finish", ("length",))),
]


def replaced(text: str) -> str:
    """A text whose lone surrogates are U+FFFD."""
    paired = re.sub(
        "[\ud800-\udbff][\udc00-\udfff]", lambda pair: pair[0].encode("utf-16", "surrogatepass").decode("utf-16"), text
    )
    return re.sub("[\ud800-\udfff]", "\ufffd", paired)


def state(parser: Parser, chat: ChatStream) -> list[Any]:
    """All that can be seen of the two."""
    looks = [(each.report, each.channel, each.finish_reason, each.held, repr(each)) for each in (parser, chat)]
    return [chat.message, *looks]


class Run:
    """A part of a stream that was pushed in one way: text that may be structure, or pieces that are known."""

    def __init__(self, way: str) -> None:
        self.way = way
        self.pieces: list[tuple[str, bool]] = []
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, parser: Parser) -> list[Event]:
        """The whole run, pushed in as few pushes as can be. The empty one ends the run before it."""
        if self.way == "text":
            return parser.push("".join(text for text, _ in self.pieces))
        events, text = parser.push(""), ""
        for piece, is_marker in self.pieces:
            if is_marker:
                events += parser.push_text(text) + parser.push_marker(piece)
                text = ""
            else:
                text += piece
        return events + parser.push_text(text)


class Streams(RuleBasedStateMachine):
    """One stream, through a parser and a chat stream."""

    @initialize(
        tools=st.sampled_from([["ls"], ["ls", 'a &"'], None]),
        tool_choice=st.sampled_from([None, "auto", "required", "none"]),
        opened=st.sampled_from(["think", "think", "response", "response", "tools", None]),
        separate_reasoning=st.booleans(),
        undeclared=st.sampled_from(["withhold", "content"]),
        stream_json=st.booleans(),
        value_limit=st.sampled_from([8 << 20, 8 << 20, 3, 0]),
        call_ids=st.none() | st.integers(0, 9),
    )
    def new(self, call_ids: int | None, **request: Any) -> None:
        self.request, self.call_ids = request, call_ids
        self.parser, self.chat = Parser(**request), ChatStream(**request, call_ids=call_ids)
        self.elsewhere: ThreadPoolExecutor | None = None
        self.begin()

    def begin(self) -> None:
        """The model of a stream of which nothing came."""
        self.events: list[Event] = []
        self.deltas: list[Delta] = []
        self.runs: list[Run] = []
        self.size, self.tokens, self.owed = 0, 0, ""
        self.exact = True
        self.reason: str | None = None

    # ---- input ---------------------------------------------------------------------------------------------------

    def both(self, method: str, *arguments: Any) -> None:
        """Does the same to both."""
        given: list[Any] = []
        for stream in (self.parser, self.chat):
            call = getattr(stream, method)
            given.append(self.elsewhere.submit(call, *arguments).result() if self.elsewhere else call(*arguments))
        events, deltas = given
        self.events += events
        self.deltas += deltas or []

    def run(self, way: str) -> Run:
        """The run that goes on, or a new one."""
        if not self.runs or self.runs[-1].way != way:
            self.end_of_characters()
            self.runs.append(Run(way))
        return self.runs[-1]

    def end_of_characters(self) -> None:
        """A character that was cut before other input never becomes whole."""
        if self.runs:
            run = self.runs[-1]
            self.exact &= run.decoder.getstate()[0] == b""
            run.pieces.append((run.decoder.decode(b"", True), False))
            run.decoder.reset()

    def pay(self) -> None:
        """Text whose ids came goes before anything else."""
        if self.owed:
            self.both("push_with_ids", self.owed, [])
            self.size += len(self.owed.encode())
            self.owed = ""

    @precondition(lambda self: self.reason is None)
    @rule(text=TEXT, cut=st.integers(0, 99))
    def text(self, text: str, cut: int) -> None:
        self.pay()
        run = self.run("text")
        self.end_of_characters()
        for part in (text[:cut], text[cut:]):
            self.both("push", part)
        run.pieces.append((text, False))
        self.size += len(text.encode())

    @precondition(lambda self: self.reason is None)
    @rule(text=st.text(st.sampled_from("a\ud800\udbff\udc00\udfff<"), max_size=6))
    def surrogates(self, text: str) -> None:
        self.pay()
        run = self.run("text")
        self.end_of_characters()
        self.both("push", text)
        run.pieces.append((replaced(text), False))
        self.size += len(replaced(text).encode())

    @precondition(lambda self: self.reason is None)
    @rule(raw=TEXT.map(str.encode) | st.binary(max_size=9), cut=st.integers(0, 99))
    def raw(self, raw: bytes, cut: int) -> None:
        self.pay()
        run = self.run("text")
        for part in (raw[:cut], raw[cut:]):
            self.both("push", part)
            pending = run.decoder.getstate()[0]
            text = run.decoder.decode(part)
            self.exact &= text.encode() + run.decoder.getstate()[0] == pending + part
            run.pieces.append((text, False))
        self.size += len(raw)

    @precondition(lambda self: self.reason is None)
    @rule(text=TEXT)
    def large(self, text: str) -> None:
        """So large that it is parsed without the GIL."""
        self.text(text + "lorem < ipsum " * 3000 + text, 20)

    @precondition(lambda self: self.reason is None)
    @rule(text=TEXT)
    def quoted(self, text: str) -> None:
        self.pay()
        self.both("push_text", text)
        self.run("pieces").pieces.append((text, False))
        self.size += len(text.encode())

    @precondition(lambda self: self.reason is None)
    @rule(text=st.sampled_from(list(MARKERS)), by_id=st.booleans())
    def marker(self, text: str, by_id: bool) -> None:
        self.pay()
        self.both("push_marker", MARKERS[text] if by_id else text)
        self.run("pieces").pieces.append((text, True))
        self.size += len(text)

    @precondition(lambda self: self.reason is None)
    @rule(tokens=TOKENS)
    def token(self, tokens: list[tuple[int, str]]) -> None:
        self.pay()
        for number, text in tokens:
            self.both("push_token", text, number)
            self.run("pieces").pieces.append((text, text in MARKERS))
            self.size += len(text.encode())
        self.tokens += len(tokens)

    @precondition(lambda self: self.reason is None)
    @rule(tokens=TOKENS, cut=st.integers(0, 199))
    def ids(self, tokens: list[tuple[int, str]], cut: int) -> None:
        """Text that comes behind its ids."""
        text = self.owed + "".join(text for _, text in tokens)
        self.both("push_with_ids", text[:cut], [number for number, _ in tokens])
        self.run("ids").pieces += [(text, text in MARKERS) for _, text in tokens]
        self.size += len(text[:cut].encode())
        self.tokens += len(tokens)
        self.owed = text[cut:]

    # ---- what is no input ----------------------------------------------------------------------------------------

    def state(self) -> list[Any]:
        return state(self.parser, self.chat)

    @rule(misuse=st.sampled_from(MISUSE))
    def misuse(self, misuse: tuple[str, tuple[Any, ...], type[Exception]]) -> None:
        method, arguments, error = misuse
        before = self.state()
        for stream in (self.parser, self.chat):
            with pytest.raises(error) as raised:
                getattr(stream, method)(*arguments)
            assert raised.type is error
        assert self.state() == before

    @rule(how=st.sampled_from([copy.copy, copy.deepcopy, pickle.dumps]))
    def copies(self, how: Callable[[object], object]) -> None:
        """Events can be copied, streams cannot."""
        before = self.state()
        copied = how(self.events)
        assert (pickle.loads(copied) if isinstance(copied, bytes) else copied) == self.events
        for stream in (self.parser, self.chat):
            with pytest.raises(TypeError):
                how(stream)
        assert self.state() == before

    @precondition(lambda self: self.reason is not None)
    @rule(late=st.sampled_from(LATE))
    def late(self, late: tuple[str, tuple[Any, ...]]) -> None:
        method, arguments = late
        before = self.state()
        for stream in (self.parser, self.chat):
            with pytest.raises(StateError, match="finished"):
                getattr(stream, method)(*arguments)
        assert self.state() == before

    @rule()
    def other_thread(self) -> None:
        self.leave_thread()
        self.elsewhere = ThreadPoolExecutor(1)

    @rule()
    def leave_thread(self) -> None:
        if self.elsewhere:
            self.elsewhere.shutdown()
        self.elsewhere = None

    @rule()
    def reset(self) -> None:
        """Both are as new."""
        self.parser.reset()
        self.chat.reset()
        self.begin()
        assert self.state() == state(Parser(**self.request), ChatStream(**self.request, call_ids=self.call_ids))

    @precondition(lambda self: self.reason is None)
    @rule(reason=st.sampled_from(["stop", "length", "tool_calls", "", "é", "\ud800"]))
    def finish(self, reason: str) -> None:
        self.pay()
        cut = b""
        if self.runs:
            cut = self.runs[-1].decoder.getstate()[0]
            self.runs[-1].decoder.reset()
        self.both("finish", reason)
        self.reason = reason
        reference = Parser(**self.request)
        if not cut and [run.way for run in self.runs] == ["text"]:
            whole = parse("".join(text for text, _ in self.runs[0].pieces), **self.request)
        else:
            whole = [event for run in self.runs for event in run.push(reference)]
            whole += (reference.push(cut) if cut else []) + reference.finish()
        assert joined(self.events, spans=self.exact) == joined(whole, spans=self.exact)
        told = by_events(self.events)
        assert of_chat(self.chat, self.deltas)["by_events"] == told
        if reason == "stop" and any(complete for *_, complete in told["tool_calls"]):
            reason = "tool_calls"
        assert self.parser.finish_reason == self.chat.finish_reason == replaced(reason)
        report = self.parser.report
        assert report["bytes"]["input"] == self.size
        assert (report["tokens"]["input"] if report["tokens"] else 0) == self.tokens
        assert self.parser.held == self.chat.held == ""

    def teardown(self) -> None:
        if self.reason is None:
            self.finish("stop")
        self.leave_thread()

    # ---- what always holds ---------------------------------------------------------------------------------------

    @invariant()
    def conserves(self) -> None:
        """Each byte and token is somewhere, once: where the report says, in an event or held."""
        report = self.parser.report
        assert report == self.chat.report
        conserved(report)
        if report["tokens"]:
            assert report["tokens"]["input"] <= self.tokens
        ends = [0] + [event.span[1] for event in self.events]
        assert [event.span[0] for event in self.events] == ends[:-1]
        if self.exact:
            pending = self.runs[-1].decoder.getstate()[0] if self.runs else b""
            assert ends[-1] + len(self.parser.held.encode()) + len(pending) == self.size

    @invariant()
    def agrees(self) -> None:
        assert (self.parser.channel, self.parser.held) == (self.chat.channel, self.chat.held)
        if self.reason is None:
            assert self.parser.finish_reason is self.chat.finish_reason is None


Streams.TestCase.settings = settings(
    max_examples=int(os.environ.get("KIMI_XTML_EXAMPLES", "150")), deadline=None, stateful_step_count=30
)
test_streams = Streams.TestCase

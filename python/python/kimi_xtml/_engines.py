"""What the engine adapters have in common: finding an engine's names, and one stream of one choice.

In: where names have been seen; an engine's request, texts and token ids. Out: the objects, or one error that says
what is missing; deltas, or reasoning and the raw rest. An engine that moves its modules between releases breaks
nothing but its own adapter.
"""

from __future__ import annotations

import importlib
import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import TYPE_CHECKING, Any

from kimi_xtml._kimi_xtml import ChatStream, End, Parser, Reasoning, Start

if TYPE_CHECKING:
    from kimi_xtml.types import Channel, Delta, Event, Report

NAME = "kimi_xtml"
"""The name under which every engine finds the parsers."""

logger = logging.getLogger("kimi_xtml")


def _log_to_stderr() -> None:
    """KIMI_XTML_LOG=info or debug shows what the adapters log, whatever the engine does with its own logging."""
    level = os.environ.get("KIMI_XTML_LOG")
    if level and not logger.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(name)s %(levelname)s %(message)s"))
        logger.addHandler(handler)
        logger.setLevel(level.upper())


_log_to_stderr()


# What the report notes where a stream ends early, as a limit or a stop string ends it: no deviation of the model's.
_OF_A_CUT = frozenset(
    (
        "cut-character",
        "cut-tag",
        "unclosed-call",
        "unclosed-response",
        "unclosed-think",
        "unclosed-tools",
        "unclosed-value",
    )
)


def told_about(engine: str, report: Report, request: str | None, *, ended: bool) -> None:
    """A line for a stream that deviated from the format, and one for each stream where that much is asked for.

    `ended` says that the message did: what is open then was not closed by the model. Where it did not, the end came
    early.
    """
    name = f"{engine}: {request}" if request else engine
    deviations = [noted for noted in report["diagnostics"] if ended or noted["code"] not in _OF_A_CUT]
    if deviations:
        noted = ", ".join(f"{noted['code']} x{noted['count']}" for noted in deviations)
        logger.info("%s: the stream deviated: %s", name, noted)
    logger.debug("%s: %s", name, report)


def started(engine: str, distribution: str, tested: str) -> None:
    """A line at the start: which version it is, and whether that was tested."""
    version = installed(distribution)
    if version.partition("+")[0] in tested.split(", "):
        logger.info("%s %s: registered as %s; this version was tested", engine, version, NAME)
    else:
        logger.warning(
            "%s %s: registered as %s; not tested with this version, but with %s", engine, version, NAME, tested
        )


class EngineError(ImportError):
    """An engine has a name that an adapter needs in none of the places where it has been seen."""


@dataclass(frozen=True)
class Place:
    """A module that has had a name, and the engine versions it was seen in."""

    module: str
    seen: str


def installed(distribution: str) -> str:
    """The version of a distribution, for messages."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "not installed"


def find(distribution: str, tested: str, wanted: Mapping[str, Sequence[Place]]) -> dict[str, Any]:
    """Looks each name up in its places, in order.

    Raises one `EngineError` that tells of every name that was not found.
    """
    found: dict[str, Any] = {}
    missing: dict[str, list[str]] = {}
    for name, places in wanted.items():
        tried = []
        for place in places:
            try:
                found[name] = getattr(importlib.import_module(place.module), name)
                break
            except (ImportError, AttributeError) as error:
                why = "has no such name" if isinstance(error, AttributeError) else str(error)
                tried.append(f"{place.module} (last seen there in {distribution} {place.seen}): {why}")
        else:
            missing.setdefault("\n    ".join(tried), []).append(name)
    if missing:
        version = installed(distribution)
        told = [f"kimi_xtml.{distribution} does not fit: {distribution} {version}; tested with {tested}. Missing:"]
        told += [f"  {', '.join(names)}, tried in\n    {tried}" for tried, names in missing.items()]
        raise EngineError("\n".join(told))
    return found


def tool_names(tools: Iterable[Any] | None) -> list[str]:
    """The names of a request's function tools; a tool of another kind has none."""
    names = []
    for tool in tools or ():
        function = _member(tool, "function") or tool
        name = _member(function, "name")
        if isinstance(name, str):
            names.append(name)
    return names


def tool_choice(choice: Any) -> str:
    """A request's tool choice, as far as it matters here: whether there is one."""
    return choice if choice in ("auto", "none", "required") else "auto" if choice is None else "required"


def thinks(template: Any) -> bool:
    """Whether the chat template's arguments leave thinking on, as Kimi's template reads them."""
    template = template or {}
    thinking = template.get("thinking")
    return bool(template.get("enable_thinking", True) if thinking is None else thinking)


def _member(thing: Any, name: str) -> Any:
    return thing.get(name) if isinstance(thing, dict) else getattr(thing, name, None)


class Stream:
    """One choice of one request: the one parser behind all that an engine builds for it.

    An engine that gives ids gives them from the first text on: if a text comes before any id, ids are not used.
    """

    def __init__(
        self,
        engine: str,
        *,
        tools: Iterable[str] = (),
        choice: str = "auto",
        opened: Channel | None = None,
        separate_reasoning: bool = True,
        object_arguments: bool = False,
        request: str | None = None,
    ) -> None:
        self._engine = engine
        self._request = request
        self._chat = ChatStream(
            tools=list(tools),
            tool_choice=choice,
            opened=opened,
            separate_reasoning=separate_reasoning,
            keep_message=False,
            object_arguments=object_arguments,
        )
        self._ids: bool | None = None
        self._finished = False

    def push(self, text: str, ids: Sequence[int] = ()) -> list[Delta]:
        """More text, and the ids that the engine has for it."""
        if self._ids is None and (text or ids):
            self._ids = bool(ids)
        if self._ids:
            return self._chat.push_with_ids(text, list(ids)) or []
        return self._chat.push(text) or [] if text else []

    def settle(self) -> list[Delta]:
        """No control token is cut at the end of what was pushed: what was held because it might be one is text."""
        return self._chat.push_text("") or []

    def finish(self) -> list[Delta]:
        """The end of the stream. Nothing that was held is lost; a second end gives nothing."""
        if self._finished:
            return []
        self._finished = True
        open_before = self._chat.channel
        deltas = self._chat.finish("stop") or []
        told_about(self._engine, self._chat.report, self._request, ended=open_before is None)
        return deltas

    @property
    def report(self) -> Report:
        """What the parser did so far."""
        return self._chat.report


_OPEN_RESPONSE = b"<|open|>response<|sep|>"


def _utf8(text: str) -> bytes:
    """The bytes that the parser makes of a text: surrogates are joined, a lone one becomes U+FFFD."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


class Split:
    """Reasoning, and the raw rest: all of the output that is not in a think channel.

    The parser takes the very bytes that are kept here, which its spans count.
    """

    def __init__(self, opened: Channel) -> None:
        # Which tools there are makes no difference to where reasoning begins and ends.
        self._parser = Parser(opened=opened, tools=("any",))
        self._raw = b""
        self._base = 0
        self._thinking = False
        self._rest = b"" if opened == "think" else _OPEN_RESPONSE

    def push(self, text: str) -> tuple[str, str]:
        """More text."""
        raw = _utf8(text)
        self._raw += raw
        return self._take(self._parser.push(raw))

    def settle(self) -> tuple[str, str]:
        """No control token is cut at the end of what was pushed."""
        return self._take(self._parser.push_text(""))

    def finish(self) -> tuple[str, str]:
        """The end of the stream."""
        return self._take(self._parser.finish())

    def _take(self, events: list[Event]) -> tuple[str, str]:
        reasoning = ""
        for event in events:
            start, end = event.span[0] - self._base, event.span[1] - self._base
            match event:
                case Start("think"):
                    self._thinking = True
                case End("think"):
                    self._thinking = False
                case Reasoning(text):
                    reasoning += text
                case _ if not self._thinking:
                    self._rest += self._raw[start:end]
                case _:
                    pass
        if events:
            decided = events[-1].span[1]
            self._raw, self._base = self._raw[decided - self._base :], decided
        # An opener that was put before the rest goes out with the first of it.
        if self._rest == _OPEN_RESPONSE and not self._base:
            return reasoning, ""
        rest, self._rest = self._rest, b""
        return reasoning, rest.decode()


@dataclass
class Call:
    """What some deltas say of one call. The first of a call has an id and a name."""

    index: int
    id: str | None
    name: str | None
    arguments: str


@dataclass
class Told:
    """What some deltas say, put together."""

    reasoning: str
    content: str
    calls: list[Call]

    def __bool__(self) -> bool:
        return bool(self.reasoning or self.content or self.calls)


def together(deltas: Iterable[Delta]) -> Told:
    """Puts deltas together: one piece of reasoning, one of content, one of each call."""
    told = Told("", "", [])
    for delta in deltas:
        told.reasoning += delta.get("reasoning_content", "")
        told.content += delta.get("content", "")
        for part in delta.get("tool_calls", ()):
            function = part["function"]
            if not told.calls or told.calls[-1].index != part["index"]:
                told.calls.append(Call(part["index"], part.get("id"), function.get("name"), ""))
            told.calls[-1].arguments += function["arguments"]
    return told


def whole(
    engine: str, text: str, ids: Sequence[int] = (), *, request: str | None = None, **options: Any
) -> tuple[Told, Report]:
    """A whole output at once. Calls that are not complete are left out: no engine's answer can mark them."""
    chat = ChatStream(**options)
    if ids:
        chat.push_with_ids(text, list(ids))
    else:
        chat.push(text)
    open_before = chat.channel
    chat.finish("stop")
    message = chat.message
    assert message is not None
    calls = [
        Call(index, call["id"], call["function"]["name"], call["function"]["arguments"])
        for index, call in enumerate(message.get("tool_calls", ()))
        if call.get("complete", True)
    ]
    report = chat.report
    told_about(engine, report, request, ended=open_before is None)
    return Told(message.get("reasoning_content", ""), message["content"], calls), report

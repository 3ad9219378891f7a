"""The parsers of this package in vLLM, and in Dynamo's vLLM processor, which drives the same classes.

What comes in: vLLM's calls for one choice of one request. What goes out: its messages. Held: one `Stream` a choice.

vLLM builds a reasoning parser and a tool parser, back to back, and may drive the two itself or through a unified
`Parser`. Whichever it does, one stream is behind them:

* `KimiXtmlParser`, the unified one, is what vLLM gets for the name `kimi_xtml`: `register` puts it into the place
  where vLLM composes one, since names resolve to pairs only.
* The pair, where something else drives it: the reasoning parser takes the output from the first token to the end of
  the message, and never says that reasoning has ended, so that nothing is cut between the two. Text, ids and the end
  of the stream reach it whole. The tool parser gives what its partner found; by itself (no reasoning parser, or
  thinking off) it takes the output as it comes.

Importing this module fails with one `EngineError` if vLLM has moved what it needs.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, ClassVar, cast

from kimi_xtml._engines import (
    NAME,
    EngineError,
    Place,
    Stream,
    Told,
    find,
    logger,
    started,
    thinks,
    together,
    tool_choice,
    tool_names,
    whole,
)
from kimi_xtml._kimi_xtml import opened_channel

if TYPE_CHECKING:
    from kimi_xtml.types import Channel, Report

__all__ = ["EngineError", "KimiXtmlParser", "KimiXtmlReasoningParser", "KimiXtmlToolParser", "register"]

TESTED = "0.29.0, 0.31.0, 0.32.0, 0.33.0"
_MESSAGES = (Place("vllm.entrypoints.generate.base.protocol", "0.29.0 to 0.33.0"),)
_vllm = find(
    "vllm",
    TESTED,
    {
        "ToolParser": (
            Place("vllm.tool_parsers.abstract_tool_parser", "0.29.0 to 0.33.0"),
            Place("vllm.tool_parsers", "0.29.0 to 0.33.0"),
        ),
        "ToolParserManager": (
            Place("vllm.tool_parsers.abstract_tool_parser", "0.29.0 to 0.33.0"),
            Place("vllm.tool_parsers", "0.29.0 to 0.33.0"),
        ),
        "ReasoningParser": (
            Place("vllm.reasoning.abs_reasoning_parsers", "0.29.0 to 0.33.0"),
            Place("vllm.reasoning", "0.29.0 to 0.33.0"),
        ),
        "ReasoningParserManager": (
            Place("vllm.reasoning.abs_reasoning_parsers", "0.29.0 to 0.33.0"),
            Place("vllm.reasoning", "0.29.0 to 0.33.0"),
        ),
        **dict.fromkeys(
            (
                "DeltaFunctionCall",
                "DeltaMessage",
                "DeltaToolCall",
                "ExtractedToolCallInformation",
                "FunctionCall",
                "ToolCall",
            ),
            _MESSAGES,
        ),
    },
)

try:
    _unified = find(
        "vllm",
        TESTED,
        {
            "DelegatingParser": (
                Place("vllm.parser.abstract_parser", "0.29.0 to 0.33.0"),
                Place("vllm.parser", "0.29.0 to 0.33.0"),
            ),
            "ParserManager": (
                Place("vllm.parser.parser_manager", "0.29.0 to 0.33.0"),
                Place("vllm.parser", "0.29.0 to 0.33.0"),
            ),
        },
    )
except EngineError as error:
    logger.warning("vLLM has no unified parser where it is known to be, and drives the pair itself: %s", error)
    _unified = {}
_DelegatingParser: Any = _unified.get("DelegatingParser", object)
_ReasoningParser: Any = _vllm["ReasoningParser"]
_ToolParser: Any = _vllm["ToolParser"]

# The ids of tags in Kimi's tokenizer.
_OPEN, _CLOSE, _SEP, _THINK, _RESPONSE, _TOOLS = 163587, 163588, 163589, 39964, 12092, 25385
_MARKERS = {_OPEN, _CLOSE}
_CLOSE_THINK = (_CLOSE, _THINK, _SEP)
_ENDS_THINK = {_CLOSE_THINK, (_OPEN, _RESPONSE, _SEP), (_OPEN, _TOOLS, _SEP)}

# A parser that was just built and not used yet: the next one of the other kind is its partner.
_fresh: ContextVar[_Half | None] = ContextVar("kimi_xtml_fresh", default=None)


def _keep_markers(request: Any) -> Any:
    """Asks for the control tokens in the text, without blanks between them."""
    request.skip_special_tokens = False
    if hasattr(request, "spaces_between_special_tokens"):
        request.spaces_between_special_tokens = False
    return request


def _message(told: Told) -> Any | None:
    """What was told as a `DeltaMessage`; None if it was nothing."""
    if not told:
        return None
    parts: dict[str, Any] = {}
    if told.reasoning:
        parts["reasoning"] = told.reasoning
    if told.content:
        parts["content"] = told.content
    if told.calls:
        calls = parts["tool_calls"] = []
        for call in told.calls:
            if call.id is None:
                function = _vllm["DeltaFunctionCall"](arguments=call.arguments)
                calls.append(_vllm["DeltaToolCall"](index=call.index, function=function))
            else:
                function = _vllm["DeltaFunctionCall"](name=call.name, arguments=call.arguments)
                calls.append(_vllm["DeltaToolCall"](index=call.index, id=call.id, type="function", function=function))
    return _vllm["DeltaMessage"](**parts)


class _Request:
    """What the two parsers of one request share."""

    def __init__(self) -> None:
        self.tools: list[str] | None = None
        self.opened: Channel | None = None
        self.stream: Stream | None = None
        self.whole: Told | None = None
        # What the reasoning parser gave last: the tool parser is asked for the same delta.
        self.last: Any | None = None
        self.by_reasoning = False

    def push(self, text: str, ids: Sequence[int], choice: str = "auto", **options: Any) -> Any | None:
        if self.stream is None:
            self.stream = Stream("vllm", tools=self.tools or (), choice=choice, opened=self.opened, **options)
        return _message(together(self.stream.push(text, ids)))

    def finish(self) -> Any | None:
        return _message(together(self.stream.finish())) if self.stream else None


class _Half:
    """A parser that finds the partner which vLLM builds right before or after it."""

    _request: _Request
    _kind: str

    def _join(self, kind: str) -> None:
        partner = _fresh.get()
        if partner is not None and partner._kind != kind:
            self._request = partner._request
            _fresh.set(None)
        else:
            self._request = _Request()
            _fresh.set(self)
        self._kind = kind

    def _used(self) -> None:
        """From now on nobody's partner is still to come."""
        if _fresh.get() is self:
            _fresh.set(None)

    @property
    def report(self) -> Report | None:
        """What the parser did so far."""
        return self._request.stream.report if self._request.stream else None


class KimiXtmlReasoningParser(_Half, _ReasoningParser):  # type: ignore[misc]
    """Takes the output from the first token to the end of the message."""

    # vLLM and Dynamo then ask when reasoning has ended, and call `finish_streaming` at the end of the stream.
    engine_based_streaming = True

    def __init__(self, tokenizer: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(tokenizer, *args, **kwargs)
        self._thinks = thinks(kwargs.get("chat_template_kwargs"))
        self._join("reasoning")

    @property
    def reasoning_start_str(self) -> str:
        """The tag that opens reasoning."""
        return "<|open|>think<|sep|>"

    @property
    def reasoning_end_str(self) -> str:
        """The tag that closes reasoning."""
        return "<|close|>think<|sep|>"

    def adjust_request(self, request: Any) -> Any:
        """Asks for the control tokens in the text."""
        self._used()
        return _keep_markers(request)

    def set_prompt_token_ids(self, prompt_token_ids: Sequence[int]) -> None:
        """Sees which channel the prompt left open."""
        self._used()
        self._request.opened = opened_channel(prompt_token_ids)

    def adjust_initial_state_from_prompt(self, prompt_token_ids: Sequence[int]) -> None:
        """The same, as older releases and Dynamo say it."""
        self.set_prompt_token_ids(prompt_token_ids)

    def is_reasoning_end(self, input_ids: Sequence[int]) -> bool:
        """Whether reasoning is over at the end of a prompt or an output."""
        self._used()
        opened = opened_channel(input_ids)
        if opened is not None:
            ended = opened == "response"
        else:
            newest = _newest_ends_think(input_ids)
            ended = not self._thinks if newest is None else newest
        # Dynamo's processor gives nobody the output once reasoning is over, if no tools are declared: its tags would
        # stay in the answer.
        return ended and not (opened == "response" and "dynamo.frontend.vllm_processor" in sys.modules)

    def is_reasoning_end_streaming(self, input_ids: Sequence[int], delta_ids: Iterable[int]) -> bool:
        """Whether these tokens end reasoning: where structured output begins."""
        self._used()
        # What the prompt left open counts, whatever the template's arguments say.
        if not self._thinks and _newest_ends_think(input_ids) is not False:
            return True
        if self._request.by_reasoning:
            return False
        delta = list(delta_ids)
        tail = list(input_ids[-len(delta) - 2 :]) if delta else []
        return any(tuple(tail[at : at + 3]) == _CLOSE_THINK for at in range(len(tail) - 2))

    def has_engine_confirmed_reasoning_end(self) -> bool:
        """Never: this parser goes on to the end of the message."""
        return False

    def extract_content_ids(self, input_ids: list[int]) -> list[int]:
        """The ids after the first end of reasoning."""
        self._used()
        at = _end_of_think(input_ids)
        return [] if at is None else input_ids[at:]

    def count_reasoning_tokens(self, token_ids: Sequence[int]) -> int:
        """How many of the output's tokens come before the end of reasoning."""
        if (self._request.opened or _by_template(self._thinks)) == "response":
            return 0
        for at, number in enumerate(token_ids):
            if number in _MARKERS and tuple(token_ids[at : at + 3]) in _ENDS_THINK:
                return at
        return len(token_ids)

    def extract_reasoning(self, model_output: str, request: Any) -> tuple[str | None, str | None]:
        """A whole output: reasoning, and content without tags."""
        self._used()
        shared = self._request
        tools = tool_names(getattr(request, "tools", None)) if shared.tools is not None else []
        opened = shared.opened or _by_template(self._thinks)
        choice = tool_choice(getattr(request, "tool_choice", None))
        told, _ = whole("vllm", model_output, tools=tools, tool_choice=choice, opened=opened)
        shared.whole = told
        return told.reasoning or None, told.content or None

    def extract_reasoning_streaming(
        self,
        previous_text: str,
        current_text: str,
        delta_text: str,
        previous_token_ids: Sequence[int],
        current_token_ids: Sequence[int],
        delta_token_ids: Sequence[int],
    ) -> Any | None:
        """The next delta: reasoning, content and calls."""
        self._used()
        shared = self._request
        if shared.stream is None and shared.opened is None:
            shared.opened = _by_template(self._thinks)
        shared.by_reasoning = True
        shared.last = shared.push(delta_text, delta_token_ids)
        return shared.last

    def finish_streaming(self) -> Any | None:
        """The end of the stream: what was held."""
        return self._request.finish() if self._request.by_reasoning else None


class KimiXtmlToolParser(_Half, _ToolParser):  # type: ignore[misc]
    """Gives the calls that its partner found, or takes the output by itself."""

    # Kimi's format is no JSON: required and named calls come as all others do.
    supports_required_and_named = False
    # vLLM's grammar for the format, which makes required and named calls certain.
    structural_tag_model = "kimi_k3"
    engine_based_streaming = True
    # Dynamo removes control tokens that an answer quotes, but not those that the tool parser calls its own.
    tool_call_start_token = "<|open|>"
    tool_call_end_token = "<|close|>"
    bot_token = "<|sep|>"

    def __init__(self, tokenizer: Any, tools: Any = None) -> None:
        super().__init__(tokenizer, tools)
        self._join("tool")
        self._request.tools = tool_names(tools)

    def adjust_request(self, request: Any) -> Any:
        """Asks for the control tokens in the text. Never for JSON."""
        self._used()
        return _keep_markers(request)

    def extract_tool_calls(self, model_output: str, request: Any) -> Any:
        """A whole output, or what the partner made of it."""
        self._used()
        told = self._request.whole
        if told is None:
            told, _ = whole("vllm", model_output, **self._alone(request))
        self._request.whole = None
        calls = [
            _vllm["ToolCall"](
                id=call.id, type="function", function=_vllm["FunctionCall"](name=call.name, arguments=call.arguments)
            )
            for call in told.calls
        ]
        return _vllm["ExtractedToolCallInformation"](
            tools_called=bool(calls), tool_calls=calls, content=told.content or None
        )

    def extract_tool_calls_streaming(
        self,
        previous_text: str,
        current_text: str,
        delta_text: str,
        previous_token_ids: Sequence[int],
        current_token_ids: Sequence[int],
        delta_token_ids: Sequence[int],
        request: Any,
    ) -> Any | None:
        """The next delta."""
        self._used()
        shared = self._request
        if shared.by_reasoning:
            message, shared.last = shared.last, None
            return message
        if shared.stream is None:
            alone = self._alone(request)
            shared.tools, shared.opened = alone["tools"], alone["opened"]
            message = shared.push(
                delta_text, delta_token_ids, alone["tool_choice"], separate_reasoning=alone["separate_reasoning"]
            )
        else:
            message = shared.push(delta_text, delta_token_ids)
        self._note(message)
        return message

    def finish_streaming(self) -> Any | None:
        """The end of the stream: what was held."""
        if self._request.by_reasoning:
            return None
        message = self._request.finish()
        self._note(message)
        return message

    def _alone(self, request: Any) -> dict[str, Any]:
        """The parser's view of a request whose reasoning nobody takes."""
        on = thinks(getattr(request, "chat_template_kwargs", None))
        return {
            "tools": tool_names(getattr(request, "tools", None)) or self._request.tools or [],
            "tool_choice": tool_choice(getattr(request, "tool_choice", None)),
            "opened": self._request.opened or (None if on else "response"),
            "separate_reasoning": False,
        }

    def _note(self, message: Any | None) -> None:
        """Keeps vLLM's own books of what was streamed: there is never anything left to stream."""
        for call in message.tool_calls or () if message else ():
            while len(self.prev_tool_call_arr) <= call.index:
                self.prev_tool_call_arr.append({"name": call.function.name, "arguments": ""})
                self.streamed_args_for_tool.append("")
                self.current_tool_id, self.current_tool_name_sent = call.index, True
            self.prev_tool_call_arr[call.index]["arguments"] += call.function.arguments
            self.streamed_args_for_tool[call.index] += call.function.arguments


def _by_template(thinking: bool) -> Channel:
    return "think" if thinking else "response"


def _end_of_think(ids: Sequence[int]) -> int | None:
    """Where the ids after the first end of reasoning begin; an opener belongs to what follows it."""
    for at, number in enumerate(ids):
        if number in _MARKERS and (tag := tuple(ids[at : at + 3])) in _ENDS_THINK:
            return at + 3 if tag == _CLOSE_THINK else at
    return None


def _newest_ends_think(ids: Sequence[int]) -> bool | None:
    """Whether the newest tag that opens or ends reasoning ends it; None if there is none."""
    for at in range(len(ids) - 1, -1, -1):
        if ids[at] in _MARKERS:
            tag = tuple(ids[at : at + 3])
            if tag in _ENDS_THINK or tag == (_OPEN, _THINK, _SEP):
                return tag in _ENDS_THINK
    return None


class KimiXtmlParser(_DelegatingParser):  # type: ignore[misc]
    """vLLM's unified parser over one stream. The pair serves only what vLLM asks of it beside parsing."""

    def __init__(self, tokenizer: Any, tools: Any = None, *args: Any, **kwargs: Any) -> None:
        super().__init__(tokenizer, tools, *args, **kwargs)
        self._thinks = thinks(kwargs.get("chat_template_kwargs"))
        self._prompt: Sequence[int] | None = None
        self._stream: Stream | None = None
        self._report: Report | None = None

    @property
    def report(self) -> Report | None:
        """What the parser did so far."""
        return self._stream.report if self._stream else self._report

    def set_prompt_token_ids(self, prompt_token_ids: Sequence[int]) -> None:
        """Keeps the prompt, which says what channel it left open."""
        self._prompt = prompt_token_ids
        if self._reasoning_parser is not None:
            self._reasoning_parser.adjust_initial_state_from_prompt(prompt_token_ids)

    def is_reasoning_end(self, input_ids: list[int]) -> bool:
        """Whether reasoning is over at the end of a prompt."""
        if self._prompt is None:
            self._prompt = input_ids
        return cast("bool", super().is_reasoning_end(input_ids))

    def parse(
        self,
        model_output: str,
        request: Any,
        enable_auto_tools: bool = False,
        model_output_token_ids: Sequence[int] = (),
    ) -> tuple[str | None, str | None, list[Any] | None]:
        """A whole output: reasoning, content, calls."""
        options = self._options(request, enable_auto_tools)
        told, self._report = whole("vllm", model_output, model_output_token_ids or (), **options)
        calls = [_vllm["FunctionCall"](id=call.id, name=call.name, arguments=call.arguments) for call in told.calls]
        return told.reasoning or None, told.content or None, calls or None

    def parse_delta(
        self,
        delta_text: str,
        delta_token_ids: list[int],
        request: Any,
        prompt_token_ids: list[int] | None = None,
        *,
        finished: bool,
    ) -> Any | None:
        """The next delta; with `finished`, all that is left."""
        if self._stream is None:
            if prompt_token_ids is not None:
                self.set_prompt_token_ids(prompt_token_ids)
            options = self._options(request, enable_auto_tools=True)
            self._stream = Stream("vllm", choice=options.pop("tool_choice"), **options)
        deltas = self._stream.push(delta_text, delta_token_ids)
        if finished:
            deltas += self._stream.finish()
        told = together(deltas)
        if not request.include_reasoning:
            told.reasoning = ""
        return _message(told)

    def _options(self, request: Any, enable_auto_tools: bool) -> dict[str, Any]:
        """The request as the parser takes it. Without a tool parser only a forced call is one."""
        choice = tool_choice(request.tool_choice)
        wanted = choice == "required" or (enable_auto_tools and self._tool_parser is not None)
        opened = opened_channel(self._prompt) if self._prompt else None
        return {
            "tools": tool_names(request.tools) if wanted else [],
            "tool_choice": choice,
            "opened": opened or _by_template(self._thinks),
            "separate_reasoning": self._reasoning_parser is not None,
            "object_arguments": _wants_objects(request),
            "request": getattr(request, "request_id", None),
        }


_MESSAGES_API = "vllm.entrypoints.anthropic.serving"


def _wants_objects(request: Any) -> bool:
    """Whether the arguments of its calls must be an object.

    Anthropic's clients take nothing else, and vLLM has no answer for what is none.
    """
    asked = os.environ.get("KIMI_XTML_ARGUMENTS")
    return asked == "object" or (asked != "verbatim" and getattr(type(request), "kimi_xtml_messages", False))


def _mark_messages() -> None:
    """Tells the requests of the Messages API, which vLLM makes into those of Chat Completions, from these.

    Their class becomes one that says so. Where vLLM has not loaded that API there is nothing to tell.
    """
    module = sys.modules.get(_MESSAGES_API)
    if module is None:
        return
    serving = getattr(module, "AnthropicServingMessages", None)
    convert = getattr(serving, "to_chat_completion_request", None)
    if convert is None:
        logger.warning(
            "vLLM has no AnthropicServingMessages.to_chat_completion_request (last seen in %s, 0.29.0 to 0.33.0): in "
            "the Messages API a call whose json block is no JSON object costs the reply; KIMI_XTML_ARGUMENTS=object "
            "prevents it",
            _MESSAGES_API,
        )
        return
    if getattr(convert, "kimi_xtml", False):
        return

    @functools.wraps(getattr(convert, "__func__", convert))
    def marked(*args: Any, **kwargs: Any) -> Any:
        request = convert(*args, **kwargs)
        kind: Any = type(request)
        object.__setattr__(request, "__class__", _marked(kind))
        return request

    marked.kimi_xtml = True  # type: ignore[attr-defined]
    setattr(serving, "to_chat_completion_request", staticmethod(marked))  # noqa: B010


@functools.cache
def _marked(kind: type) -> type:
    return type(
        kind.__name__, (kind,), {"__annotations__": {"kimi_xtml_messages": ClassVar[bool]}, "kimi_xtml_messages": True}
    )


def _composed(tool: Any, reasoning: Any, strict_level: Any) -> type[KimiXtmlParser]:
    """The class that vLLM builds for each choice."""

    class Composed(KimiXtmlParser):
        tool_parser_cls = tool
        reasoning_parser_cls = reasoning
        tool_strict_level = strict_level

    return Composed


def _unify(manager: Any) -> None:
    """Makes vLLM compose `KimiXtmlParser` for our name, where it would compose a pair."""
    name = "_compose_parser" if hasattr(manager, "_compose_parser") else "get_parser"
    original = getattr(manager, name).__func__
    if getattr(original, "kimi_xtml", False):
        return

    @functools.wraps(original)
    def compose(cls: Any, *args: Any, **kwargs: Any) -> Any:
        _mark_messages()
        composed = original(cls, *args, **kwargs)
        tool, reasoning = (getattr(composed, half, None) for half in ("tool_parser_cls", "reasoning_parser_cls"))
        ours = {KimiXtmlToolParser, KimiXtmlReasoningParser}
        halves = {half for half in (tool, reasoning) if half is not None}
        if not halves or not halves <= ours:
            return composed
        return _composed(tool, reasoning, getattr(composed, "tool_strict_level", None))

    compose.kimi_xtml = True  # type: ignore[attr-defined]
    setattr(manager, name, classmethod(compose))


def register() -> None:
    """Registers the parsers under the name `kimi_xtml`. More than once does no harm."""
    _vllm["ToolParserManager"].register_module(name=NAME, module=KimiXtmlToolParser)
    _vllm["ReasoningParserManager"].register_module(name=NAME, module=KimiXtmlReasoningParser)
    if _unified:
        _unify(_unified["ParserManager"])
    started("vLLM", "vllm", TESTED)

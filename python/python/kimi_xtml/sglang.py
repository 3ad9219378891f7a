"""The parsers of this package in SGLang, and in Dynamo's SGLang processor, which drives the same classes.

What comes in: the text of one choice; SGLang passes no token ids. What goes out: its parse results. Held: one parser
for each of SGLang's two stages.

SGLang runs a reasoning parser, then a tool parser on what it left, unless the request has no use for calls:

* The reasoning detector, if a tool detector follows, gives the reasoning and passes on the rest raw; an answer that the
  prompt opened gets its opener back, so that the rest says by itself what it is. If none follows, it gives content.
  SGLang says whether one follows; Dynamo does not, but builds the tool detector right before.
* The tool detector takes a raw rest, or a raw output.

Importing this module fails with one `EngineError` if SGLang has moved what it needs.
"""

from __future__ import annotations

import sys
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from kimi_xtml._engines import NAME, EngineError, Place, Split, Stream, Told, find, started, together, tool_names, whole

if TYPE_CHECKING:
    from kimi_xtml.types import Channel

__all__ = ["EngineError", "KimiXtmlReasoningDetector", "KimiXtmlToolDetector", "register"]

TESTED = "0.5.23"
_SEEN = "0.5.23"
_sglang = find(
    "sglang",
    TESTED,
    {
        "BaseFormatDetector": (Place("sglang.srt.function_call.base_format_detector", _SEEN),),
        "FunctionCallParser": (Place("sglang.srt.function_call.function_call_parser", _SEEN),),
        "StreamingParseResult": (Place("sglang.srt.function_call.core_types", _SEEN),),
        "ToolCallItem": (Place("sglang.srt.function_call.core_types", _SEEN),),
        "BaseReasoningFormatDetector": (Place("sglang.srt.parser.reasoning_parser", _SEEN),),
        "ReasoningParser": (Place("sglang.srt.parser.reasoning_parser", _SEEN),),
    },
)
_BaseFormatDetector: Any = _sglang["BaseFormatDetector"]
_BaseReasoningFormatDetector: Any = _sglang["BaseReasoningFormatDetector"]
# The result of a reasoning detector has the same name in another module.
_Reasoned = find(
    "sglang",
    TESTED,
    {"StreamingParseResult": (Place("sglang.srt.parser.reasoning_parser", _SEEN),)},
)["StreamingParseResult"]

_OPEN_TOOLS, _CLOSE_TOOLS = "<|open|>tools<|sep|>", "<|close|>tools<|sep|>"

# A tool detector that was just built and not used yet.
_fresh: ContextVar[KimiXtmlToolDetector | None] = ContextVar("kimi_xtml_fresh_detector", default=None)


def _grammars() -> dict[str, Any] | None:
    """SGLang's grammars for Kimi's format, which make required and named calls certain, if it has them."""
    module = "sglang.srt.function_call.kimik3_structural_tag"
    names = ("get_kimik3_structural_tag", "get_kimik3_auto_tool_call_structural_tag")
    try:
        return find("sglang", TESTED, {name: (Place(module, _SEEN),) for name in names})
    except EngineError:
        return None


class KimiXtmlReasoningDetector(_BaseReasoningFormatDetector):  # type: ignore[misc]
    """Reasoning, and what is left: for the tool detector, or for the client."""

    def __init__(
        self,
        stream_reasoning: bool = True,
        force_reasoning: bool = True,
        continue_final_message: bool = False,
        previous_content: str = "",
        force_nonempty_content: bool = False,
        tool_call_parser_active: bool = False,
    ) -> None:
        super().__init__(
            "<|open|>think<|sep|>",
            "<|close|>think<|sep|>",
            force_reasoning=force_reasoning,
            stream_reasoning=stream_reasoning,
            tool_start_token=_OPEN_TOOLS,
            continue_final_message=continue_final_message,
            previous_content=previous_content or "",
            reasoning_default="thinking",
            force_nonempty_content=force_nonempty_content,
        )
        self._opened: Channel = "think" if self._in_reasoning else "response"
        before = _fresh.get() if "dynamo.frontend.sglang_prepost" in sys.modules else None
        _fresh.set(None)
        self._hands_over = tool_call_parser_active or before is not None
        # Dynamo tells nobody of the end of a stream, but never cuts a control token.
        self._settles = before is not None and not tool_call_parser_active
        if before is not None:
            before._settles = self._settles
        self._split = Split(self._opened)
        self._stream = Stream("sglang", opened=self._opened)
        self._kept = ""

    def detect_and_parse(self, text: str) -> Any:
        """A whole output."""
        if self._hands_over:
            parts = [self._split.push(text), self._split.finish()]
            reasoning, rest = ("".join(each) for each in zip(*parts, strict=True))
        else:
            told, _ = whole("sglang", text, opened=self._opened)
            reasoning, rest = told.reasoning, told.content
        return self._maybe_apply_force_nonempty_content(_Reasoned(rest, reasoning))

    def parse_streaming_increment(self, new_text: str) -> Any:
        """The next text."""
        if self._hands_over:
            reasoning, rest = self._split.push(new_text)
            if self._settles:
                more_reasoning, more = self._split.settle()
                reasoning, rest = reasoning + more_reasoning, rest + more
            return self._streamed(reasoning, rest)
        told = together(self._stream.push(new_text))
        return self._streamed(told.reasoning, told.content)

    def finish(self) -> Any:
        """The end of the stream: what was held."""
        if self._hands_over:
            reasoning, rest = self._split.finish()
        else:
            told = together(self._stream.finish())
            reasoning, rest = told.reasoning, told.content
        reasoning, self._kept = self._kept + reasoning, ""
        return _Reasoned(rest, reasoning)

    def _streamed(self, reasoning: str, rest: str) -> Any:
        """Reasoning is kept until it is whole if the request does not stream it."""
        if not self.stream_reasoning:
            self._kept += reasoning
            reasoning = ""
            if rest:
                reasoning, self._kept = self._kept, ""
        return _Reasoned(rest, reasoning)


class KimiXtmlToolDetector(_BaseFormatDetector):  # type: ignore[misc]
    """Content and calls of what the reasoning detector left, or of a whole output."""

    def __init__(self) -> None:
        super().__init__()
        self.bot_token, self.eot_token = _OPEN_TOOLS, _CLOSE_TOOLS
        self._stream: Stream | None = None
        self._settles = False
        self._grammars = _grammars()
        _fresh.set(self)

    def _used(self) -> None:
        if _fresh.get() is self:
            _fresh.set(None)

    def has_tool_call(self, text: str) -> bool:
        """Whether the text needs this detector: it has tags, be they of calls or not."""
        return any(marker in text for marker in ("<|open|>", "<|close|>", "<|sep|>", "<|end_of_msg|>"))

    def detect_and_parse(self, text: str, tools: list[Any]) -> Any:
        """A whole text."""
        self._used()
        told, _ = whole("sglang", text, tools=tool_names(tools), separate_reasoning=False)
        item, result = _sglang["ToolCallItem"], _sglang["StreamingParseResult"]
        return result(
            normal_text=told.content,
            calls=[item(tool_index=call.index, name=call.name, parameters=call.arguments) for call in told.calls],
        )

    def parse_streaming_increment(self, new_text: str, tools: list[Any]) -> Any:
        """The next text."""
        stream = self._begun(tools)
        deltas = stream.push(new_text)
        if self._settles:
            deltas += stream.settle()
        return self._streamed(together(deltas))

    def finish(self, tools: list[Any]) -> Any:
        """The end of the stream: what was held."""
        return self._streamed(together(self._begun(tools).finish()))

    def _begun(self, tools: list[Any]) -> Stream:
        self._used()
        if self._stream is None:
            self._stream = Stream("sglang", tools=tool_names(tools), separate_reasoning=False)
        return self._stream

    def _streamed(self, told: Told) -> Any:
        """A result, noted in SGLang's own books: there is never anything left to stream."""
        item, items = _sglang["ToolCallItem"], []
        for call in told.calls:
            if call.name is not None:
                items.append(item(tool_index=call.index, name=call.name, parameters=""))
                self.prev_tool_call_arr.append({"name": call.name, "arguments": ""})
                self.streamed_args_for_tool.append("")
                self.current_tool_id, self.current_tool_name_sent = call.index, True
            if call.arguments:
                items.append(item(tool_index=call.index, parameters=call.arguments))
                self.prev_tool_call_arr[call.index]["arguments"] += call.arguments
                self.streamed_args_for_tool[call.index] += call.arguments
        return _sglang["StreamingParseResult"](normal_text=told.content, calls=items)

    def supports_structural_tag(self) -> bool:
        """Whether there is a grammar for the format."""
        self._used()
        return self._grammars is not None

    def parses_required_natively(self) -> bool:
        """Required calls come in Kimi's format, never in JSON."""
        self._used()
        return self._grammars is None

    @classmethod
    def parses_without_tools(cls) -> bool:
        """Without tools an output has tags as well."""
        return True

    def structure_info(self) -> Any:
        """The format has arguments one by one: its grammar is no schema between two texts."""
        raise NotImplementedError("Kimi's format has a structural tag of its own")

    def get_structural_tag(self, tools: Any = None, tool_choice: Any = "auto", **options: Any) -> Any:
        """SGLang's own grammar for required and named calls."""
        self._used()
        if self._grammars is None:
            return None
        return self._grammars["get_kimik3_structural_tag"](tools=tools or [], tool_choice=tool_choice, **options)

    def get_auto_tool_call_structural_tag(self, tools: Any = None, **options: Any) -> Any:
        """SGLang's own grammar for calls that the model chooses to make."""
        self._used()
        if self._grammars is None:
            return None
        return self._grammars["get_kimik3_auto_tool_call_structural_tag"](tools or [], **options)


def register() -> None:
    """Registers the detectors under the name `kimi_xtml`. More than once does no harm."""
    _sglang["FunctionCallParser"].ToolCallParserEnum[NAME] = KimiXtmlToolDetector
    _sglang["ReasoningParser"].DetectorMap[NAME] = KimiXtmlReasoningDetector
    started("SGLang", "sglang", TESTED)

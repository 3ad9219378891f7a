"""Drives parsers as vLLM's chat serving does it.

In: a stream and the name of a parser. Out: what a client of the server gets, streamed or not.
"""

from collections.abc import Iterable
from typing import Any

from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.parser.parser_manager import ParserManager

from corpora import Stream
from harness import PROMPTS, Tokenizer, tools

try:
    from vllm.entrypoints.openai.chat_completion.message_assembly import assemble_chat_message_fields
    from vllm.entrypoints.openai.chat_completion.stream_processor import ChatStreamProcessor
except ImportError:
    ChatStreamProcessor = None

TOKENIZER = Tokenizer()


def request_of(stream: Stream, **more: Any) -> Any:
    fields: dict[str, Any] = {"model": "k3", "messages": [{"role": "user", "content": "?"}]}
    declared = tools(stream)
    if declared:
        fields |= {"tools": declared, "tool_choice": stream.context.get("tool_choice") or "auto"}
    if stream.context["initial_channel"] == "response":
        fields["chat_template_kwargs"] = {"thinking": False}
    return ChatCompletionRequest(**(fields | more))


class Server:
    """One server's parsers; `reasoning` and `tool` as in its flags."""

    def __init__(self, name: str | None, reasoning: str | None = None) -> None:
        self.parser_cls = ParserManager.get_parser(
            tool_parser_name=name, reasoning_parser_name=reasoning or name, enable_auto_tools=name is not None
        )
        self.auto = name is not None

    def parser(self, request: Any) -> Any:
        kwargs = {"chat_template_kwargs": request.chat_template_kwargs or {}, "model_config": None}
        return self.parser_cls(TOKENIZER, request.tools, **kwargs)

    def choice(self, stream: Stream, **more: Any) -> "Choice":
        return Choice(self, stream, request_of(stream, **more))

    def stream(self, stream: Stream, parts: Iterable[tuple[str, list[int]]], **more: Any) -> dict[str, Any]:
        choice = self.choice(stream, **more)
        given = list(parts)
        for at, (text, ids) in enumerate(given):
            choice.step(text, ids, stream.reason if at == len(given) - 1 else None)
        return choice.told()

    def whole(self, stream: Stream, **more: Any) -> dict[str, Any]:
        request = request_of(stream, **more)
        text = "".join(map(str, stream.chunks))
        ids = [number for some in stream.ids or [] for number in some]
        parser = self.parser(request)
        prompt = PROMPTS[stream.context["initial_channel"]]
        if hasattr(parser, "set_prompt_token_ids"):
            parser.set_prompt_token_ids(prompt)
        reasoning, content, calls = parser.parse(text, request, enable_auto_tools=self.auto, model_output_token_ids=ids)
        if ChatStreamProcessor is not None:
            fields = assemble_chat_message_fields(
                request, reasoning, content, calls, enable_auto_tools=self.auto, parser_cls=self.parser_cls
            )
            reasoning, content = fields.reasoning, fields.content
            calls = [call.function for call in fields.tool_calls]
        return {
            "reasoning": reasoning or "",
            "content": content or "",
            "tool_calls": [(call.name, call.arguments) for call in calls or []],
        }


class Choice:
    """One choice of a streamed answer."""

    def __init__(self, server: Server, stream: Stream, request: Any) -> None:
        self.request = request
        self.prompt = PROMPTS[stream.context["initial_channel"]]
        self.parser = server.parser(request)
        self.request = self.parser.adjust_request(request)
        assert self.request.skip_special_tokens is False
        self.processor = None
        if ChatStreamProcessor is not None:
            self.processor = ChatStreamProcessor(
                self.request, self.parser, enable_auto_tools=server.auto, parser_cls=server.parser_cls
            )
        self.reasoning, self.content, self.calls = "", "", []
        self.finish_reason: str | None = None

    def step(self, text: str, ids: list[int], reason: str | None) -> None:
        if self.processor is not None:
            message, self.finish_reason = self.processor.step(text, ids, reason, self.prompt)
        else:
            message = self.parser.parse_delta(
                text, ids, self.request, prompt_token_ids=self.prompt, finished=reason is not None
            )
        if message is None:
            return
        self.reasoning += message.reasoning or ""
        self.content += message.content or ""
        for call in message.tool_calls or []:
            if call.function.name:
                assert call.id
                assert call.index == len(self.calls)
                self.calls.append([call.function.name, "", call.id])
            else:
                assert not call.id
            self.calls[call.index][1] += call.function.arguments or ""

    def told(self) -> dict[str, Any]:
        return {
            "reasoning": self.reasoning,
            "content": self.content,
            "tool_calls": [(name, arguments) for name, arguments, _ in self.calls],
        }

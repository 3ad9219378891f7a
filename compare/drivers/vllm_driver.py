"""Plays streams through vLLM's built-in kimi_k3 parsers, as its chat serving does.

In: a stream a JSON line. Out: first the installed version, then what the parser said of each stream, a JSON line each:
[chunk, kind, call, text]. Model text only; no engine runs.
"""

import json
import os
import sys
from importlib.metadata import version

OUT = os.fdopen(os.dup(1), "w", encoding="utf-8")
os.dup2(2, 1)  # what the package prints must not mix with the answers

from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest  # noqa: E402
from vllm.entrypoints.openai.chat_completion.stream_processor import ChatStreamProcessor  # noqa: E402
from vllm.parser.parser_manager import ParserManager  # noqa: E402

CONTROL = {"[EOS]": 163585, "<|end_of_msg|>": 163586, "<|open|>": 163587, "<|close|>": 163588, "<|sep|>": 163589}
NAMES = {"think": 39964, "response": 12092, "tools": 25385, "call": 10257, "argument": 47185, "json": 5534, "message": 2778}
VOCABULARY = CONTROL | NAMES


class Tokenizer:
    """As much of a tokenizer as the parsers ask for."""

    all_special_tokens = tuple(CONTROL)
    vocab = VOCABULARY

    def get_vocab(self):
        return VOCABULARY

    def encode(self, text, add_special_tokens=False):
        ids = []
        while text:
            known = next((word for word in VOCABULARY if text.startswith(word)), text[0])
            ids.append(VOCABULARY.get(known, ord(known[0])))
            text = text[len(known) :]
        return ids

    def decode(self, ids, skip_special_tokens=False):
        words = {number: word for word, number in VOCABULARY.items()}
        return "".join(words.get(number) or chr(number) for number in ids)

    def convert_tokens_to_ids(self, token):
        return VOCABULARY.get(token)


TOKENIZER = Tokenizer()
PARSER = ParserManager.get_parser(
    tool_parser_name="kimi_k3", reasoning_parser_name="kimi_k3", enable_auto_tools=True
)


def play(stream):
    opened = stream["opened"]
    fields = {"model": "k3", "messages": [{"role": "user", "content": "?"}]}
    if stream["tools"]:
        schema = {"type": "object", "properties": {}}
        fields["tools"] = [
            {"type": "function", "function": {"name": name, "parameters": schema}} for name in stream["tools"]
        ]
        fields["tool_choice"] = "auto"
    if opened == "response":
        fields["chat_template_kwargs"] = {"thinking": False}
    request = ChatCompletionRequest(**fields)
    parser = PARSER(
        TOKENIZER, request.tools, chat_template_kwargs=request.chat_template_kwargs or {}, model_config=None
    )
    request = parser.adjust_request(request)
    processor = ChatStreamProcessor(request, parser, enable_auto_tools=True, parser_cls=PARSER)
    prompt = [CONTROL["<|open|>"], NAMES[opened], CONTROL["<|sep|>"]] if opened != "none" else []
    said = []
    chunks = stream["chunks"]
    for number, text in enumerate(chunks):
        ids = stream["ids"][number] if stream["ids"] else TOKENIZER.encode(text)
        if not text and not ids:
            continue
        message, _ = processor.step(text, ids, stream["reason"] if number == len(chunks) - 1 else None, prompt)
        if message is None:
            continue
        if message.reasoning:
            said.append([number, "reasoning", 0, message.reasoning])
        if message.content:
            said.append([number, "content", 0, message.content])
        for call in message.tool_calls or []:
            if call.function.name:
                said.append([number, "name", call.index, call.function.name])
            if call.function.arguments:
                said.append([number, "arguments", call.index, call.function.arguments])
    return said


def main():
    print(json.dumps({"version": version("vllm")}), file=OUT, flush=True)
    for line in sys.stdin:
        try:
            answer = {"said": play(json.loads(line))}
        except Exception as error:  # what a parser raises is its result
            answer = {"said": [], "error": f"{type(error).__name__}: {error}"[:300]}
        print(json.dumps(answer), file=OUT, flush=True)


main()

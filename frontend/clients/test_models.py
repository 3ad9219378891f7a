"""Random streams, as the crate writes them, before the OpenAI and Anthropic SDKs: their own models, and their own clients.

In: the program that writes the streams (examples/wire.rs), and how many. Out: a line; the first stream that a model or a client
refuses ends the run. Held: nothing.
"""
import functools
import json
import subprocess
import sys

import anthropic
import httpx2
import openai
from anthropic.types import Message, RawMessageStreamEvent
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

QUESTION = [{"role": "user", "content": "x"}]


def data(events):
    """The data of each event, as a client reads it: by lines."""
    return [line.removeprefix("data: ") for line in events.splitlines() if line.startswith("data: ")]


# A type's validator takes long to make.
adapter = functools.cache(TypeAdapter)


def valid(model, text):
    """What a model makes of JSON: every member of the type that it says, without conversion, none missing."""
    return adapter(model).validate_json(text, strict=True)


def answering(kind, text):
    """What an SDK's client is made of: a server that always answers with this text."""
    answer = lambda _: httpx2.Response(200, headers={"content-type": kind}, content=text.encode())
    return {"api_key": "any", "base_url": "http://localhost", "http_client": httpx2.Client(transport=httpx2.MockTransport(answer))}


def chat(events, body):
    frames = data(events)
    assert frames.pop() == "[DONE]"
    for frame in frames:
        valid(ChatCompletionChunk, frame)
    whole = valid(ChatCompletion, body)
    client = openai.OpenAI(**answering("text/event-stream", events))
    try:
        with client.chat.completions.stream(model="kimi-k3", messages=QUESTION) as stream:
            final = stream.get_final_completion()
    except (openai.LengthFinishReasonError, openai.ContentFilterFinishReasonError) as end:
        final = getattr(end, "completion", None)  # it was all read
    if final:
        assert (final.choices[0].message.content or "") == whole.choices[0].message.content
        calls = lambda message: [(call.id, call.function.name, call.function.arguments) for call in message.tool_calls or []]
        assert calls(final.choices[0].message) == calls(whole.choices[0].message)


def messages(events, body):
    for event in data(events):
        valid(RawMessageStreamEvent, event)
    whole = valid(Message, body)
    ask = {"model": "kimi-k3", "max_tokens": 9, "messages": QUESTION}
    with anthropic.Anthropic(**answering("text/event-stream", events)).messages.stream(**ask) as stream:
        final = stream.get_final_message()
    read = anthropic.Anthropic(**answering("application/json", body)).messages.create(**ask)
    assert [block.type for block in final.content] == [block.type for block in whole.content]
    # A stream has also what is whole of the member in which a call was cut.
    same = lambda message: [block.to_dict() for block in message.content if block.type != "tool_use"]
    assert same(final) == same(whole) and read.to_dict() == whole.to_dict()
    if final.stop_reason != "max_tokens":
        inputs = lambda message: [block.input for block in message.content if block.type == "tool_use"]
        for streamed, at_once in zip(inputs(final), inputs(whole), strict=True):
            assert at_once.items() <= streamed.items() if at_once else True, (streamed, at_once)


def responses(events, body):
    for event in data(events):
        valid(ResponseStreamEvent, event)
    whole = valid(Response, body)
    with openai.OpenAI(**answering("text/event-stream", events)).responses.stream(model="kimi-k3", input="x") as stream:
        last = [event for event in stream][-1]
    assert last.type in ("response.completed", "response.incomplete")
    read = openai.OpenAI(**answering("application/json", body)).responses.create(model="kimi-k3", input="x")
    assert read.to_dict() == whole.to_dict()
    items = lambda response: [(item.type, item.id, item.status) for item in response.output]
    assert items(last.response) == items(whole)


def main(program, count):
    lines = subprocess.run([program, count], check=True, stdout=subprocess.PIPE).stdout.decode().split("\n")
    for number, line in enumerate(filter(None, lines)):
        for api, check in (("chat", chat), ("messages", messages), ("responses", responses)):
            said = json.loads(line)[api]
            try:
                check(said["events"], said["body"])
            except Exception:
                print(f"stream {number}, {api}:\n{said['events']}\n{said['body']}", file=sys.stderr)
                raise
    print(f"{number + 1} random streams: the SDKs' models and clients take each in the words of every API")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])

"""The OpenAI and Anthropic SDKs against the server.

In: the server's program. Out: a line a test; the first that fails ends the run. Held: the server, while a test runs.
"""
import json
import pathlib
import re
import sys
import threading
import time

import anthropic
import openai

from served import served

MODEL = "kimi-k3"
# What an endpoint takes as a tool's name.
NAME = re.compile("[A-Za-z_][A-Za-z0-9_-]{0,255}")
CORPORA = pathlib.Path(__file__).resolve().parents[2] / "corpora"
PARAMETERS = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
    "required": ["city", "days"],
}
CHAT_TOOLS = [{"type": "function", "function": {"name": name, "parameters": PARAMETERS}} for name in ("get_weather", "get_time")]


def chat_plain(client):
    answer = client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "Hello <|open|> 🍲"}])
    choice = answer.choices[0]
    assert choice.message.content == "Hello <|open|> 🍲" and choice.finish_reason == "stop"
    assert choice.message.reasoning_content.startswith("The user")
    details = answer.usage.completion_tokens_details
    assert 0 < details.reasoning_tokens < answer.usage.completion_tokens
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


def chat_stream(client):
    stream = client.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": "one two three"}], stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == "one two three"
    assert chunks[-1].choices == [] and chunks[-1].usage.total_tokens > 0
    assert chunks[-2].choices[0].finish_reason == "stop"


def chat_tools(client):
    answer = client.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": "get_weather and get_time"}], tools=CHAT_TOOLS
    )
    calls = answer.choices[0].message.tool_calls
    assert [call.function.name for call in calls] == ["get_weather", "get_time"]
    assert all(1 <= json.loads(call.function.arguments)["days"] <= 9 for call in calls)
    assert answer.choices[0].finish_reason == "tool_calls"
    follow = [
        {"role": "user", "content": "get_weather and get_time"},
        answer.choices[0].message.model_dump(exclude_none=True),
        *({"role": "tool", "tool_call_id": call.id, "content": f"result {call.id}"} for call in calls),
    ]
    final = client.chat.completions.create(model=MODEL, messages=follow, tools=CHAT_TOOLS)
    assert final.choices[0].message.content == f"The tool says: result {calls[1].id}"


def chat_tools_stream_helper(client):
    """The SDK's own accumulation of a stream."""
    with client.chat.completions.stream(
        model=MODEL, messages=[{"role": "user", "content": "x"}], tools=CHAT_TOOLS, tool_choice="required"
    ) as stream:
        events = list(stream)
        final = stream.get_final_completion()
    call = final.choices[0].message.tool_calls[0]
    assert call.id == "get_weather_0" and isinstance(json.loads(call.function.arguments)["city"], str)
    assert any(event.type == "tool_calls.function.arguments.done" for event in events)


def chat_choices(client):
    said = {}
    for chunk in client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "hi"}], n=3, stream=True):
        choice = chunk.choices[0]
        said[choice.index] = said.get(choice.index, "") + (choice.delta.content or "")
    assert said == {0: "hi", 1: "hi (2)", 2: "hi (3)"}
    whole = client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "hi"}], n=3)
    assert [choice.message.content for choice in whole.choices] == list(said.values())


def chat_logprobs(client):
    answer = client.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": "Soup 🍲"}], logprobs=True, top_logprobs=2
    )
    tokens = answer.choices[0].logprobs.content
    assert bytes(byte for token in tokens for byte in token.bytes) == "Soup 🍲".encode()
    assert all(len(token.top_logprobs) == 2 for token in tokens)


def chat_schema(client):
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
    answer = client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": "x"}],
        response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": schema}},
    )
    assert isinstance(json.loads(answer.choices[0].message.content)["n"], int)


def chat_errors(client):
    for error, request in [
        (openai.NotFoundError, {"model": "gpt-9"}),
        (openai.BadRequestError, {"tool_choice": "required"}),
        (openai.BadRequestError, {"n": 0, "stream": True}),
    ]:
        try:
            client.chat.completions.create(**{"model": MODEL, "messages": [{"role": "user", "content": "x"}], **request})
        except error as caught:
            assert caught.body["message"]
        else:
            raise AssertionError(f"{request} was served")
    assert [model.id for model in client.models.list()] == [MODEL]


def chat_cancel(client):
    """A stream that is left after a few chunks: the connection closes, and others go on."""
    words = " ".join(f"word{n}" for n in range(20000))
    stream = client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": words}], stream=True)
    for _, _ in zip(range(5), stream):
        pass
    stream.close()
    chat_plain(client)


def responses_plain(client):
    answer = client.responses.create(model=MODEL, input="Hello there", instructions="Be kind.")
    assert answer.output_text == "Hello there" and answer.status == "completed"
    assert [item.type for item in answer.output] == ["reasoning", "message"]
    assert answer.usage.output_tokens_details.reasoning_tokens > 0


def responses_stream(client):
    with client.responses.stream(model=MODEL, input="one two three") as stream:
        events = list(stream)
        final = stream.get_final_response()
    assert final.output_text == "one two three"
    deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert "".join(deltas) == "one two three" and len(deltas) == 3
    assert [event.sequence_number for event in events if hasattr(event, "sequence_number")] == sorted(
        event.sequence_number for event in events if hasattr(event, "sequence_number")
    )
    assert any(event.type == "response.reasoning_text.delta" for event in events)


def responses_tools(client):
    tools = [{"type": "function", "name": "get_weather", "parameters": PARAMETERS, "strict": False}]
    first = client.responses.create(model=MODEL, input="get_weather", tools=tools)
    call = next(item for item in first.output if item.type == "function_call")
    assert 1 <= json.loads(call.arguments)["days"] <= 9 and call.status == "completed"
    said = [
        {"role": "user", "content": "get_weather"},
        call.model_dump(exclude_none=True),
        {"type": "function_call_output", "call_id": call.call_id, "output": "rain"},
    ]
    assert client.responses.create(model=MODEL, input=said, tools=tools).output_text == "The tool says: rain"
    arguments = ""
    for event in client.responses.create(model=MODEL, input="x", tools=tools, tool_choice="required", stream=True):
        if event.type == "response.function_call_arguments.delta":
            arguments += event.delta
        if event.type == "response.function_call_arguments.done":
            assert event.arguments == arguments
        if event.type == "response.completed":
            assert event.response.output[-1].arguments == arguments
    json.loads(arguments)


def responses_cut(client):
    answer = client.responses.create(model=MODEL, input="a b c d e f g h", max_output_tokens=18)
    assert answer.status == "incomplete" and answer.incomplete_details.reason == "max_output_tokens"


def messages_plain(client):
    answer = client.messages.create(model=MODEL, max_tokens=500, messages=[{"role": "user", "content": "Hello"}], system="Be kind.")
    assert answer.content[0].text == "Hello" and answer.stop_reason == "end_turn"
    assert answer.usage.output_tokens > 0 and answer.usage.input_tokens > 0
    thinking = client.messages.create(
        model=MODEL,
        max_tokens=2000,
        thinking={"type": "enabled", "budget_tokens": 1024},
        messages=[{"role": "user", "content": [{"type": "text", "text": "Hello"}]}],
    )
    assert [block.type for block in thinking.content] == ["thinking", "text"]


def messages_stream(client):
    with client.messages.stream(
        model=MODEL,
        max_tokens=2000,
        thinking={"type": "enabled", "budget_tokens": 1024},
        messages=[{"role": "user", "content": "one two three"}],
    ) as stream:
        events = list(stream)
        final = stream.get_final_message()
    assert [block.type for block in final.content] == ["thinking", "text"]
    assert final.content[1].text == "one two three" and final.stop_reason == "end_turn"
    assert "".join(event.text for event in events if event.type == "text") == "one two three"


def messages_tools(client):
    tools = [{"name": "get_weather", "input_schema": PARAMETERS}]
    ask = {"role": "user", "content": "get_weather"}
    first = client.messages.create(model=MODEL, max_tokens=500, messages=[ask], tools=tools)
    use = first.content[-1]
    assert use.type == "tool_use" and 1 <= use.input["days"] <= 9 and first.stop_reason == "tool_use"
    result = {"type": "tool_result", "tool_use_id": use.id, "content": [{"type": "text", "text": "rain"}]}
    follow = [ask, {"role": "assistant", "content": [use.model_dump(exclude_none=True)]}, {"role": "user", "content": [result]}]
    final = client.messages.create(model=MODEL, max_tokens=500, messages=follow, tools=tools)
    assert final.content[0].text == "The tool says: rain"
    with client.messages.stream(
        model=MODEL, max_tokens=500, messages=[ask], tools=tools, tool_choice={"type": "any"}
    ) as stream:
        pieces = [event.partial_json for event in stream if event.type == "input_json"]
        assert json.loads("".join(pieces)) == stream.get_final_message().content[-1].input
    assert len(pieces) > 1


def messages_stop(client):
    answer = client.messages.create(
        model=MODEL, max_tokens=500, stop_sequences=["END"], messages=[{"role": "user", "content": "one END two"}]
    )
    assert answer.content[0].text == "one " and (answer.stop_reason, answer.stop_sequence) == ("stop_sequence", "END")
    cut = client.messages.create(model=MODEL, max_tokens=2, messages=[{"role": "user", "content": "a b c d"}])
    assert cut.stop_reason == "max_tokens"


def messages_errors(client):
    try:
        client.messages.create(model="gpt-9", max_tokens=5, messages=[{"role": "user", "content": "x"}])
    except anthropic.NotFoundError as error:
        assert error.body["error"]["type"] == "not_found_error"
    else:
        raise AssertionError("an unknown model was served")


def replayed(chat, records):
    """Recorded streams through the SDK's accumulation give the recorded messages."""
    for record in records:
        context = record["context"]
        request = {"model": MODEL, "messages": [{"role": "user", "content": record["user"]}]}
        if context.get("tools"):
            request["tools"] = [{"type": "function", "function": {"name": name}} for name in context["tools"]]
            request["tool_choice"] = context.get("tool_choice", "auto")
        try:
            with chat.chat.completions.stream(**request) as stream:
                for _ in stream:
                    pass
                message = stream.get_final_completion().choices[0].message
        except openai.BadRequestError as error:  # names that a parser takes and an endpoint does not
            assert error.param.endswith("function.name"), record["id"]
            assert not all(NAME.fullmatch(name) for name in context["tools"]), record["id"]
            continue
        calls = [(call.function.name, call.function.arguments) for call in message.tool_calls or []]
        results = [record["expected"], *record.get("alternatives", [])]
        wanted = [
            (result.get("content", ""), [(call["name"], call["arguments_json"]) for call in result.get("tool_calls", [])])
            for result in results
        ]
        assert (message.content or "", calls) in wanted, record["id"]


def concurrent(client):
    failed = []

    def ask(n):
        try:
            answer = client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": f"w{n}"}])
            assert answer.choices[0].message.content == f"w{n}"
        except Exception as error:  # told of below
            failed.append(error)

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(50)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not failed, failed[0]


def main(program):
    with served(program) as url:
        chat = openai.OpenAI(base_url=url + "/v1", api_key="x", max_retries=0)
        claude = anthropic.Anthropic(base_url=url, api_key="x", max_retries=0)
        for test in (
            chat_plain, chat_stream, chat_tools, chat_tools_stream_helper, chat_choices, chat_logprobs, chat_schema, chat_errors,
            chat_cancel, concurrent, responses_plain, responses_stream, responses_tools, responses_cut,
        ):
            run(test, chat)
        for test in (messages_plain, messages_stream, messages_tools, messages_stop, messages_errors):
            run(test, claude)
    files = [CORPORA / "math.jsonl", CORPORA / "tools.jsonl"]
    with served(program, "--replay", *map(str, files)) as url:
        chat = openai.OpenAI(base_url=url + "/v1", api_key="x", max_retries=0)
        records = [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]
        run(lambda client: replayed(client, records), chat, f"replayed {len(records)} records")
    print("all passed")


def run(test, client, name=None):
    started = time.monotonic()
    test(client)
    print(f"ok {name or test.__name__} ({time.monotonic() - started:.2f} s)")


if __name__ == "__main__":
    main(sys.argv[1])

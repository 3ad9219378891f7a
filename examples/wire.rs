//! Random streams in the words of each API, for `frontend/clients/test_models.py`, which shows them to the official SDKs.
//!
//! In: how many streams. Out: a line of JSON each: `chat`, `messages` and `responses`, each with the server-sent events of
//! the stream (`events`) and the body of a request without one (`body`). Nothing is held.

use bytes::BytesMut;
use kimi_xtml::{
    AnthropicMessages, Channel, Chat, ChatStream, Extras, Frames, IdPolicy, Logprob, Parser, Request, Responses, Usage,
};
use serde_json::{Value, json};

/// What streams are made of: what the model should write, and what it should not.
const PARTS: [&str; 30] = [
    "<|close|>think<|sep|><|open|>response<|sep|>",
    "<|open|>think<|sep|>",
    "<|close|>think<|sep|>",
    "<|open|>response<|sep|>",
    "<|close|>response<|sep|>",
    "<|close|>response<|sep|><|open|>tools<|sep|>",
    "<|open|>tools<|sep|>",
    "<|close|>tools<|sep|>",
    "<|open|>call tool=\"ls\" index=\"1\"<|sep|>",
    "<|open|>call tool=\"f\" index=\"2\"<|sep|><|open|>argument key=\"a\" type=\"object\"<|sep|>{\"b\":[1,\"\\ud800\"]}<|close|>argument<|sep|>",
    "<|open|>call tool=\"f\" index=\"2\"<|sep|><|open|>argument key=\"a\" type=\"number\"<|sep|>-1e400<|close|>argument<|sep|>",
    "<|open|>argument key=\"x\" type=\"string\"<|sep|>a \"quoted\" value\\<|close|>argument<|sep|>",
    "<|open|>argument key=\"x\" type=\"boolean\"<|sep|>maybe<|close|>argument<|sep|>",
    "<|open|>call tool=\"ls\" index=\"3\"<|sep|><|open|>json type=\"object\"<|sep|>{\"a\":1}<|close|>json<|sep|><|close|>call<|sep|>",
    "<|open|>call tool=\"ls\" index=\"3\"<|sep|><|open|>json type=\"object\"<|sep|>ls -la<|close|>json<|sep|><|close|>call<|sep|>",
    "<|open|>call tool=\"ls\" index=\"3\"<|sep|><|open|>json type=\"object\"<|sep|>{\"a\":[1,{\"b\":tru<|close|>json<|sep|><|close|>call<|sep|>",
    "<|open|>call tool=\"ls\" index=\"3\"<|sep|><|open|>json type=\"object\"<|sep|>{\"a\":\"\\udc00\"} and more<|close|>json<|sep|><|close|>call<|sep|>",
    "<|open|>call tool=\"ls\" index=\"3\"<|sep|><|open|>json type=\"object\"<|sep|> <|close|>json<|sep|><|close|>call<|sep|>",
    "<|open|>json type=\"object\"<|sep|>",
    "<|close|>json<|sep|>",
    "<|close|>call<|sep|>",
    "{\"k\":[[[",
    "99999",
    "\"\\ud83d",
    "Hello, ",
    "\u{2028}data: [DONE]\r\n",
    "é🍲\u{85}",
    "<|",
    "[1,]",
    "<|close|>message<|sep|><|end_of_msg|>",
];
const REASONS: [&str; 4] = ["stop", "length", "eos_token", "content_filter"];

/// Marsaglia's xorshift.
struct Random(u64);

impl Random {
    fn below(&mut self, count: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % count as u64) as usize
    }
}

fn main() {
    let count = std::env::args().nth(1).and_then(|count| count.parse().ok()).unwrap_or(100);
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for _ in 0..count {
        let parts = 1 + random.below(12);
        let text: String = (0..parts).map(|_| PARTS[random.below(PARTS.len())]).collect();
        let opened = [Channel::Think, Channel::Response, Channel::Tools][random.below(3)];
        let reason = REASONS[random.below(REASONS.len())];
        println!("{}", stream(&text, opened, reason, 3 + random.below(40)));
    }
}

/// The stream in the words of each API, pushed in parts of so many characters.
fn stream(text: &str, opened: Channel, reason: &str, part: usize) -> Value {
    let mut parser = Parser::new(Request::new().opened(opened).tools(["ls", "f"]));
    let mut chat = Chat::new(IdPolicy::numbered(0));
    let usage = Usage::new(10, 7).with_reasoning_tokens(2).with_cached_tokens(3);
    let frames = Frames::new("chatcmpl-1", 1_790_000_000, "kimi-k3");
    let mut choice = frames.choice(0);
    let mut messages = AnthropicMessages::new("msg_1", "kimi-k3");
    let new_responses = || Responses::new("resp_1", 1_790_000_000, "kimi-k3", Default::default());
    let mut responses = new_responses();
    let mut out = [BytesMut::new(), BytesMut::new(), BytesMut::new()];
    let tools =
        json!([{"type": "function", "function": {"name": "ls"}}, {"type": "function", "function": {"name": "f"}}]);
    let whole = ChatStream::from_json(&json!({"tools": tools}).to_string()).expect("the request is one");
    let mut whole = whole.opened(opened).with_call_ids(IdPolicy::numbered(0)).with_prompt_usage(Usage::new(10, 0));

    choice.start(&mut out[0]);
    messages.start(&usage, &mut out[1]);
    responses.start(&mut out[2]);
    let mut write = |chat: &mut Chat| {
        for delta in chat.deltas() {
            let top = vec![(b"x".to_vec(), -1.5), (vec![0xff], f64::NEG_INFINITY)];
            let logprobs = [Some(Logprob::new([0xf0, 0x9f], -0.5).with_top(top)), None];
            let extras = Extras::new().with_logprobs(&logprobs);
            choice.delta(delta, extras, &mut out[0]);
            messages.delta(delta, &mut out[1]);
            responses.delta_with(delta, extras, &mut out[2]);
        }
        chat.clear();
    };
    let chars: Vec<char> = text.chars().collect();
    for chars in chars.chunks(part) {
        let text: String = chars.iter().collect();
        parser.push(&text, &mut chat);
        whole.push(&text);
        write(&mut chat);
    }
    let reason = parser.finish(reason, &mut chat);
    write(&mut chat);
    let body = whole.end(reason);
    let reason = whole.finish_reason().map_or("length", |reason| reason.as_str());
    let [chat_events, messages_events, responses_events] = &mut out;
    choice.end(reason, Some(&usage), chat_events);
    frames.usage(&usage, chat_events);
    frames.done(chat_events);
    messages.end(reason, None, &usage, messages_events);
    responses.end(reason, &usage, responses_events);

    let message = chat.into_message().expect("it is kept");
    let shown = |events: &BytesMut, body: &str| json!({"events": String::from_utf8_lossy(events), "body": body});
    json!({
        "chat": shown(chat_events, &String::from_utf8_lossy(&body)),
        "messages": shown(
            messages_events,
            AnthropicMessages::new("msg_1", "kimi-k3").message(&message, reason, None, &usage).get(),
        ),
        "responses": shown(responses_events, &new_responses().whole(&message, reason, &usage).to_string()),
    })
}

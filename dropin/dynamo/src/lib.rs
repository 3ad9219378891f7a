//! kimi-xtml in Dynamo: the unified parser of the family `kimi_k3`.
//!
//! In: what the model generates, as text or as ids. Out: Dynamo's events, in order. Held: a [`kimi_xtml::Parser`], and where
//! tool calls come as bare JSON, that JSON.
//!
//! ```
//! use dynamo_parsers_v2::{UnifiedEvent, UnifiedParserExt, create_unified_parser_for_family};
//!
//! kimi_xtml_dynamo::register(None);
//! let mut parser = create_unified_parser_for_family("kimi_k3", &[])?;
//! let events = parser.parse_complete("<|open|>think<|sep|>Hm.<|close|>think<|sep|><|open|>response<|sep|>Hi")?;
//! let [UnifiedEvent::Reasoning { text: reasoning }, UnifiedEvent::Text { text }] = &events[..] else { panic!() };
//! assert_eq!((&**reasoning, &**text), ("Hm.", "Hi"));
//! # Ok::<(), anyhow::Error>(())
//! ```
#![forbid(unsafe_code)]

mod guided;
mod unified;

use std::sync::{Arc, OnceLock};

use dynamo_parsers_v2::{UnifiedParserFactory, register_unified_parser};
use kimi_xtml_tokenizer::Tokenizer;

pub use unified::KimiK3;

/// The family's name in Dynamo.
pub const FAMILY: &str = "kimi_k3";

/// What decodes ids. Dynamo's factories are plain functions, so that a process has one.
static TOKENIZER: OnceLock<Arc<Tokenizer>> = OnceLock::new();

/// Makes this parser that of the family `kimi_k3`, for parsers that are created from now on. With a tokenizer they take
/// ids too, by which a quoted tag is told from a real one exactly; the first that is given stays. Gives what was registered.
pub fn register(tokenizer: Option<Arc<Tokenizer>>) -> Option<UnifiedParserFactory> {
    if let Some(tokenizer) = tokenizer {
        TOKENIZER.get_or_init(|| tokenizer);
    }
    register_unified_parser(FAMILY, |_| Ok(Box::new(KimiK3::new(TOKENIZER.get().cloned()))))
}

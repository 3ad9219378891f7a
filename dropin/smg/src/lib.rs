//! kimi-xtml in SMG: `kimi_k3` of both its registries.
//!
//! In: text of the model, through SMG's traits. Out: reasoning and the rest from [`Reasoning`], which comes first; answer and
//! calls from [`Calls`], which reads what the first leaves. Held: a [`kimi_xtml::Parser`] each.
//!
//! ```
//! let tools = tool_parser::ParserFactory::new();
//! let reasoning = reasoning_parser::ParserFactory::new();
//! kimi_xtml_smg::register(tools.registry(), reasoning.registry());
//!
//! let mut parser = reasoning.registry().create_parser("kimi_k3").unwrap();
//! parser.mark_reasoning_started();
//! let parsed = parser.detect_and_parse_reasoning("Hm.<|close|>think<|sep|><|open|>response<|sep|>Hi").unwrap();
//! assert_eq!((&*parsed.reasoning_text, &*parsed.normal_text), ("Hm.", "Hi"));
//! ```
#![forbid(unsafe_code)]

mod calls;
mod reasoning;

pub use calls::Calls;
pub use reasoning::Reasoning;

/// The name of both parsers in SMG's registries.
pub const NAME: &str = "kimi_k3";

/// Puts the two parsers in the place of SMG's own. SMG's structural tag stays: what it lets through, these parsers read.
pub fn register(tools: &tool_parser::factory::ParserRegistry, reasoning: &reasoning_parser::factory::ParserRegistry) {
    let tag = tool_parser::KimiK3Parser::build_structural_tag;
    tools.register_parser_with_structural_tag(NAME, || Box::new(Calls::new()), tag);
    reasoning.register_parser(NAME, || Box::new(Reasoning::new()));
}

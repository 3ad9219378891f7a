#![doc = include_str!("../README.md")]
//!
//! # The text's way
//! text -> `split` (stretches, then pieces) -> `merge` (tokens of a piece, by `ranks`) -> ids. Control tokens are `special`.
#![forbid(unsafe_code)]

mod decoder;
mod merge;
mod ranks;
mod special;
mod split;
mod tokenizer;
mod turn;

pub use decoder::{Decoder, UnknownId};
pub use ranks::{LineFault, RanksError};
pub use tokenizer::{OpenError, Tokenizer};
pub use turn::{BridgeError, Mode, Turn};

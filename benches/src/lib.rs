//! The streams that the parser is measured on, and what plays and measures them.
//!
//! In: a shape of stream, a length, a way to cut it, an input and a sink of the parser. Out: the time that it takes, once it is
//! sure that the message that comes out is the one that went in. Nothing here is random: a seed is a part of each stream.

mod conversations;
mod floors;
mod measure;
mod play;
mod streams;
mod table;
mod text;

pub use conversations::Body;
pub use floors::Floor;
pub use measure::best;
pub use play::{Case, Input, Sinks};
pub use streams::{Answer, Cut, SHAPES, Shape, Stream, Token, shape};
pub use table::{Row, once, rows};

//! What the parser reads, written: the inverse direction.

mod render;

pub use render::{Piece, RenderError, render, render_pieces};

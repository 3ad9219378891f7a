//! Texts and pieces -> ids, and back.
//!
//! In: a text, or the pieces of a prompt; ids. Out: ids; bytes. Held: the ranks and the control tokens; for each thread that
//! encodes, an automaton's cache and the room that merging needs. One tokenizer serves all threads.

use std::panic::{RefUnwindSafe, UnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fmt, fs, io};

use kimi_xtml::{Label, Piece, Prompt};
use regex_automata::hybrid::dfa::Cache;
use regex_automata::util::pool::Pool;

use crate::decoder::{Decoder, UnknownId};
use crate::merge::Merger;
use crate::ranks::{Ranks, RanksError};
use crate::special::Specials;
use crate::split::{Splitter, stretches};

/// Why a file of ranks cannot be opened.
///
/// ```
/// use kimi_xtml_tokenizer::{OpenError, Tokenizer};
///
/// let error = Tokenizer::open("no/such/file").unwrap_err();
/// assert!(matches!(error, OpenError::Read { .. }));
/// assert_eq!(error.to_string(), "no/such/file: cannot be read");
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The file cannot be read.
    #[error("{}: cannot be read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is none of ranks.
    #[error("{}: no file of ranks", path.display())]
    Ranks {
        /// The file.
        path: PathBuf,
        /// Which line, and what is wrong with it.
        source: RanksError,
    },
}

/// What encoding works with; one a thread.
struct Scratch {
    cache: Cache,
    merger: Merger,
}

type Make = Box<dyn Fn() -> Scratch + Send + Sync + UnwindSafe + RefUnwindSafe>;

/// Kimi's tokenizer: texts and prompts as token ids, and ids as bytes.
///
/// The ranks come from a file (`tiktoken.model`: a token in base64, a blank and its rank a line) that stands beside the
/// model's weights; none is shipped. The pattern, the control tokens and the cuts of very long texts are Kimi K3's, and the
/// ids are those of its own tokenizer. Encoding is linear, for hostile texts too.
///
/// ```no_run
/// use kimi_xtml::{Conversation, encode};
/// use kimi_xtml_tokenizer::Tokenizer;
///
/// let tokenizer = Tokenizer::open("Kimi-K3/tiktoken.model")?;
/// let conversation = Conversation::from_json(r#"{"messages": [{"role": "user", "content": "Hi"}]}"#)?;
/// let prompt = encode(&conversation)?;
/// let ids = tokenizer.encode_pieces(&prompt.pieces);
/// println!("{} prompt tokens", ids.len() - prompt.unbilled);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Tokenizer {
    ranks: Ranks,
    specials: Specials,
    splitter: Arc<Splitter>,
    scratches: Pool<Scratch, Make>,
}

impl fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokenizer").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl Tokenizer {
    /// Reads a file of ranks, a few MB, in some 50 ms.
    ///
    /// ```
    /// use kimi_xtml_tokenizer::Tokenizer;
    ///
    /// let tokenizer = Tokenizer::open("tests/tiny.tiktoken")?;
    /// assert_eq!(tokenizer.encode("abc"), [256, 99]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If it cannot be read, or is no file of ranks: [`OpenError`] names the file, and its source the line.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        let path = path.as_ref();
        let file = fs::read(path).map_err(|source| OpenError::Read { path: path.into(), source })?;
        Self::from_ranks(&file).map_err(|source| OpenError::Ranks { path: path.into(), source })
    }

    /// Reads ranks from what a file of them holds.
    ///
    /// ```
    /// use kimi_xtml_tokenizer::{LineFault, RanksError, Tokenizer};
    ///
    /// // A line for each byte, then tokens that were learnt, the first of them `ab`.
    /// let file = std::fs::read("tests/tiny.tiktoken")?;
    /// assert_eq!(Tokenizer::from_ranks(&file)?.encode("abc"), [256, 99]);
    ///
    /// let error = Tokenizer::from_ranks(b"IQ== 0\nIg 1").unwrap_err();
    /// assert_eq!(error, RanksError::Line { line: 2, fault: LineFault::Shape });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If a line is not a token in base64, a blank and its rank, if two have the same token or rank, or if a byte has no
    /// token.
    pub fn from_ranks(file: &[u8]) -> Result<Self, RanksError> {
        let ranks = Ranks::read(file)?;
        let splitter = Arc::new(Splitter::new());
        let of_scratches = Arc::clone(&splitter);
        let make: Make = Box::new(move || Scratch { cache: of_scratches.cache(), merger: Merger::default() });
        Ok(Tokenizer { ranks, specials: Specials::new(), splitter, scratches: Pool::new(make) })
    }

    /// The ids of a text. What it spells like control tokens is text.
    ///
    /// ```
    /// # use kimi_xtml_tokenizer::Tokenizer;
    /// let tokenizer = Tokenizer::open("tests/tiny.tiktoken")?;
    /// assert!(tokenizer.encode("<|sep|>").len() > 1);
    /// assert_eq!(tokenizer.encode_control("<|sep|>"), [163_589]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn encode(&self, text: &str) -> Vec<u32> {
        let mut ids = Vec::with_capacity(text.len() / 4);
        self.each_stretch(text, &mut ids, |_| {});
        ids
    }

    /// The ids of a text in which what is spelled like a control token is one. Text from outside does not belong here.
    ///
    /// ```
    /// # use kimi_xtml_tokenizer::Tokenizer;
    /// let tokenizer = Tokenizer::open("tests/tiny.tiktoken")?;
    /// assert_eq!(tokenizer.encode_control("a<|sep|>"), [97, 163_589]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn encode_control(&self, text: &str) -> Vec<u32> {
        let mut ids = Vec::new();
        self.add_control(text, &mut ids);
        ids
    }

    /// The ids of pieces, each encoded by itself.
    ///
    /// ```
    /// use kimi_xtml::{Marker, Piece};
    ///
    /// # use kimi_xtml_tokenizer::Tokenizer;
    /// let tokenizer = Tokenizer::open("tests/tiny.tiktoken")?;
    /// let pieces = [Piece::Text("a".into()), Piece::Text("b".into()), Piece::Marker(Marker::Sep)];
    /// // No token crosses from one piece to the next.
    /// assert_eq!(tokenizer.encode_pieces(&pieces), [97, 98, 163_589]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn encode_pieces<'p>(&self, pieces: impl IntoIterator<Item = &'p Piece<'p>>) -> Vec<u32> {
        let mut ids = Vec::new();
        for piece in pieces {
            self.add_piece(piece, &mut ids);
        }
        ids
    }

    /// The ids of a prompt, and what each of them is for.
    ///
    /// ```
    /// use kimi_xtml::{Conversation, Label, encode};
    ///
    /// # use kimi_xtml_tokenizer::Tokenizer;
    /// let tokenizer = Tokenizer::open("tests/tiny.tiktoken")?;
    /// let conversation = Conversation::from_json(r#"{"messages": [{"role": "user", "content": "Hi"}]}"#)?;
    /// let (ids, labels) = tokenizer.encode_prompt(&encode(&conversation)?);
    /// assert_eq!(ids.len(), labels.len());
    /// assert!(labels.iter().all(|label| *label == Label::Prompt));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn encode_prompt(&self, prompt: &Prompt<'_>) -> (Vec<u32>, Vec<Label>) {
        self.encode_labelled(&prompt.pieces, &prompt.labels)
    }

    /// The ids of pieces, each with the label of its piece.
    pub(crate) fn encode_labelled(&self, pieces: &[Piece<'_>], labels: &[Label]) -> (Vec<u32>, Vec<Label>) {
        let (mut ids, mut of_ids) = (Vec::new(), Vec::new());
        for (piece, &label) in pieces.iter().zip(labels) {
            self.add_piece(piece, &mut ids);
            of_ids.resize(ids.len(), label);
        }
        (ids, of_ids)
    }

    /// How many ids a text has, with room for those of 400,000 characters at most.
    ///
    /// ```
    /// # use kimi_xtml_tokenizer::Tokenizer;
    /// let tokenizer = Tokenizer::open("tests/tiny.tiktoken")?;
    /// assert_eq!(tokenizer.count("abc"), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn count(&self, text: &str) -> usize {
        let mut count = 0;
        self.each_stretch(text, &mut Vec::new(), |ids| {
            count += ids.len();
            ids.clear();
        });
        count
    }

    /// How many ids pieces have.
    ///
    /// ```
    /// use kimi_xtml::{Marker, Piece};
    ///
    /// # use kimi_xtml_tokenizer::Tokenizer;
    /// let tokenizer = Tokenizer::open("tests/tiny.tiktoken")?;
    /// let pieces = [Piece::Text("ab".into()), Piece::Marker(Marker::Sep)];
    /// assert_eq!(tokenizer.count_pieces(&pieces), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn count_pieces<'p>(&self, pieces: impl IntoIterator<Item = &'p Piece<'p>>) -> usize {
        let count = |piece: &Piece<'_>| match piece {
            Piece::Text(text) => self.count(text),
            piece => self.encode_pieces([piece]).len(),
        };
        pieces.into_iter().map(count).sum()
    }

    /// The bytes of ids, those of control tokens as they are spelled. They need not be UTF-8: a generation may stop inside
    /// a character.
    ///
    /// ```
    /// # use kimi_xtml_tokenizer::Tokenizer;
    /// let tokenizer = Tokenizer::open("tests/tiny.tiktoken")?;
    /// assert_eq!(tokenizer.decode(&[256, 99, 163_589])?, b"abc<|sep|>");
    /// assert_eq!(tokenizer.decode(&[97, 600]).unwrap_err().to_string(), "600 is the id of no token");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If an id is that of no token.
    pub fn decode(&self, ids: &[u32]) -> Result<Vec<u8>, UnknownId> {
        let mut bytes = Vec::new();
        for &id in ids {
            bytes.extend_from_slice(self.token(id).ok_or(UnknownId { id })?);
        }
        Ok(bytes)
    }

    /// Decodes ids as they come.
    ///
    /// ```
    /// # use kimi_xtml_tokenizer::Tokenizer;
    /// let tokenizer = Tokenizer::open("tests/tiny.tiktoken")?;
    /// assert_eq!(tokenizer.decoder().push(97)?, "a");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn decoder(&self) -> Decoder<'_> {
        Decoder::new(self)
    }

    /// The text of each id with the id, as [`Parser::push_token`](kimi_xtml::Parser::push_token) takes them. A character of several
    /// tokens is text of the last; what is no UTF-8 becomes U+FFFD.
    ///
    /// ```
    /// # use kimi_xtml_tokenizer::Tokenizer;
    /// let tokenizer = Tokenizer::open("tests/tiny.tiktoken")?;
    /// let texts = tokenizer.texts(&[0xc3, 0xa4, 256])?;
    /// assert_eq!(texts, [("".into(), 0xc3), ("ä".into(), 0xa4), ("ab".into(), 256)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If an id is that of no token.
    pub fn texts(&self, ids: &[u32]) -> Result<Vec<(String, u32)>, UnknownId> {
        let mut texts: Vec<(String, u32)> = Vec::with_capacity(ids.len());
        let mut decoder = self.decoder();
        for &id in ids {
            if self.is_control(id) {
                // The parser knows it by its id, whatever its text is: a character that was cut belongs before it.
                cut(&mut texts, &mut decoder);
            }
            texts.push((decoder.push(id)?.to_owned(), id));
        }
        cut(&mut texts, &mut decoder);
        Ok(texts)
    }

    /// The bytes of a token, of a control token its spelling.
    ///
    /// ```
    /// # use kimi_xtml_tokenizer::Tokenizer;
    /// let tokenizer = Tokenizer::open("tests/tiny.tiktoken")?;
    /// assert_eq!(tokenizer.token(256), Some(&b"ab"[..]));
    /// assert_eq!(tokenizer.token(163_587), Some(&b"<|open|>"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn token(&self, id: u32) -> Option<&[u8]> {
        match self.ranks.token(id) {
            [] => self.specials.spelling(id).map(str::as_bytes),
            token => Some(token),
        }
    }

    /// How many tokens there are, control tokens not counted.
    ///
    /// ```
    /// # use kimi_xtml_tokenizer::Tokenizer;
    /// let tokenizer = Tokenizer::open("tests/tiny.tiktoken")?;
    /// assert!(tokenizer.len() > 256); // a token for each byte, and those that were learnt
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[expect(clippy::len_without_is_empty, reason = "each byte is a token: it never is")]
    pub fn len(&self) -> usize {
        self.ranks.len()
    }

    /// Whether an id is that of a control token.
    ///
    /// ```
    /// # use kimi_xtml_tokenizer::Tokenizer;
    /// let tokenizer = Tokenizer::open("tests/tiny.tiktoken")?;
    /// assert!(tokenizer.is_control(163_589) && !tokenizer.is_control(97));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_control(&self, id: u32) -> bool {
        self.specials.spelling(id).is_some()
    }

    fn add_piece(&self, piece: &Piece<'_>, ids: &mut Vec<u32>) {
        match piece {
            Piece::Marker(marker) => ids.push(marker.id()),
            piece if piece.is_control() => self.add_control(piece.spelling(), ids),
            piece => self.each_stretch(piece.spelling(), ids, |_| {}),
        }
    }

    fn add_control(&self, text: &str, ids: &mut Vec<u32>) {
        let Scratch { cache, merger } = &mut *self.scratches.get();
        for stretch in stretches(text) {
            let mut rest = 0;
            for (found, id) in self.specials.find(stretch) {
                self.add_stretch(&stretch[rest..found.start], cache, merger, ids);
                ids.push(id);
                rest = found.end;
            }
            self.add_stretch(&stretch[rest..], cache, merger, ids);
        }
    }

    /// Adds the ids of each stretch, and lets `after` have all after each.
    fn each_stretch(&self, text: &str, ids: &mut Vec<u32>, mut after: impl FnMut(&mut Vec<u32>)) {
        let Scratch { cache, merger } = &mut *self.scratches.get();
        for stretch in stretches(text) {
            self.add_stretch(stretch, cache, merger, ids);
            after(ids);
        }
    }

    fn add_stretch(&self, stretch: &str, cache: &mut Cache, merger: &mut Merger, ids: &mut Vec<u32>) {
        let mut start = 0;
        while start < stretch.len() {
            let end = self.splitter.piece(cache, stretch, start);
            merger.encode(&self.ranks, &stretch.as_bytes()[start..end], ids);
            start = end;
        }
    }
}

/// What the decoder holds never becomes whole: it is text of the last id.
fn cut(texts: &mut [(String, u32)], decoder: &mut Decoder<'_>) {
    if let Some((text, _)) = texts.last_mut() {
        text.push_str(decoder.finish());
    }
}

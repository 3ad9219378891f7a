//! The reasons for which prompts may differ.
//!
//! In: the kind of a difference, and a peer. Out: what the reference does that this peer does not, or none: no such difference
//! is known. Each kind is a choice of `generate.rs`.

use crate::peers::Peer;

/// Why a prompt of this peer may differ for choices of this kind. Of kinds that act together one is the reason, and the others
/// let it show.
pub(crate) fn reason(kind: &str, peer: Peer) -> Option<&'static str> {
    let known = |kind| REASONS.iter().find(|known| known.kind == kind && known.peers.contains(&peer));
    Some(kind.split(" + ").find_map(known)?.why)
}

struct Reason {
    kind: &'static str,
    peers: &'static [Peer],
    /// What the reference does.
    why: &'static str,
}

const fn both(kind: &'static str, why: &'static str) -> Reason {
    Reason { kind, peers: &Peer::ALL, why }
}

const fn smg(kind: &'static str, why: &'static str) -> Reason {
    Reason { kind, peers: &[Peer::Smg], why }
}

const fn dynamo(kind: &'static str, why: &'static str) -> Reason {
    Reason { kind, peers: &[Peer::Dynamo], why }
}

const NUMBERS: &str = "integers keep all digits, floats are spelled as Python's `repr` does";
const SLICES: &str = "one level of the text is read, and each value keeps its spelling";
const READING: &str = "Python's decoder takes it (`strict=False`), so it is no `json` block";
const SERVER: &str = "what the encoder takes; refusing it is a server's matter";

const REASONS: &[Reason] = &[
    both("Partial Mode", "not in the reference; the hosted API goes on in the message, without an empty think channel"),
    dynamo("a call id that is a number, its result's a string", "ids are compared as text"),
    smg("a message that is no object", "an error"),
    smg("a message without a role", "an error"),
    both("a name that is no string", "written as `str()` does"),
    dynamo("a named tool choice", "no notice, thinking stays as it is"),
    both("a part without `type`, or of text without `text`", "an error"),
    dynamo("a response format that is a word", "its notice"),
    smg("a response format without `schema`", "the object itself, or what `json_schema` in it says"),
    both(
        "a result of no known call",
        "`tool: null` does not fall back to `name`; the call at the result's place names it",
    ),
    both("a role that K3 does not know", "an error; `developer` is a server's to map"),
    both("a schema with numbers as Python spells them otherwise", NUMBERS),
    dynamo("a system message with tools and content", "the content is dropped"),
    dynamo("a system message without content", "an empty message"),
    dynamo("a tool of another type, or of no shape", SERVER),
    dynamo("a tool's name that is odd, or repeats", SERVER),
    both("an object with numbers as Python spells them otherwise", NUMBERS),
    smg("an object with values that hold others", "`json.dumps`: blanks after `,` and `:`"),
    dynamo("another effort", "an error, also if it is no string"),
    smg("arguments of another type", "an error"),
    both("arguments: 150 levels", READING),
    dynamo("arguments: JSON that is no object", "a `json` block"),
    both("arguments: NaN, Infinity, a number beyond doubles", READING),
    both("arguments: a control character in a string", READING),
    both("arguments: a key that repeats", "all pairs are kept"),
    both("arguments: a number that is spelled otherwise", SLICES),
    both("arguments: a value that holds others", SLICES),
    both("arguments: an integer beyond 64 bits", SLICES),
    both("arguments: blanks only", "a `json` block: only `\"\"` is empty"),
    both("arguments: half a surrogate pair", READING),
    both("arguments: text after the object", "dropped"),
    both("content, a part or its text of another type", "an error"),
    both("effort null", "no notice"),
    both("half a surrogate pair", "encoded as U+FFFD; serde_json refuses the body"),
    both("reasoning null", "none"),
    smg("reasoning of blanks only", "rendered: only `\"\"` is empty"),
    both("texts for images", "the texts that the caller gives; an error if there are more or fewer than images"),
    both("tools 150 levels deep", "no limit of depth; serde_json has one"),
    dynamo("tools of a user message", "ignored"),
    both("tools with numbers as Python spells them otherwise", NUMBERS),
];

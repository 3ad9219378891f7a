//! The encoders, each driven as its own server drives it.
//!
//! In: the body of a request. Out: a prompt, as the pieces and ids that the encoder gives, or its error. A body is read by
//! serde_json for the peers: they take values of it. Held: the tokenizers, in a folder as they stand beside a model's weights.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, anyhow, bail};
use dynamo_renderer::dynamo_tokenizers::{create_tokenizer_from_file, traits::Tokenizer as DynamoTokenizer};
use dynamo_renderer::kimi_k3::KimiK3Formatter;
use dynamo_renderer::{OAIChatLikeRequest, OAIPromptFormatter, RenderedPrompt};
use kimi_xtml::{Conversation, encode};
use kimi_xtml_tokenizer::Tokenizer;
use llm_tokenizer::chat_template::ChatTemplateParams;
use llm_tokenizer::{PromptEncoding, TiktokenTokenizer, TokenizerTrait};
use serde_json::{Value, json};
use tempfile::TempDir;

/// What an encoder makes of a conversation.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Prompt {
    /// The text.
    pub(crate) text: String,
    /// The texts of the pieces, and whether they are control tokens; none where the encoder does not tell.
    pub(crate) pieces: Option<Vec<(String, bool)>>,
    pub(crate) ids: Vec<u32>,
    /// How many ids at the end are not billed.
    pub(crate) unbilled: usize,
}

/// A peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    Smg,
    Dynamo,
}

impl Peer {
    pub(crate) const ALL: [Peer; 2] = [Peer::Smg, Peer::Dynamo];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Peer::Smg => "llm-tokenizer 1.10.0",
            Peer::Dynamo => "dynamo-renderer 10.0.0",
        }
    }
}

/// All encoders, with the same ranks.
pub(crate) struct Encoders {
    pub(crate) ours: Tokenizer,
    pub(crate) smg: TiktokenTokenizer,
    pub(crate) dynamo: Arc<dyn DynamoTokenizer>,
    _folder: TempDir,
}

impl Encoders {
    /// Opens a file of ranks, of which a copy gets the configuration that stands beside it in the model's repository.
    pub(crate) fn open(ranks: &Path) -> anyhow::Result<Self> {
        let ours = Tokenizer::open(ranks)?;
        let folder = tempfile::tempdir()?;
        let copy: PathBuf = folder.path().join("tiktoken.model");
        std::fs::copy(ranks, &copy)?;
        let specials: serde_json::Map<String, Value> = (163_584..163_840)
            .map(|id| {
                let content = String::from_utf8(ours.decode(&[id])?)?;
                Ok((id.to_string(), json!({"content": content, "special": true})))
            })
            .collect::<anyhow::Result<_>>()?;
        let model = json!({"architectures": ["KimiK3ForConditionalGeneration"], "model_type": "kimi_k3"});
        std::fs::write(folder.path().join("config.json"), model.to_string())?;
        let tokens = json!({"added_tokens_decoder": specials});
        std::fs::write(folder.path().join("tokenizer_config.json"), tokens.to_string())?;
        let smg = TiktokenTokenizer::from_dir(folder.path())?;
        let dynamo = create_tokenizer_from_file(copy.to_str().context("the folder's path is no text")?)?;
        Ok(Encoders { ours, smg, dynamo, _folder: folder })
    }

    pub(crate) fn ours(&self, body: &str) -> anyhow::Result<Prompt> {
        let conversation = Conversation::from_json(body)?;
        let prompt = encode(&conversation)?;
        let pieces = prompt.pieces.iter().map(|piece| (piece.spelling().to_owned(), piece.is_control())).collect();
        let ids = self.ours.encode_pieces(&prompt.pieces);
        Ok(Prompt { text: prompt.text(), pieces: Some(pieces), ids, unbilled: prompt.unbilled })
    }

    pub(crate) fn peer(&self, peer: Peer, body: &str) -> anyhow::Result<Prompt> {
        let request = Request::read(body)?;
        match peer {
            Peer::Smg => {
                let output = self.smg.apply_chat_template_with_encoding(&request.messages, request.smg(), None)?;
                let PromptEncoding::Deferred(job) = output.encoding else { bail!("the text is encoded as a whole") };
                let ids = job.run()?.token_ids().to_vec();
                Ok(Prompt { text: output.text, pieces: None, ids, unbilled: output.unbilled_prompt_tokens as usize })
            }
            Peer::Dynamo => {
                let prompt = request.dynamo()?;
                let segments = prompt.encode_segments().context("no segments")?;
                let ids = self.dynamo.encode_segments(&segments)?.token_ids().to_vec();
                let stub = prompt.pending_encode_segments().context("no segments")?;
                let unbilled = self.dynamo.encode_segments(&stub)?.token_ids().len();
                let pieces = prompt.segments().context("no segments")?;
                let pieces = pieces.iter().map(|piece| (piece.text.clone(), piece.allow_special)).collect();
                Ok(Prompt { text: prompt.as_str().to_owned(), pieces: Some(pieces), ids, unbilled })
            }
        }
    }
}

/// What the peers take of a body.
pub(crate) struct Request {
    messages: Vec<Value>,
    tools: Option<Value>,
    generation: bool,
    /// The members that their servers pass on by name.
    named: HashMap<String, Value>,
}

impl Request {
    pub(crate) fn read(body: &str) -> anyhow::Result<Self> {
        let body: Value = serde_json::from_str(body)?;
        let messages = body["messages"].as_array().ok_or_else(|| anyhow!("messages are no list"))?.clone();
        let names = ["thinking", "thinking_effort", "tool_choice", "response_format"];
        let named = names.iter().filter_map(|&name| Some((name.to_owned(), body.get(name)?.clone()))).collect();
        let generation = body.get("add_generation_prompt").and_then(Value::as_bool).unwrap_or(true);
        Ok(Request { messages, tools: body.get("tools").filter(|tools| !tools.is_null()).cloned(), generation, named })
    }

    fn smg(&self) -> ChatTemplateParams<'_> {
        ChatTemplateParams {
            add_generation_prompt: self.generation,
            tools: self.tools.as_ref().and_then(Value::as_array).map(Vec::as_slice),
            template_kwargs: Some(&self.named),
            ..ChatTemplateParams::default()
        }
    }

    pub(crate) fn smg_text(&self, smg: &TiktokenTokenizer) -> anyhow::Result<String> {
        smg.apply_chat_template(&self.messages, self.smg())
    }

    pub(crate) fn smg_output(&self, smg: &TiktokenTokenizer) -> anyhow::Result<llm_tokenizer::ChatTemplateOutput> {
        smg.apply_chat_template_with_encoding(&self.messages, self.smg(), None)
    }

    pub(crate) fn dynamo(&self) -> anyhow::Result<RenderedPrompt> {
        KimiK3Formatter::new(false).render_prompt(self)
    }
}

/// A value of a template.
type Shown = minijinja::Value;

impl OAIChatLikeRequest for Request {
    fn model(&self) -> String {
        "kimi-k3".to_owned()
    }

    fn messages(&self) -> Shown {
        Shown::from_serialize(&self.messages)
    }

    /// As they were sent: typed messages would drop what they have no member for.
    fn template_messages_json_override(&self) -> Option<Value> {
        Some(Value::Array(self.messages.clone()))
    }

    fn tools(&self) -> Option<Shown> {
        self.tools.as_ref().map(Shown::from_serialize)
    }

    fn tool_choice(&self) -> Option<Shown> {
        self.named.get("tool_choice").map(Shown::from_serialize)
    }

    fn response_format(&self) -> Option<Shown> {
        self.named.get("response_format").map(Shown::from_serialize)
    }

    fn should_add_generation_prompt(&self) -> bool {
        self.generation
    }

    fn chat_template_args(&self) -> Option<&HashMap<String, Value>> {
        Some(&self.named)
    }
}

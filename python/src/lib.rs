//! Python bindings: the module `kimi_xtml._kimi_xtml`.
//!
//! In: what Python passes. Out: Python objects. Each parser is one of the library's behind a lock that is never
//! waited for: whoever finds it taken gets a `StateError`.

mod batch;
mod chat;
mod empty;
mod encode;
mod event;
mod input;
mod parser;
mod report;
mod request;
mod tokenizer;

#[pyo3::pymodule(gil_used = false)]
mod _kimi_xtml {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::batch::{Batch, parse_batch};
    #[pymodule_export]
    use crate::chat::{ChatStream, render, render_pieces};
    #[pymodule_export]
    use crate::empty::Empty;
    #[pymodule_export]
    use crate::encode::{EncodeError, Prompt, encode};
    #[pymodule_export]
    use crate::event::{
        ArgumentEnd, ArgumentStart, Arguments, CallEnd, CallStart, Content, Diagnostic, Dropped, End, Markup,
        Reasoning, Start, Withheld,
    };
    #[pymodule_export]
    use crate::parser::{Parser, StateError, parse, parse_tokens};
    #[pymodule_export]
    use crate::request::opened_channel;
    #[pymodule_export]
    use crate::tokenizer::{BridgeError, Tokenizer, Turn, labels};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        let labels = kimi_xtml::Label::ALL.map(kimi_xtml::Label::name);
        module.add("LABELS", pyo3::types::PyTuple::new(module.py(), labels)?)?;
        let codes = kimi_xtml::Code::ALL.iter().map(|code| code.as_str());
        module.add("CODES", pyo3::types::PyTuple::new(module.py(), codes.collect::<Vec<_>>())?)
    }
}

//! Results of tools -> their order, and the names of the tools that gave them.
//!
//! In: the messages, one run of tool messages after the other. Out: each message of the run with its tool and its place.
//! Held: the ids of the calls that the results belong to, and how many results there were.

use std::collections::HashMap;

use super::conversation::{PromptCall, PromptMessage};
use super::error::{EncodeError, Fault, Place};

/// The calls of the last assistant message, and how many results came since.
#[derive(Debug, Default)]
pub(crate) struct Results<'a> {
    calls: &'a [PromptCall<'a>],
    places: HashMap<&'a str, usize>,
    count: usize,
}

/// A tool message in its place.
#[derive(Debug)]
pub(crate) struct Placed<'a> {
    /// The message's number.
    pub(crate) message: usize,
    /// The tool's name.
    pub(crate) tool: &'a str,
    /// The place among the results, from 1 on.
    pub(crate) index: usize,
}

impl<'a> Results<'a> {
    /// What follows an assistant message with these calls.
    pub(crate) fn of(calls: &'a [PromptCall<'a>]) -> Self {
        let ids = calls.iter().enumerate().filter_map(|(place, call)| Some((call.id.as_deref()?, place)));
        // Of equal ids the first counts.
        Results { calls, places: ids.rev().collect(), count: 0 }
    }

    /// Orders a run, which begins with the message of this number: by the calls, if each of the run answers one.
    pub(crate) fn order(&mut self, run: &'a [PromptMessage<'a>], first: usize) -> Result<Vec<Placed<'a>>, EncodeError> {
        let place = |message: &PromptMessage<'_>| self.places.get(&**message.tool_call_id.as_ref()?).copied();
        let calls: Option<Vec<usize>> = run.iter().map(place).collect();
        let mut order: Vec<usize> = (0..run.len()).collect();
        if let Some(calls) = &calls {
            order.sort_by_key(|&at| calls[at]);
        }
        let placed = order.into_iter().map(|at| {
            self.count += 1;
            let of_call = |place: usize| self.calls.get(place).map(|call| &*call.name);
            let tool = match &calls {
                Some(calls) => of_call(calls[at]),
                None => run[at].name.as_deref().or_else(|| of_call(self.count - 1)),
            };
            let message = first + at;
            let tool = tool.ok_or_else(|| Place::message(message, "").is(Fault::NameOfTool))?;
            Ok(Placed { message, tool, index: self.count })
        });
        placed.collect()
    }
}

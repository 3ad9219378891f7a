//! GSM8K as it is scored: strict match on the replies as delivered.
//!
//! In: what each parser made of replies whose answer is known. Out: for each setting and parser, how many replies have the
//! right answer line, and how many have none.

use kimi_xtml_cli::record::gsm8k::answer;
use serde::Serialize;

use crate::run::Judged;
use crate::stream::Stream;

/// A setting of the headline.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Setting {
    /// Settings of one group stand together.
    pub(crate) group: String,
    pub(crate) name: String,
    pub(crate) items: usize,
    /// In the order in which the parsers run.
    pub(crate) scores: Vec<Score>,
}

/// The replies of one parser under one setting.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Score {
    /// The answer line is the one that was said.
    pub(crate) matched: usize,
    /// There was an answer line, and none arrived.
    pub(crate) without: usize,
}

impl Setting {
    pub(crate) fn of(group: &str, name: &str, streams: &[Stream], judged: &[Vec<Judged>]) -> Setting {
        let said: Vec<Option<&str>> = streams.iter().map(|stream| answer(&stream.accepted.first()?.content)).collect();
        let score = |judged: &Vec<Judged>| {
            let mut score = Score::default();
            for (said, judged) in said.iter().zip(judged) {
                let got = answer(&judged.outcome.content);
                // Of recorded replies a few have no answer line themselves.
                score.without += usize::from(got.is_none() && said.is_some());
                score.matched += usize::from(got == *said);
            }
            score
        };
        Setting {
            group: group.into(),
            name: name.into(),
            items: streams.len(),
            scores: judged.iter().map(score).collect(),
        }
    }

    pub(crate) fn strict(&self, peer: usize) -> f64 {
        self.scores[peer].matched as f64 / self.items.max(1) as f64
    }
}

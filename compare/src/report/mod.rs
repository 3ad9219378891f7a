//! The results, for people and for programs.
//!
//! In: tables, settings, and which parsers ran. Out: a summary for the terminal, JSON, one page of HTML, and what regressed.

mod align;
mod html;
mod markdown;
mod terminal;

use serde_json::{Value, json};

use crate::classify::Class;
use crate::headline::Setting;
use crate::peers::Listed;
use crate::run::{Rule, Table, Tally};
use crate::tolerate::Ratchet;

pub(crate) use markdown::between;

/// All that came of a run.
pub(crate) struct Report {
    pub(crate) run: &'static str,
    /// The parsers that ran, in their order.
    pub(crate) listed: Vec<Listed>,
    /// Those that did not, and why.
    pub(crate) absent: Vec<(Listed, String)>,
    pub(crate) tables: Vec<Table>,
    pub(crate) settings: Vec<Setting>,
}

impl Report {
    /// Where ours got worse than the ratchet allows.
    pub(crate) fn regressions(&self, ratchet: Option<&Ratchet>) -> Vec<String> {
        let mut regressions = Vec::new();
        for (number, listed) in self.listed.iter().enumerate().filter(|(_, listed)| listed.ours) {
            let tallies = || self.tables.iter().map(|table| &table.tallies[number]);
            let differing: usize = tallies().map(|tally| tally.differing).sum();
            let streams: usize = tallies().map(|tally| tally.streams).sum();
            let late = tallies().filter_map(|tally| Some(tally.late_bytes()?.0)).max().unwrap_or(0);
            let mut at_most = |what: &str, got: usize, allowed: usize| {
                if got > allowed {
                    regressions.push(format!("{}: {what} {got}, at most {allowed}", listed.name));
                } else if got < allowed {
                    println!("{}: {what} {got}, better than the ratchet's {allowed}", listed.name);
                }
            };
            at_most("streams that differ", differing, ratchet.map_or(0, |ratchet| ratchet.differing));
            if let Some(ratchet) = ratchet {
                at_most("bytes of a call before its first argument bytes (median)", late, ratchet.late_bytes);
                if streams < ratchet.streams {
                    regressions.push(format!("{}: {streams} streams, at least {}", listed.name, ratchet.streams));
                }
            }
            for setting in self.settings.iter().filter(|setting| setting.strict(number) < 1.0) {
                let (group, name, score) = (&setting.group, &setting.name, setting.scores[number].matched);
                regressions
                    .push(format!("{}: {group}, {name}: strict match {score} of {}", listed.name, setting.items));
            }
        }
        regressions
    }

    /// A parser's tallies of all tables, added up.
    fn total(&self, number: usize) -> Tally {
        let mut total = Tally::default();
        for tally in self.tables.iter().map(|table| &table.tallies[number]) {
            total.streams += tally.streams;
            total.skipped += tally.skipped;
            total.differing += tally.differing;
            total.time += tally.time;
            total.late.extend(&tally.late);
            total.late_streams += tally.late_streams;
            for (class, count) in &tally.classes {
                *total.classes.entry(*class).or_default() += count;
            }
            for (key, rule) in &tally.rules {
                let sum = total.rules.entry(*key).or_default();
                sum.streams += rule.streams;
                sum.tolerated.clone_from(&rule.tolerated);
                if sum.detail.is_empty() || !rule.examples.is_empty() && sum.examples.is_empty() {
                    sum.detail.clone_from(&rule.detail);
                }
                sum.examples.extend(rule.examples.iter().cloned());
            }
        }
        for rule in total.rules.values_mut() {
            rule.examples.sort_by_key(|example| example.stream.chunks.iter().map(String::len).sum::<usize>());
            rule.examples.dedup_by_key(|example| example.stream.text());
            rule.examples.truncate(2);
        }
        total
    }

    /// The results as JSON.
    pub(crate) fn json(&self) -> serde_json::Result<String> {
        let count = |tally: &Tally, class| json!(tally.classes.get(&class).unwrap_or(&0));
        let classes = |tally: &Tally| -> serde_json::Map<String, Value> {
            Class::ALL.into_iter().map(|class| (class.name().to_owned(), count(tally, class))).collect()
        };
        let example = |example: &crate::run::Example| {
            json!({
                "id": example.stream.id, "kind": example.stream.kind, "chunks": example.stream.chunks,
                "opened": example.stream.opened.map_or("none", kimi_xtml::Channel::name), "tools": example.stream.tools,
                "accepted": example.stream.accepted, "said": example.heard.said, "error": example.heard.error,
                "differences": example.differences,
            })
        };
        let rule = |(key, rule): (&(Class, &str), &Rule)| {
            json!({
                "class": key.0, "rule": key.1, "streams": rule.streams, "tolerated": rule.tolerated,
                "detail": rule.detail, "examples": rule.examples.iter().map(example).collect::<Value>(),
            })
        };
        let tally = |(listed, tally): (&Listed, &Tally)| {
            json!({
                "peer": listed.name, "streams": tally.streams, "not_played": tally.skipped, "differing": tally.differing,
                "classes": classes(tally), "rules": tally.rules.iter().map(rule).collect::<Value>(),
                "late_arguments": tally.late_streams,
                "bytes_before_arguments": tally.late_bytes().map(|(median, most)| json!({"median": median, "max": most})),
                "seconds": tally.time.as_secs_f64(),
            })
        };
        let table = |table: &Table| {
            json!({
                "name": table.name, "about": table.about, "items": table.items,
                "peers": self.listed.iter().zip(&table.tallies).map(tally).collect::<Value>(),
            })
        };
        let peers = self.listed.iter().map(
            |listed| json!({"name": listed.name, "packages": listed.crates, "version": listed.version, "run": true}),
        );
        let absent = self
            .absent
            .iter()
            .map(|(listed, why)| json!({"name": listed.name, "version": listed.version, "run": false, "why": why}));
        let results = json!({
            "run": self.run,
            "date": today(),
            "peers": peers.chain(absent).collect::<Value>(),
            "tables": self.tables.iter().map(table).collect::<Value>(),
            "strict_match": self.settings,
        });
        serde_json::to_string(&results)
    }
}

/// Today's date, as the system knows it.
pub(crate) fn today() -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    // Days since 0000-03-01, in eras of 400 years.
    let days = (now.as_secs() / 86_400) as i64 + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    format!("{:04}-{month:02}-{day:02}", year + era * 400 + carry)
}

/// A share for a table: 1 only if it is whole.
fn share(part: usize, whole: usize) -> String {
    match part as f64 / whole.max(1) as f64 {
        1.0 => "1".into(),
        0.0 => "0".into(),
        share => format!("{:.3}", share.min(0.999)).trim_start_matches('0').into(),
    }
}

/// A number with its thousands apart.
pub(crate) fn thousands(number: usize) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

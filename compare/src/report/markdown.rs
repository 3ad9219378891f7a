//! The results as the tables of COMPARE.md.
//!
//! In: a report, and the page. Out: the page with its tables between the two marks written anew.

use std::fmt::Write;

use anyhow::Context;

use crate::classify::Class;
use crate::report::{Report, share, thousands, today};
use crate::run::Tally;

const BEGIN: &str = "<!-- results -->\n";
const END: &str = "<!-- end of results -->";

/// The page with this between its marks.
pub(crate) fn between(page: &str, results: &str) -> anyhow::Result<String> {
    let (before, rest) = page.split_once(BEGIN).context("the page has no <!-- results -->")?;
    let (_, after) = rest.split_once(END).context("the page has no <!-- end of results -->")?;
    Ok(format!("{before}{BEGIN}{results}{END}{after}"))
}

impl Report {
    /// The page with these results.
    pub(crate) fn markdown(&self, page: &str) -> anyhow::Result<String> {
        let mut tables = format!("Run `{}` of {}.", self.run, today());
        if !self.absent.is_empty() {
            let absent: Vec<_> =
                self.absent.iter().map(|(listed, why)| format!("{} ({why})", listed.title())).collect();
            let _ = write!(tables, " Not run: {}.", absent.join(", "));
        }
        tables.push_str("\n\n");
        self.strict_table(&mut tables);
        let total: Vec<Tally> = (0..self.listed.len()).map(|number| self.total(number)).collect();
        self.class_table(&mut tables, "All sets", "", &total);
        for table in &self.tables {
            let about = format!("{} messages: {}.", thousands(table.items), table.about);
            self.class_table(&mut tables, &table.name, &about, &table.tallies);
        }
        between(page, &tables)
    }

    fn strict_table(&self, out: &mut String) {
        let mut groups: Vec<&str> = Vec::new();
        for setting in &self.settings {
            if !groups.contains(&&*setting.group) {
                groups.push(&setting.group);
            }
        }
        let Some(first) = self.settings.first() else { return };
        let _ = write!(
            out,
            "### GSM8K strict match\nThe lowest of a group's settings ({} replies each); in brackets the most replies that arrived \
             without an answer line.\n\n| setting |",
            thousands(first.items)
        );
        self.listed.iter().for_each(|listed| out.push_str(&format!(" {} |", listed.title())));
        out.push_str("\n|---|");
        self.listed.iter().for_each(|_| out.push_str("---:|"));
        out.push('\n');
        for group in groups {
            let settings: Vec<_> = self.settings.iter().filter(|setting| setting.group == group).collect();
            let _ = write!(out, "| {group} |");
            for number in 0..self.listed.len() {
                let worst = settings.iter().min_by(|a, b| a.strict(number).total_cmp(&b.strict(number)));
                let without = settings.iter().map(|setting| setting.scores[number].without).max().unwrap_or(0);
                let score = worst.map_or("-".into(), |worst| share(worst.scores[number].matched, worst.items));
                let _ = if without == 0 { write!(out, " {score} |") } else { write!(out, " {score} ({without}) |") };
            }
            out.push('\n');
        }
        out.push('\n');
    }

    fn class_table(&self, out: &mut String, name: &str, about: &str, tallies: &[Tally]) {
        let _ = write!(
            out,
            "### {}{}\n{about}\n\n| parser | streams (not played) | differ |",
            name[..1].to_uppercase(),
            &name[1..]
        );
        Class::ALL.iter().for_each(|class| out.push_str(&format!(" {class} |")));
        out.push_str(" late arguments | bytes before arguments |\n|---|---:|---:|");
        Class::ALL.iter().for_each(|_| out.push_str("---:|"));
        out.push_str("---:|---:|\n");
        for (listed, tally) in self.listed.iter().zip(tallies) {
            let streams = match tally.skipped {
                0 => thousands(tally.streams),
                skipped => format!("{} ({})", thousands(tally.streams), thousands(skipped)),
            };
            let _ = write!(out, "| {} | {streams} | {} |", listed.title(), thousands(tally.differing));
            for class in Class::ALL {
                let _ = write!(out, " {} |", thousands(tally.classes.get(&class).copied().unwrap_or(0)));
            }
            let late =
                tally.late_bytes().map_or("-".into(), |(median, most)| format!("{median} / {}", thousands(most)));
            let _ = writeln!(out, " {} | {late} |", thousands(tally.late_streams));
        }
        out.push('\n');
    }
}

//! The summary for a terminal: for each set a table of parsers and classes; then the strict matches.

use crate::classify::Class;
use crate::report::{Report, share};

impl Report {
    /// Prints the summary.
    pub(crate) fn print(&self) {
        let width = self.listed.iter().map(|listed| listed.title().len()).max().unwrap_or(0);
        for table in &self.tables {
            println!("\n{}: {} items; {}", table.name, table.items, table.about);
            print!("{:width$}  {:>8} {:>8}", "", "streams", "differ");
            for class in Class::ALL {
                print!(" {:>9}", abbreviated(class));
            }
            println!(" {:>9}  {:>14} {:>7}", "late", "args after B", "time");
            for (listed, tally) in self.listed.iter().zip(&table.tallies) {
                print!("{:width$}  {:>8} {:>8}", listed.title(), tally.streams, tally.differing);
                for class in Class::ALL {
                    let count = tally.classes.get(&class).copied().unwrap_or(0);
                    print!(" {:>9}", if count == 0 { "·".into() } else { count.to_string() });
                }
                let late = tally.late_bytes().map_or("-".into(), |(median, most)| format!("{median}/{most}"));
                println!(" {:>9}  {late:>14} {:>6.1}s", tally.late_streams, tally.time.as_secs_f64());
            }
        }
        let mut group = "";
        for setting in &self.settings {
            if setting.group != group {
                group = &setting.group;
                println!("\nstrict match, {} items: {group}", setting.items);
                let settings = self.settings.iter().filter(|other| other.group == *group);
                print!("{:width$} ", "");
                settings.clone().for_each(|setting| print!(" {:>11}", setting.name));
                println!();
                for (number, listed) in self.listed.iter().enumerate() {
                    print!("{:width$} ", listed.title());
                    settings
                        .clone()
                        .for_each(|setting| print!(" {:>11}", share(setting.scores[number].matched, setting.items)));
                    println!();
                }
            }
        }
        println!();
        for (listed, why) in &self.absent {
            println!("not run: {}: {why}", listed.title());
        }
        for (number, listed) in self.listed.iter().enumerate() {
            let total = self.total(number);
            println!("\n{}: {} of {} streams differ", listed.title(), total.differing, total.streams);
            let mut rules: Vec<_> = total.rules.iter().collect();
            rules.sort_by_key(|((class, _), rule)| (rule.tolerated.is_some(), *class, usize::MAX - rule.streams));
            for ((class, name), rule) in rules {
                let note = if rule.tolerated.is_some() { " (tolerated)" } else { "" };
                println!("  {:>8}  {class}: {name}{note}  {}", rule.streams, rule.detail);
            }
        }
    }
}

fn abbreviated(class: Class) -> &'static str {
    match class {
        Class::Error => "error",
        Class::LostText => "lost",
        Class::MovedText => "moved",
        Class::LeakedMarkup => "leaked",
        Class::LostCall => "lostcall",
        Class::ForgedCall => "forged",
        Class::ChangedValue => "changed",
        Class::ChunkDependent => "chunk-dep",
        Class::Policy => "policy",
    }
}

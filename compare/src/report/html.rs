//! The results as one page that needs nothing else: tables, charts, and each difference drawn.
//!
//! In: a report. Out: HTML. Streams are drawn as spans, this project's reading over the other parser's, with the cuts
//! between the deltas. Only streams of sets that are this project's own are drawn.

use std::fmt::Write;

use kimi_xtml_cli::view;

use crate::classify::Class;
use crate::headline::Setting;
use crate::report::align::{Fate, ours, theirs};
use crate::report::{Report, share, thousands, today};
use crate::run::{Example, Rule, Tally};
use crate::stream::Layout;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

impl Report {
    /// The page.
    pub(crate) fn html(&self) -> String {
        let mut page = String::new();
        let _ = write!(
            page,
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
             <title>Kimi K3 parsers, side by side</title>\n<style>\n{}{STYLE}</style></head>\n<body>\n",
            view::CSS
        );
        self.head(&mut page);
        self.headline(&mut page);
        self.classes(&mut page);
        self.differences(&mut page);
        let _ = write!(page, "<script>\n{SCRIPT}</script>\n</body></html>\n");
        page
    }

    fn head(&self, page: &mut String) {
        let streams: usize = self.tables.iter().filter_map(|table| Some(table.tallies.first()?.streams)).sum();
        let items: usize = self.tables.iter().map(|table| table.items).sum();
        let own: usize = (0..self.listed.len())
            .filter(|&number| self.listed[number].ours)
            .map(|number| self.total(number).differing)
            .sum();
        let _ = write!(
            page,
            "<header><h1>Kimi K3 parsers, side by side</h1>\
             <p class=\"lead\">The same recorded streams through every public parser of Kimi K3's output. What was said is \
             known, so what is lost, leaked, forged or changed is counted, and shown.</p>\
             <div class=\"cards\"><div><b>{}</b>streams a parser</div><div><b>{}</b>messages</div>\
             <div><b>{}</b>parsers and set-ups</div><div class=\"{}\"><b>{own}</b>streams that kimi-xtml gets wrong</div></div>",
            thousands(streams),
            thousands(items),
            self.listed.len(),
            if own == 0 { "good" } else { "bad" },
        );
        let _ = write!(page, "<p class=\"note\">{} · run <code>{}</code> · ", today(), self.run);
        let titles: Vec<String> = self
            .listed
            .iter()
            .map(|listed| format!("<span title=\"{}\">{}</span>", escape(&listed.about), escape(&listed.title())))
            .collect();
        let _ = write!(page, "{}", titles.join(", "));
        if !self.absent.is_empty() {
            let absent: Vec<String> = self
                .absent
                .iter()
                .map(|(listed, why)| format!("<span title=\"{}\">{}</span>", escape(why), escape(&listed.title())))
                .collect();
            let _ = write!(page, " · <b class=\"warn\">not run:</b> {}", absent.join(", "));
        }
        page.push_str("</p></header>\n");
    }

    fn headline(&self, page: &mut String) {
        if self.settings.is_empty() {
            return;
        }
        page.push_str(
            "<section><h2>GSM8K strict match, as delivered</h2><p>Each reply ends with its answer line. A cell is the share of \
             replies whose delivered answer has that line, with the right number; the small number below counts replies that \
             arrived <em>without</em> an answer line. Columns are tokens a delta, or what provokes.</p>\n",
        );
        self.strip(page);
        let mut groups: Vec<&str> = Vec::new();
        for setting in &self.settings {
            if !groups.contains(&&*setting.group) {
                groups.push(&setting.group);
            }
        }
        page.push_str("<div class=\"heats\">");
        for group in groups {
            let settings: Vec<&Setting> = self.settings.iter().filter(|setting| setting.group == group).collect();
            let _ = write!(
                page,
                "<div class=\"scroll\"><table class=\"heat\"><caption>{} <small>{} items a cell</small></caption><tr><th></th>",
                escape(group),
                thousands(settings[0].items)
            );
            for setting in &settings {
                let _ = write!(page, "<th>{}</th>", escape(&setting.name));
            }
            page.push_str("</tr>");
            for (number, listed) in self.listed.iter().enumerate() {
                let class = if listed.ours { " class=\"ours\"" } else { "" };
                let _ =
                    write!(page, "<tr{class}><th title=\"{}\">{}</th>", escape(&listed.about), escape(&listed.title()));
                for setting in &settings {
                    let score = setting.scores[number];
                    let without =
                        if score.without == 0 { String::new() } else { format!("<small>{}</small>", score.without) };
                    let _ = write!(
                        page,
                        "<td style=\"background:{}\" title=\"{} of {} match, {} without an answer line\">{}{without}</td>",
                        colour(setting.strict(number)),
                        score.matched,
                        setting.items,
                        score.without,
                        share(score.matched, setting.items),
                    );
                }
                page.push_str("</tr>");
            }
            page.push_str("</table></div>");
        }
        page.push_str("</div></section>\n");
    }

    /// A chart: for each parser a line from 0 to 1, and a dot for each setting.
    fn strip(&self, page: &mut String) {
        const LEFT: f64 = 190.0;
        const WIDTH: f64 = 700.0;
        const ROW: f64 = 34.0;
        let height = ROW * self.listed.len() as f64 + 46.0;
        let _ = write!(
            page,
            "<figure class=\"dots\"><svg viewBox=\"0 0 {} {height}\" role=\"group\" aria-label=\"Strict match by parser and setting\">",
            LEFT + WIDTH + 120.0
        );
        for tick in 0..=5 {
            let (x, value) = (LEFT + WIDTH * f64::from(tick) / 5.0, f64::from(tick) / 5.0);
            let _ = write!(
                page,
                "<line class=\"grid\" x1=\"{x}\" x2=\"{x}\" y1=\"14\" y2=\"{}\"/><text class=\"tick\" x=\"{x}\" y=\"{}\">{value}</text>",
                height - 30.0,
                height - 12.0
            );
        }
        for (number, listed) in self.listed.iter().enumerate() {
            let y = 30.0 + ROW * number as f64;
            let class = if listed.ours { "name ours" } else { "name" };
            let _ = write!(
                page,
                "<text class=\"{class}\" x=\"{}\" y=\"{}\">{}</text>",
                LEFT - 14.0,
                y + 5.0,
                escape(&listed.title())
            );
            let _ = write!(page, "<line class=\"base\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{y}\" y2=\"{y}\"/>", LEFT + WIDTH);
            for (at, setting) in self.settings.iter().enumerate() {
                let strict = setting.strict(number);
                // Dots of one value do not hide each other.
                let shift = ((at * 7) % 15) as f64 - 7.0;
                let kind = kind(&setting.group);
                let name = format!(
                    "{}, {}, {}: {}",
                    escape(&listed.title()),
                    escape(&setting.group),
                    escape(&setting.name),
                    share(setting.scores[number].matched, setting.items),
                );
                let _ = write!(
                    page,
                    "<a tabindex=\"0\" role=\"img\" aria-label=\"{name}\"><circle class=\"{kind}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"4\"><title>{name}</title></circle></a>",
                    LEFT + WIDTH * strict,
                    y + shift,
                );
            }
            let worst = self.settings.iter().map(|setting| setting.strict(number)).fold(1.0, f64::min);
            let class = if worst < 1.0 { "worst bad" } else { "worst good" };
            let _ = write!(
                page,
                "<text class=\"{class}\" x=\"{}\" y=\"{}\">{}</text>",
                LEFT + WIDTH + 16.0,
                y + 5.0,
                if worst < 1.0 { format!("worst {worst:.3}") } else { "all 1.0".into() }
            );
        }
        page.push_str("</svg><figcaption><span class=\"key plain\">whole replies</span><span class=\"key provoking\">provoking replies</span><span class=\"key cut\">replies that a limit cuts after the answer</span> — a dot a setting <output></output></figcaption></figure>\n");
    }

    fn classes(&self, page: &mut String) {
        page.push_str("<section><h2>What goes wrong</h2><p>Streams with at least one difference of the class; tolerated differences apart. <i>Bytes before arguments</i>: how much of a call had come in when its first argument bytes went out, median and most.</p>\n<div class=\"tabs\" hidden>");
        let total: Vec<Tally> = (0..self.listed.len()).map(|number| self.total(number)).collect();
        let mut tabs = vec![("all sets".to_owned(), "every set below, added up".to_owned(), total)];
        tabs.extend(self.tables.iter().map(|table| (table.name.clone(), table.about.clone(), table.tallies.clone())));
        for (number, (name, ..)) in tabs.iter().enumerate() {
            let pressed = number == 0;
            let _ = write!(page, "<button data-tab=\"{number}\" aria-pressed=\"{pressed}\">{}</button>", escape(name));
        }
        page.push_str("</div>");
        for (number, (name, about, tallies)) in tabs.iter().enumerate() {
            let _ = write!(
                page,
                "<div class=\"tab scroll\" data-tab=\"{number}\"><p class=\"note\">{}</p><table class=\"classes\"><caption>{}</caption><tr><th></th><th>streams</th>",
                escape(about),
                escape(name)
            );
            for class in Class::ALL {
                let _ = write!(
                    page,
                    "<th title=\"{}\"><span class=\"dot {}\"></span>{class}</th>",
                    class.meaning(),
                    css(class)
                );
            }
            page.push_str("<th>late arguments</th><th>bytes before arguments</th></tr>");
            for (listed, tally) in self.listed.iter().zip(tallies) {
                let ours = if listed.ours { " class=\"ours\"" } else { "" };
                let _ = write!(
                    page,
                    "<tr{ours}><th title=\"{}\">{}</th><td title=\"not played: {}\">{}</td>",
                    escape(&listed.about),
                    escape(&listed.title()),
                    thousands(tally.skipped),
                    thousands(tally.streams)
                );
                for class in Class::ALL {
                    match tally.classes.get(&class).copied().unwrap_or(0) {
                        0 => page.push_str("<td class=\"zero\">0</td>"),
                        count => {
                            let depth = (count as f64 / tally.streams.max(1) as f64).sqrt().clamp(0.12, 1.0);
                            let _ = write!(
                                page,
                                "<td class=\"count {}\" style=\"--depth:{depth:.2}\">{}</td>",
                                css(class),
                                thousands(count)
                            );
                        }
                    }
                }
                let late = tally
                    .late_bytes()
                    .map_or("–".into(), |(median, most)| format!("{median} <small>/ {}</small>", thousands(most)));
                let _ = write!(page, "<td>{}</td><td>{late}</td></tr>", thousands(tally.late_streams));
            }
            page.push_str("</table></div>");
        }
        page.push_str("</section>\n");
    }

    fn differences(&self, page: &mut String) {
        page.push_str(
            "<section><h2>Differences, drawn</h2><p class=\"legend\"><mark class=\"r\">reasoning</mark> <mark class=\"c\">answer</mark> \
             <mark class=\"a\">argument</mark> <mark class=\"m\">markup</mark> <mark class=\"lost\">lost</mark> \
             <mark class=\"leak\">markup said as text</mark> <mark class=\"add\">nobody wrote it</mark> <mark class=\"m\">a<i></i>b</mark> cut between deltas</p>\
             <p class=\"note\">The upper line is how kimi-xtml reads the stream, the lower one what the other parser said of it. The other \
             parsers give no spans: theirs are found by comparing texts. Drawn are streams of this project's own corpora, the shortest that show the rule.</p>\n",
        );
        for (number, listed) in self.listed.iter().enumerate() {
            let total = self.total(number);
            let mut rules: Vec<(&(Class, &str), &Rule)> = total.rules.iter().collect();
            rules.sort_by_key(|((class, _), rule)| (rule.tolerated.is_some(), *class, usize::MAX - rule.streams));
            let _ = write!(
                page,
                "<details class=\"peer\"{}><summary><b>{}</b> <span class=\"about\">{}</span><span class=\"sum {}\">{} of {} streams differ</span></summary>",
                if listed.ours { "" } else { " open" },
                escape(&listed.title()),
                escape(&listed.about),
                if total.differing == 0 { "good" } else { "bad" },
                thousands(total.differing),
                thousands(total.streams),
            );
            if rules.is_empty() {
                page.push_str("<p class=\"note\">Nothing differs.</p>");
            }
            for (at, ((class, name), rule)) in rules.into_iter().enumerate() {
                rule_of(page, *class, name, rule, at == 0);
            }
            page.push_str("</details>\n");
        }
        page.push_str("</section>\n");
    }
}

fn rule_of(page: &mut String, class: Class, name: &str, rule: &Rule, is_first: bool) {
    let note = match &rule.tolerated {
        Some(reason) => format!("<span class=\"tolerated\">tolerated: {}</span>", escape(reason)),
        // What it shows may be text that is not this project's.
        None if rule.examples.is_empty() => {
            "<span class=\"tolerated\">only in streams that are not drawn here</span>".into()
        }
        None => String::new(),
    };
    let open = match rule.examples.is_empty() {
        true => " class=\"rule bare\"",
        false if is_first => " class=\"rule\" open",
        false => " class=\"rule\"",
    };
    let _ = write!(
        page,
        "<details{open}><summary><span class=\"pill {}\">{class}</span> <code>{name}</code> <b>{}</b> streams {note}</summary>",
        css(class),
        thousands(rule.streams),
    );
    for example in &rule.examples {
        draw(page, example);
    }
    page.push_str("</details>");
}

fn draw(page: &mut String, example: &Example) {
    let Example { stream, heard, differences } = example;
    let layout = Layout::of(stream);
    let opened = stream.opened.map_or("nothing", kimi_xtml::Channel::name);
    let tools = if stream.tools.is_empty() { "no tools" } else { "tools declared" };
    let _ = write!(
        page,
        "<div class=\"example\"><p><code>{}</code> {} <small>{opened} opened, {tools}, ended by {}, {} deltas</small></p>",
        escape(&stream.id),
        escape(&stream.kind),
        escape(&stream.reason),
        stream.chunks.len(),
    );
    let ends = stream.ends();
    page.push_str("<div class=\"lines\"><span class=\"who\">kimi-xtml</span><div class=\"line\">");
    spans(page, &ours(stream, &layout), &ends);
    page.push_str("</div><span class=\"who\">heard</span><div class=\"line\">");
    spans(page, &theirs(stream, &layout, heard), &ends);
    page.push_str("</div></div><ul>");
    for difference in differences {
        let _ = write!(
            page,
            "<li><span class=\"pill {}\">{}</span> <code>{}</code> {}</li>",
            css(difference.class),
            difference.class,
            difference.rule,
            escape(&difference.detail),
        );
    }
    page.push_str("</ul></div>");
}

/// Text with its fates, and the cuts between the deltas.
fn spans(page: &mut String, fates: &[(Fate, String)], ends: &[usize]) {
    let mut at = 0;
    for (fate, text) in fates {
        let class = match fate {
            Fate::Reasoning => "r",
            Fate::Content => "c",
            Fate::Argument => "a",
            Fate::Markup => "m",
            Fate::Lost => "lost",
            Fate::Leaked => "leak",
            Fate::Added => "add",
        };
        let _ = write!(page, "<mark class=\"{class}\">");
        for c in text.chars() {
            match c {
                '\n' => page.push_str("↵\n"),
                '\r' => page.push_str("\\r"),
                '\t' => page.push_str("\\t"),
                '<' => page.push_str("&lt;"),
                '>' => page.push_str("&gt;"),
                '&' => page.push_str("&amp;"),
                c => page.push(c),
            }
            if *fate != Fate::Added {
                at += c.len_utf8();
                if ends.binary_search(&at).is_ok() && Some(&at) != ends.last() {
                    page.push_str("<i></i>");
                }
            }
        }
        page.push_str("</mark>");
    }
}

fn css(class: Class) -> String {
    class.name().replace(' ', "-")
}

fn kind(group: &str) -> &'static str {
    if group.contains("provoking") {
        "provoking"
    } else if group.contains("cut") {
        "cut"
    } else {
        "plain"
    }
}

/// Green for all, from yellow to red for less.
fn colour(share: f64) -> String {
    if share >= 1.0 {
        return "var(--good-bg)".into();
    }
    // 0.9 to 1 is as wide as 0 to 0.9.
    let hue = if share > 0.9 { 25.0 + (share - 0.9) * 300.0 } else { share / 0.9 * 25.0 };
    format!("hsl({hue:.0} 85% var(--heat))")
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

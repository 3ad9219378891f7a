//! Time against size, both logarithmic, a line a parser: the plot of BENCHMARKS.md, as SVG.

use std::ops::Range;
use std::path::Path;

use anyhow::Context;
use plotters::coord::Shift;
use plotters::prelude::*;

use super::{Measured, Results};

/// What is drawn: title, shape, cut.
const PANELS: [(&str, &str, &str); 4] = [
    ("reasoning, deltas of 4 bytes", "reasoning", "4 B"),
    ("a string argument of code, deltas of 4 bytes", "code", "4 B"),
    ("an object argument, deltas of 4 bytes", "object", "4 B"),
    ("many calls, all in one delta", "calls", "whole"),
];
const COLORS: [RGBColor; 5] =
    [RGBColor(0, 90, 181), RGBColor(204, 102, 0), RGBColor(130, 60, 150), RGBColor(170, 140, 0), RGBColor(0, 130, 90)];
const BYTES: Range<f64> = 12e3..6e6;
const SECONDS: Range<f64> = 1e-6..40.0;

/// Draws the plot.
pub(crate) fn draw(results: &Results, file: &Path) -> anyhow::Result<()> {
    let root = SVGBackend::new(file, (1080, 900)).into_drawing_area();
    root.fill(&WHITE)?;
    for (area, panel) in root.split_evenly((2, 2)).iter().zip(PANELS) {
        self::panel(&area.margin(8, 8, 8, 16), results, panel)?;
    }
    root.present().with_context(|| format!("cannot write {}", file.display()))
}

fn panel(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    results: &Results,
    (title, shape, cut): (&str, &str, &str),
) -> anyhow::Result<()> {
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 17))
        .x_label_area_size(36)
        .y_label_area_size(56)
        .build_cartesian_2d(BYTES.log_scale(), SECONDS.log_scale())?;
    chart
        .configure_mesh()
        .x_desc("bytes of the stream")
        .y_desc("time")
        .x_label_formatter(&|bytes| bytes_label(*bytes))
        .y_label_formatter(&|seconds| seconds_label(*seconds))
        .light_line_style(TRANSPARENT)
        .label_style(("sans-serif", 13))
        .draw()?;
    for (parser, color) in super::PARSERS.iter().zip(COLORS) {
        let points = || results.points.iter().filter(|it| it.parser == *parser && it.shape == shape && it.cut == cut);
        let mut timed: Vec<_> = points().filter_map(|point| Some((point.bytes as f64, point.time()? / 1e9))).collect();
        timed.sort_by(|a, b| a.0.total_cmp(&b.0));
        timed.dedup_by(|a, b| a.0 == b.0);
        let told = match points().map(|point| &point.result).find(|result| !matches!(result, Measured::Time(_))) {
            Some(Measured::Wrong(_)) => format!("{parser}: wrong answer"),
            Some(Measured::Stopped(_)) => format!("{parser}: stopped"),
            _ => (*parser).to_owned(),
        };
        let style = color.stroke_width(2);
        chart
            .draw_series(LineSeries::new(timed, style).point_size(3))?
            .label(told)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .background_style(WHITE.mix(0.85))
        .border_style(RGBColor(200, 200, 200))
        .label_font(("sans-serif", 13))
        .draw()?;
    Ok(())
}

fn bytes_label(bytes: f64) -> String {
    if bytes < 1e6 { format!("{:.0} KB", bytes / 1e3) } else { format!("{:.0} MB", bytes / 1e6) }
}

fn seconds_label(seconds: f64) -> String {
    match seconds {
        _ if seconds < 0.9e-3 => format!("{:.0} µs", seconds * 1e6),
        _ if seconds < 0.9 => format!("{:.0} ms", seconds * 1e3),
        _ => format!("{seconds:.0} s"),
    }
}

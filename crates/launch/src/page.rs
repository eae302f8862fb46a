//! The report of a job as one page for a browser (`--report FILE`): start-up by phase, who was connected to whom and how much
//! went between them, and a table of ranks. It needs nothing else: style and script are in it, and no word leaves it.
//!
//! Its figures are those of [`crate::stats`]; here they get a form. Pure, but for the date, which is an argument.
mod findings;
mod timeline;

use crate::launcher::JobReport;
use crate::spec::JobSpec;
use proto::stats::{Means, Stat};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const STYLE: &str = include_str!("page/page.css");
const SCRIPT: &str = include_str!("page/page.js");

/// Rows and columns of a matrix; more ranks share them.
const BINS_MAX: usize = 256;
/// What is shown of a command line.
const COMMAND_CHARS_MAX: usize = 400;

/// Columns of the table of ranks: the name, the counter, its unit.
const COLUMNS: [(&str, Stat, Unit); 12] = [
    ("connections", Stat::Connections, Unit::Number),
    ("handshakes", Stat::Handshakes, Unit::Number),
    ("repeated", Stat::Retransmits, Unit::Number),
    ("evictions", Stat::Evictions, Unit::Number),
    ("first message, ms", Stat::FirstMessageLongest, Unit::Millis),
    ("eager", Stat::EagerSent, Unit::Number),
    ("rendezvous", Stat::RendezvousSent, Unit::Number),
    ("sent", Stat::BytesSent, Unit::Bytes),
    ("mapped", Stat::MappedBytes, Unit::Bytes),
    ("load, ms", Stat::InitLoad, Unit::Millis),
    ("init, ms", Stat::InitTotal, Unit::Millis),
    ("complete", Stat::Complete, Unit::Number),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    Number,
    Bytes,
    Millis,
}

/// The page.
pub(crate) fn page(spec: &JobSpec, report: &JobReport, now: SystemTime) -> String {
    let command = command_line(spec);
    let mut html = String::from("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n");
    html += "<meta name=\"viewport\" content=\"width=device-width\">\n";
    let _ =
        write!(html, "<title>banyan: {}</title>\n<style>\n{STYLE}</style></head>\n<body>\n", text(&command));
    head(&mut html, spec, report, &command, now);
    html += "<h2>What stands out</h2>\n<ul id=\"findings\">\n";
    for finding in findings::findings(report) {
        let _ = writeln!(html, "<li>{}</li>", text(&finding));
    }
    html += "</ul>\n<h2>Start-up by phase</h2>\n";
    html += &timeline::draw(report);
    matrices(&mut html, report);
    html += "<h2>Ranks</h2>\n<div class=\"wide\"><table id=\"ranks\"></table></div>\n";
    let _ = writeln!(html, "<button class=\"more\" id=\"more\">show all {} ranks</button>", report.ranks);
    html += "<details><summary>All counters</summary>\n<div class=\"wide\"><pre>";
    html += &text(&crate::stats::table(report));
    html += "</pre></div></details>\n";
    // A tag in the data would end it.
    let data = data(report).to_string().replace('<', "\\u003c");
    let _ = write!(
        html,
        "<script type=\"application/json\" id=\"data\">{data}</script>\n<script>\n{SCRIPT}</script>\n"
    );
    html + "</body></html>\n"
}

fn head(html: &mut String, spec: &JobSpec, report: &JobReport, command: &str, now: SystemTime) {
    let _ = writeln!(html, "<h1>{}</h1>", text(command));
    let mut fact = |name: &str, class: &str, value: String| {
        let _ = writeln!(html, "<dt>{name}</dt><dd class=\"{class}\">{}</dd>", text(&value));
    };
    let started = now.checked_sub(report.phases.total).unwrap_or(now);
    let failed = if report.exit_code == 0 { "" } else { "failed" };
    let mut facts = vec![("started", "", date(started)), ("took", "", took(report.phases.total))];
    let plural = |count: u32, noun: &str| format!("{count} {noun}{}", if count == 1 { "" } else { "s" });
    facts.push(("ran on", "", format!("{}, {}", plural(report.ranks, "rank"), plural(report.nodes, "node"))));
    if !spec.hosts.is_empty() {
        let hosts: Vec<&str> = spec.hosts.iter().map(|host| host.name.as_str()).take(16).collect();
        let more = spec.hosts.len().saturating_sub(16);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        facts.push(("hosts", "", hosts.join(", ") + &more));
    }
    facts.push(("exit code", failed, report.exit_code.to_string()));
    if let Some(cause) = &report.cause {
        facts.push(("because", failed, cause.to_string()));
    }
    let connecting = crate::stats::connecting(report);
    let by = |(policy, why, ranks): (proto::wireup::Policy, proto::wireup::auto::Why, usize)| {
        format!("{} ({}; {ranks} of {} ranks)", policy.name(), why.words(), report.ranks)
    };
    let connecting: Vec<String> = connecting.map(by).collect();
    if !connecting.is_empty() {
        facts.push(("connected", "", connecting.join(", ")));
    }
    facts.into_iter().for_each(|(name, class, value)| fact(name, class, value));
    *html = html.replacen("<dt>", "<dl>\n<dt>", 1) + "</dl>\n";
}

fn matrices(html: &mut String, report: &JobReport) {
    if report.matrix.is_none() {
        return;
    }
    *html += "<h2>Who was connected to whom, and how much went between them</h2>\n<div class=\"pictures\">\n";
    let bins = bins(report.ranks as usize);
    let cell = match bins.per {
        1 => "A cell is a pair of ranks, rank 0 at the top left".to_string(),
        per => format!("A cell is {per} by {per} ranks, rank 0 at the top left"),
    };
    let picture = |id: &str, words: &str| {
        format!("<figure><canvas id=\"{id}\"></canvas><figcaption>{words}</figcaption></figure>\n")
    };
    let keys = [("--p1", "shared memory"), ("--p2", "sockets or RDMA"), ("--p3", "both")];
    let keys: String = keys
        .iter()
        .map(|(colour, name)| format!("<span class=\"key\" style=\"background:var({colour})\"></span>{name}"))
        .collect();
    *html +=
        &picture("connections", &format!("Connections. {cell}; the stronger, the more of its pairs.{keys}"));
    *html += &picture(
        "bytes",
        &format!(
            "Bytes, both ways, on a logarithmic scale. {cell}. Not in it: what processes read and write in each other's memory by themselves (windows, collectives inside a host)."
        ),
    );
    *html += "</div>\n";
}

/// How many ranks share a row, and how many rows that makes.
struct Bins {
    per: usize,
    count: usize,
}

fn bins(ranks: usize) -> Bins {
    let per = ranks.div_ceil(BINS_MAX).max(1);
    Bins { per, count: ranks.div_ceil(per).max(1) }
}

/// What the script draws.
fn data(report: &JobReport) -> Value {
    let columns = COLUMNS.iter().map(
        |(name, stat, unit)| json!({ "name": name, "what": stat.line(), "bytes": *unit == Unit::Bytes, "millis": *unit == Unit::Millis }),
    );
    let first = ["rank", "node"].map(|name| json!({ "name": name, "what": name, "bytes": false }));
    let node = |rank: usize| report.matrix.as_ref().and_then(|matrix| matrix.nodes.get(rank).copied());
    let row = |rank: usize| {
        let values = report.stats.get(rank).filter(|values| !values.is_empty());
        let counters = COLUMNS.iter().map(|(_, stat, unit)| {
            let value = values.and_then(|values| values.get(*stat as usize).copied());
            match (value, unit) {
                (None, _) => Value::Null,
                (Some(ns), Unit::Millis) => json!((ns / 1000) as f64 / 1000.0),
                (Some(value), _) => json!(value),
            }
        });
        [json!(rank), json!(node(rank))].into_iter().chain(counters).collect::<Value>()
    };
    json!({
        "columns": first.into_iter().chain(columns).collect::<Vec<_>>(),
        "ranks": (0..report.ranks as usize).map(row).collect::<Vec<_>>(),
        "matrix": matrix_data(report),
    })
}

fn matrix_data(report: &JobReport) -> Value {
    let Some(matrix) = &report.matrix else { return Value::Null };
    let ranks = matrix.rows.len();
    let Bins { per, count } = bins(ranks);
    let mut cells: BTreeMap<(usize, usize), [u64; 3]> = BTreeMap::new();
    for (from, row) in matrix.rows.iter().enumerate() {
        for met in row.iter().flatten() {
            let cell = cells.entry((from / per, met.rank as usize / per)).or_default();
            let place = if met.means.has(Means::SHARED) { 0 } else { 1 };
            cell[place] += 1;
            if met.means == Means::SHARED.and(Means::SOCKETS) {
                cell[1] += 1;
            }
        }
    }
    for ((a, b), bytes) in report.traffic.pairs() {
        for (from, to) in [(a, b), (b, a)] {
            cells.entry((from as usize / per, to as usize / per)).or_default()[2] += bytes;
        }
    }
    let cells = cells
        .into_iter()
        .map(|((row, column), [shared, other, bytes])| json!([row, column, shared, other, bytes]));
    let full = (0..count).map(|bin| per.min(ranks - bin * per));
    json!({ "ranks": ranks, "bins": count, "full": full.collect::<Vec<_>>(), "cells": cells.collect::<Vec<_>>() })
}

/// What was run, as far as it is shown.
fn command_line(spec: &JobSpec) -> String {
    let section = |section: &crate::spec::Section| {
        let words = std::iter::once(&section.program).chain(&section.args);
        let words: Vec<String> = words.map(|word| word.to_string_lossy().into_owned()).collect();
        format!("-n {} {}", section.ranks, words.join(" "))
    };
    let sections: Vec<String> = spec.sections.iter().map(section).collect();
    let line = format!("banyan run {}", sections.join(" : "));
    match line.char_indices().nth(COMMAND_CHARS_MAX) {
        Some((end, _)) => format!("{} ...", &line[..end]),
        None => line,
    }
}

/// As text in a page. What would steer a terminal or hide itself does not get there.
pub(super) fn text(words: &str) -> String {
    let mut safe = String::with_capacity(words.len());
    for c in words.chars() {
        match c {
            '&' => safe += "&amp;",
            '<' => safe += "&lt;",
            '>' => safe += "&gt;",
            '"' => safe += "&quot;",
            '\n' => safe.push('\n'),
            c if c.is_control() => safe.push('\u{fffd}'),
            c => safe.push(c),
        }
    }
    safe
}

fn took(time: Duration) -> String {
    match time.as_secs_f64() {
        seconds if seconds < 1.0 => format!("{:.0} ms", seconds * 1e3),
        seconds if seconds < 120.0 => format!("{seconds:.2} s"),
        seconds => format!("{:.0} min {:.0} s", (seconds / 60.0).floor(), seconds % 60.0),
    }
}

/// Day and time in UTC. (Days are counted from the first of March of a year 0, so that leap days come last.)
fn date(at: SystemTime) -> String {
    let seconds = at.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let (days, second) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let (day, month) =
        (day_of_year - (153 * shifted + 2) / 5 + 1, if shifted < 10 { shifted + 3 } else { shifted - 9 });
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute) = (second / 3600, second / 60 % 60);
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{:02} UTC", second % 60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::Matrix;
    use proto::stats::Met;

    fn spec(command: &str) -> JobSpec {
        let mut words = command.split(' ').map(std::ffi::OsString::from);
        let program = words.next().unwrap_or_default();
        JobSpec::new(program, words.collect(), 3)
    }

    fn report(ranks: u32) -> JobReport {
        let row = |rank: u32| {
            let mut values = vec![0; Stat::ALL.len()];
            values[Stat::Connections as usize] = 2;
            values[Stat::InitLoad as usize] = 1_000_000;
            values[Stat::InitPmi as usize] = 2_000_000 + u64::from(rank) * 1000;
            values[Stat::InitTotal as usize] = 2_000_000 + u64::from(rank) * 1000;
            values
        };
        let met = |rank: u32| vec![Met { rank: (rank + 1) % ranks, means: Means::SHARED }];
        let matrix =
            Matrix::new((0..ranks).map(|r| r / 8).collect(), (0..ranks).map(met).collect(), |_| true);
        let stats = (0..ranks).map(row).collect();
        JobReport { ranks, nodes: ranks.div_ceil(8), stats, matrix: Some(matrix), ..JobReport::default() }
    }

    #[test]
    fn the_page_needs_nothing_else_and_what_was_run_cannot_write_into_it() {
        let html = page(&spec("./a<b> </script><script>alert(1)"), &report(3), UNIX_EPOCH);
        assert!(html.contains("<h1>banyan run -n 3 ./a&lt;b&gt; &lt;/script&gt;&lt;script&gt;alert(1)</h1>"));
        let own = html.replace("http://www.w3.org/2000/svg", "");
        for outside in ["http:", "https:", "src=", "href=", "@import", "url(", "fetch("] {
            assert!(!own.contains(outside), "{outside}");
        }
        assert_eq!(html.matches("<script").count(), 2);
    }

    #[test]
    fn a_failure_is_named_with_its_code() {
        let mut failed = report(3);
        failed.exit_code = 137;
        failed.stats[1].clear();
        let html = page(&spec("./prog"), &failed, UNIX_EPOCH);
        assert!(html.contains("<dt>exit code</dt><dd class=\"failed\">137</dd>"), "{html}");
        assert!(html.contains("not measured: rank 1"), "{html}");
    }

    #[test]
    fn many_ranks_share_cells_and_none_is_lost() {
        for (ranks, per, count) in
            [(1, 1, 1), (256, 1, 256), (257, 2, 129), (1000, 4, 250), (100_000, 391, 256)]
        {
            let bins = bins(ranks);
            assert_eq!((bins.per, bins.count), (per, count), "{ranks}");
        }
        let data = data(&report(1000));
        let cells = data["matrix"]["cells"].as_array().unwrap();
        let pairs: u64 = cells.iter().map(|cell| cell[2].as_u64().unwrap()).sum();
        assert_eq!(pairs, 2000, "a ring, both ways");
        let full: u64 = data["matrix"]["full"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).sum();
        assert_eq!(full, 1000);
        assert_eq!(data["ranks"].as_array().unwrap().len(), 1000);
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        let at = |seconds| date(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(at(951_782_399), "2000-02-28 23:59:59 UTC");
        assert_eq!(at(951_782_400), "2000-02-29 00:00:00 UTC");
        assert_eq!(at(1_767_225_599), "2025-12-31 23:59:59 UTC");
    }
}

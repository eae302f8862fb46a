//! Start-up as a picture: a bar per rank, cut into its phases, under the launcher's own. Ranks begin at different moments; their bars
//! begin where their processes do.
use super::super::launcher::JobReport;
use super::findings::millis;
use proto::stats::{Kind, Stat};
use std::fmt::Write as _;

/// Ranks that have a bar each; of more, some in order and the slowest.
const BARS_MAX: usize = 64;
const EVENLY: usize = 40;
const SLOWEST: usize = 16;

const WIDTH: f64 = 1000.0;
const LEFT: f64 = 90.0;
const RIGHT: f64 = 60.0;
const ROW: f64 = 14.0;
const TOP: f64 = 22.0;
const COLOURS: usize = 8;

/// The parts of start-up, in order.
fn phases() -> Vec<Stat> {
    let all = Stat::ALL.iter().copied();
    all.filter(|stat| stat.kind() == Kind::PhaseNs && *stat != Stat::InitTotal).collect()
}

/// The picture and its key.
pub(super) fn draw(report: &JobReport) -> String {
    let phases = phases();
    let total = |rank: usize| -> u64 {
        let values = &report.stats[rank];
        phases.iter().filter_map(|stat| values.get(*stat as usize)).sum()
    };
    let measured: Vec<usize> =
        (0..report.stats.len()).filter(|rank| !report.stats[*rank].is_empty()).collect();
    let bars = chosen(&measured, total);
    let started_ns = report.phases.started.as_nanos() as u64;
    let end_ns = bars.iter().map(|rank| total(*rank)).chain([started_ns]).max().unwrap_or(0).max(1);
    let x = |ns: u64| LEFT + (WIDTH - LEFT - RIGHT) * ns as f64 / end_ns as f64;
    let height = TOP + ROW * (bars.len() + 1) as f64 + 6.0;
    let mut svg = format!(
        "<p class=\"dim\">The launcher's bar begins with the job: all agents were there after {}, and all ranks had been started \
         after {}. That of a rank begins with its process.</p>\n<div class=\"wide\">",
        millis(report.phases.agents.as_nanos() as u64),
        millis(started_ns)
    );
    let _ = writeln!(
        svg,
        "<svg id=\"timeline\" data-bars=\"{}\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
         xmlns=\"http://www.w3.org/2000/svg\">",
        bars.len()
    );
    for tick in 0..=4 {
        let ns = end_ns / 4 * tick;
        let _ = writeln!(
            svg,
            "<line x1=\"{0:.1}\" x2=\"{0:.1}\" y1=\"{TOP}\" y2=\"{height}\" stroke=\"var(--line)\"/>\
             <text x=\"{0:.1}\" y=\"14\" text-anchor=\"middle\">{1}</text>",
            x(ns),
            millis(ns)
        );
    }
    launcher_row(&mut svg, report, &x);
    for (row, &rank) in (1..).zip(&bars) {
        let y = TOP + ROW * f64::from(row);
        let label = format!(
            "<text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">rank {rank}</text>",
            LEFT - 6.0,
            y + 10.0
        );
        svg += &label;
        let mut at_ns = 0;
        for (number, stat) in phases.iter().enumerate() {
            let ns = report.stats[rank].get(*stat as usize).copied().unwrap_or(0);
            bar(
                &mut svg,
                (x(at_ns), x(at_ns + ns), y),
                number,
                &format!("rank {rank}, {}: {}", name(*stat), millis(ns)),
            );
            at_ns += ns;
        }
        let _ =
            writeln!(svg, "<text x=\"{:.1}\" y=\"{:.1}\">{}</text>", x(at_ns) + 4.0, y + 10.0, millis(at_ns));
    }
    svg += "</svg></div>\n";
    svg += &key(report, &phases);
    if bars.len() < measured.len() {
        let _ = writeln!(
            svg,
            "<p class=\"dim\">{} of {} ranks: {EVENLY} in order, and the slowest; all are in the table.</p>",
            bars.len(),
            measured.len()
        );
    }
    svg
}

/// Which ranks have a bar.
fn chosen(measured: &[usize], total: impl Fn(usize) -> u64) -> Vec<usize> {
    if measured.len() <= BARS_MAX {
        return measured.to_vec();
    }
    let mut slowest = measured.to_vec();
    slowest.sort_by_key(|rank| (std::cmp::Reverse(total(*rank)), *rank));
    slowest.truncate(SLOWEST);
    let mut chosen: Vec<usize> = (0..EVENLY).map(|n| measured[n * measured.len() / EVENLY]).collect();
    chosen.extend(slowest);
    chosen.sort_unstable();
    chosen.dedup();
    chosen
}

fn launcher_row(svg: &mut String, report: &JobReport, x: &impl Fn(u64) -> f64) {
    let ns = |time: std::time::Duration| time.as_nanos() as u64;
    let (agents, started) = (ns(report.phases.agents), ns(report.phases.started));
    let _ = write!(
        svg,
        "<text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">launcher</text>",
        LEFT - 6.0,
        TOP + 10.0
    );
    bar(svg, (x(0), x(agents), TOP), COLOURS - 1, &format!("all agents are there after {}", millis(agents)));
    let words = format!("all ranks have been started after {}", millis(started));
    bar(svg, (x(agents), x(started.max(agents)), TOP), COLOURS - 2, &words);
}

/// One piece; what has no width is not drawn.
fn bar(svg: &mut String, (from, to, y): (f64, f64, f64), colour: usize, title: &str) {
    if to - from > 0.05 {
        let (width, colour) = (to - from, colour % COLOURS);
        let _ = writeln!(
            svg,
            "<rect x=\"{from:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{:.0}\" fill=\"var(--p{colour})\"><title>{title}</title></rect>",
            ROW - 3.0
        );
    }
}

fn name(stat: Stat) -> &'static str {
    stat.phase().unwrap_or_default()
}

/// Colours, and the slowest and the quickest of each phase.
fn key(report: &JobReport, phases: &[Stat]) -> String {
    let mut text = String::from("<p>");
    for (number, stat) in phases.iter().enumerate() {
        let values = report.stats.iter().filter_map(|values| values.get(*stat as usize).copied());
        let (Some(least), Some(most)) = (values.clone().min(), values.max()) else { continue };
        if most > 0 {
            let _ = write!(
                text,
                "<span class=\"key\" style=\"background:var(--p{})\"></span><span title=\"{}\">{} <span class=\"dim\">{} to {}</span></span>",
                number % COLOURS,
                stat.line(),
                name(*stat),
                millis(least),
                millis(most)
            );
        }
    }
    text + "</p>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_ranks_some_and_the_slowest_have_bars() {
        let few: Vec<usize> = (0..64).collect();
        assert_eq!(chosen(&few, |_| 1), few);
        let many: Vec<usize> = (0..1000).collect();
        let bars = chosen(&many, |rank| if rank == 777 { 9 } else { 1 });
        assert!(bars.len() <= BARS_MAX && bars.contains(&777) && bars.contains(&0), "{bars:?}");
        assert!(bars.is_sorted());
    }
}

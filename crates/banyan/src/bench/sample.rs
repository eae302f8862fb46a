//! Repeated measurements of one thing: the median, and how far the runs lie apart.
use serde_json::{Value, json};

/// Measurements of one quantity, with the runs that gave none.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// In the order of runs.
    runs: Vec<Option<f64>>,
}

impl Sample {
    /// Adds a run; `None` is a run that failed.
    pub fn add(&mut self, value: Option<f64>) {
        self.runs.push(value);
    }

    /// Runs that gave a value.
    pub fn runs(&self) -> usize {
        self.runs.iter().flatten().count()
    }

    /// Runs that gave none.
    pub fn failed(&self) -> usize {
        self.runs.len() - self.runs()
    }

    /// The middle value; the mean of the two middle ones for an even number of runs.
    pub fn median(&self) -> Option<f64> {
        median(&self.sorted())
    }

    /// The values of this one and of that one in runs that gave both a value. The n-th runs of both belong together.
    pub fn pairs<'a>(&'a self, that: &'a Sample) -> impl Iterator<Item = (f64, f64)> + 'a {
        self.runs.iter().zip(&that.runs).filter_map(|(this, that)| Some(((*this)?, (*that)?)))
    }

    /// How many times the other's median this one's is.
    pub fn over(&self, that: &Sample) -> Option<f64> {
        let (this, that) = (self.median()?, that.median()?);
        (that > 0.0).then(|| this / that)
    }

    /// Smallest and largest value.
    pub fn spread(&self) -> Option<(f64, f64)> {
        let values = self.sorted();
        Some((*values.first()?, *values.last()?))
    }

    /// For scripts.
    pub fn json(&self) -> Value {
        let spread = self.spread();
        json!({
            "median": self.median(),
            "min": spread.map(|(low, _)| low),
            "max": spread.map(|(_, high)| high),
            "runs": self.runs(),
            "failed": self.failed(),
        })
    }

    fn sorted(&self) -> Vec<f64> {
        let mut values: Vec<f64> = self.runs.iter().copied().flatten().collect();
        values.sort_by(f64::total_cmp);
        values
    }
}

/// Says of which jobs nothing is known, if there are any.
pub fn failure<'a>(what: &str, cells: impl IntoIterator<Item = &'a Sample>) -> Option<String> {
    let worst = cells.into_iter().max_by_key(|cell| cell.failed()).filter(|cell| cell.failed() > 0)?;
    Some(format!("{what} ({} of {})", worst.failed(), worst.runs.len()))
}

/// The middle of sorted values; the mean of the two middle ones of an even number.
pub fn median(sorted: &[f64]) -> Option<f64> {
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

/// Three significant digits.
pub fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(values: &[f64]) -> Sample {
        let mut sample = Sample::default();
        values.iter().for_each(|&value| sample.add(Some(value)));
        sample
    }

    #[test]
    fn the_median_does_not_care_for_order_or_one_bad_run() {
        assert_eq!(sample(&[3.0, 1.0, 900.0]).median(), Some(3.0));
        assert_eq!(sample(&[4.0, 1.0, 2.0, 3.0]).median(), Some(2.5));
        assert_eq!(sample(&[3.0, 1.0, 900.0]).spread(), Some((1.0, 900.0)));
    }

    #[test]
    fn failed_runs_are_counted_and_not_mixed_in() {
        let mut failing = sample(&[2.0]);
        failing.add(None);
        assert_eq!((failing.median(), failing.runs(), failing.failed()), (Some(2.0), 1, 1));
        assert_eq!(Sample::default().median(), None);
        assert_eq!(Sample::default().spread(), None);
    }

    #[test]
    fn a_run_that_failed_takes_its_partner_out() {
        let (mut this, mut that) = (sample(&[1.0]), sample(&[10.0, 20.0, 30.0]));
        this.add(None);
        this.add(Some(3.0));
        that.add(Some(40.0));
        assert_eq!(this.pairs(&that).collect::<Vec<_>>(), [(1.0, 10.0), (3.0, 30.0)]);
    }
}

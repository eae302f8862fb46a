//! What a benchmark says about the machine it ran on.

/// A load average up to which the machine counts as quiet.
const LOAD_QUIET: f64 = 0.5;

/// The load average of the last minute; 0 if unknown.
pub fn load_average() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(0.0)
}

/// Cores and processor.
pub fn describe() -> String {
    format!("{} cores, {}", cores(), crate::info::processor())
}

/// Cores that this process may use; 0 if unknown.
pub fn cores() -> usize {
    sys::limit::allowed_cores().map_or(0, |cores| cores.len())
}

/// A warning, if other things ran when the benchmark began.
pub fn busy_warning(load_before: f64) -> Option<String> {
    let warning =
        format!("The machine was busy (load average {load_before:.1}): do not trust these figures.");
    (load_before > LOAD_QUIET).then_some(warning)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_busy_machine_is_warned_of() {
        assert_eq!(busy_warning(0.2), None);
        assert!(busy_warning(1.25).unwrap().contains("1.2"));
    }
}

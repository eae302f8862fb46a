//! Reasons as frames carry them: words of users' may be in them, of any length.

/// Longest reason passed on.
const REASON_BYTES_MAX: usize = 4096;

/// What of a reason is passed on.
pub(crate) fn bounded(mut text: String) -> String {
    let mut end = text.len().min(REASON_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_reason_is_cut_between_letters() {
        assert_eq!(bounded("why".into()), "why");
        let long = bounded("\u{fffd}".repeat(REASON_BYTES_MAX));
        assert_eq!(long, "\u{fffd}".repeat(REASON_BYTES_MAX / 3));
    }
}

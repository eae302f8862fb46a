//! The variables `BANYAN_*` that a job will see: bad values are errors, unknown names are worth a warning. Pure.
use crate::spec::JobSpec;
use proto::env::{BadValue, PREFIX, Unknown, check, unknown};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

/// Checks what is inherited and what the job sets. Returns the names that nobody reads, each once.
pub(crate) fn check_environment(
    inherited: impl Iterator<Item = (OsString, OsString)>,
    spec: &JobSpec,
) -> Result<Vec<Unknown>, BadValue> {
    let text = |text: &OsStr| text.to_string_lossy().into_owned();
    let is_ours = |name: &OsStr| name.as_encoded_bytes().starts_with(PREFIX.as_bytes());
    let mut values: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in inherited.filter(|(name, _)| is_ours(name)) {
        values.insert(text(&name), vec![text(&value)]);
    }
    // What is set for all replaces what is inherited; what is set for one program is another value besides.
    for (name, value) in spec.env.iter().filter(|(name, _)| is_ours(name)) {
        values.insert(text(name), vec![text(value)]);
    }
    let of_sections = spec.sections.iter().flat_map(|section| &section.env);
    for (name, value) in of_sections.filter(|(name, _)| is_ours(name)) {
        values.entry(text(name)).or_default().push(text(value));
    }
    for (name, value) in values.iter().flat_map(|(name, all)| all.iter().map(move |value| (name, value))) {
        check(name, value)?;
    }
    Ok(unknown(values.keys().map(String::as_str)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
        pairs.iter().map(|(name, value)| (name.into(), value.into())).collect()
    }

    #[test]
    fn bad_values_and_unknown_names_are_found_wherever_they_are_set() {
        let mut spec = JobSpec::new("a", Vec::new(), 1);
        let found = |inherited: &[(&str, &str)], spec: &JobSpec| {
            let unknown = check_environment(pairs(inherited).into_iter(), spec)?;
            Ok(unknown.iter().map(|unknown| unknown.name.clone()).collect::<Vec<_>>())
        };
        let bad = |name, value: &str, spec: &JobSpec| -> String {
            let outcome: Result<Vec<String>, BadValue> = found(&[(name, value)], spec);
            outcome.unwrap_err().to_string()
        };
        assert_eq!(
            found(&[("HOME", "/"), ("BANYAN_NO_SUCH_NAME", "x"), ("BANYAN_NODE", "x")], &spec),
            Ok(vec!["BANYAN_NO_SUCH_NAME".into()])
        );
        assert_eq!(bad("BANYAN_CMA", "2", &spec), "BANYAN_CMA: '2' is not 'on' or 'off'");
        spec.env = pairs(&[("BANYAN_CMA", "off"), ("BANYAN_NO_SUCH_NAME", "y")]);
        assert_eq!(
            found(&[("BANYAN_CMA", "2"), ("BANYAN_NO_SUCH_NAME", "x")], &spec),
            Ok(vec!["BANYAN_NO_SUCH_NAME".into()])
        );
        spec.sections[0].env = pairs(&[("BANYAN_NET_TIMEOUT", "soon")]);
        assert_eq!(bad("A", "b", &spec), "BANYAN_NET_TIMEOUT: 'soon' is not a number of seconds");
    }
}

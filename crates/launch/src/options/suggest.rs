//! What was probably meant by an option that does not exist. Pure.
use super::entry::bare;
use super::{foreign, table};
use proto::env::distance;

/// The option whose name is nearest, if it is near.
pub(super) fn meant(written: &str) -> Option<&'static str> {
    let plain = |name: &str| name.trim_start_matches('-').to_ascii_lowercase().replace('_', "-");
    let name = plain(written.split('=').next().unwrap_or_default());
    // A third of the letters may be wrong, but not all of a short name.
    let typos_max = (name.len() / 3).min(3);
    let ours = table::entries().flat_map(|entry| entry.all_names());
    let near = |name: &str, known: &'static str| (distance(name, &bare(known).to_ascii_lowercase()), known);
    ours.chain(foreign::understood())
        .map(|known| near(&name, known))
        .filter(|(typos, _)| *typos <= typos_max)
        .min_by_key(|(typos, _)| *typos)
        .map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typo_suggests_the_nearest_option() {
        for (typo, name) in [
            ("--bind_to", Some("--bind-to")),
            ("--hotsfile", Some("--hostfile")),
            ("-genvv", Some("-genv")),
            ("--Timeout=3", Some("--timeout")),
            ("--print-all-exit-codes", Some("--print-all-exitcodes")),
            ("-oversubscribed", Some("--oversubscribe")),
            ("--frobnicate", None),
            ("-z", None),
        ] {
            assert_eq!(meant(typo), name, "{typo}");
        }
    }
}

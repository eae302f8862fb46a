//! What `--map-by` and `--bind-to` may say, in the words of several launchers. Pure.
use crate::spec::{Bind, MapBy};
use std::borrow::Cow;

/// Processors that can be listed.
const CORES_MAX: usize = 1024;

/// What a mapping says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mapping {
    pub(super) by: MapBy,
    /// Processes on each node, if it says so.
    pub(super) per_node: Option<u32>,
    /// The binding that it implies.
    pub(super) bind: Option<Bind>,
}

/// `slot`, `node`, `socket`, `ppr:2:node`, `slot:PE=4`, ... The error says what it may be.
pub(super) fn mapping(text: &str) -> Result<Mapping, Cow<'static, str>> {
    let lower = text.to_ascii_lowercase();
    let mut parts = lower.split(':');
    let mut mapping = match parts.next().unwrap_or_default() {
        "ppr" => per_resource(parts.next(), parts.next())?,
        unit => Mapping { by: MapBy::Slot, per_node: None, bind: None }.of_unit(unit)?,
    };
    for modifier in parts.flat_map(|part| part.split(',')) {
        match modifier.split_once('=') {
            Some(("pe", count)) => {
                mapping.bind = Some(several(count).ok_or("a number of processors behind 'PE='")?)
            }
            None if matches!(
                modifier,
                "oversubscribe" | "nooversubscribe" | "span" | "nolocal" | "hwtcpus" | "corecpus"
            ) => {}
            _ => return Err("slot or node with ':PE=N' behind it".into()),
        }
    }
    Ok(mapping)
}

impl Mapping {
    fn of_unit(self, unit: &str) -> Result<Self, Cow<'static, str>> {
        let bound = |bind| Ok(Mapping { bind: Some(bind), ..self.clone() });
        match unit {
            "slot" | "core" | "hwthread" | "machine" => Ok(self),
            "node" => Ok(Mapping { by: MapBy::Node, ..self }),
            "socket" | "package" => bound(Bind::Package),
            "numa" | "numanode" => bound(Bind::Memory),
            _ => Err("slot or node".into()),
        }
    }
}

/// `ppr:2:node`.
fn per_resource(count: Option<&str>, unit: Option<&str>) -> Result<Mapping, Cow<'static, str>> {
    const WANTED: &str = "ppr:N:node; processes of a smaller part of a node are not counted, '--bind-to socket' deals them to \
                          sockets in turn";
    let count = count.and_then(|count| count.parse().ok()).filter(|count| *count > 0);
    match (count, unit) {
        (Some(count), Some("node" | "host" | "machine")) => {
            Ok(Mapping { by: MapBy::Slot, per_node: Some(count), bind: None })
        }
        _ => Err(WANTED.into()),
    }
}

/// What `--bind-to` says.
pub(super) fn binding(text: &str) -> Option<Bind> {
    // What other launchers do if there are more processes than processors happens here anyway.
    let text =
        text.strip_suffix(":overload-allowed").or_else(|| text.strip_suffix(":if-supported")).unwrap_or(text);
    match text.split_once(':') {
        None => match text {
            "core" | "hwthread" | "rr" => Some(Bind::Core),
            "socket" | "package" => Some(Bind::Package),
            "numa" | "numanode" => Some(Bind::Memory),
            "none" | "machine" | "board" | "node" => Some(Bind::None),
            _ => None,
        },
        Some(("user", list)) => cores(list).map(Bind::User),
        Some(("core" | "hwthread", count)) => several(count),
        _ => None,
    }
}

fn several(count: &str) -> Option<Bind> {
    count.parse().ok().filter(|count| *count > 0).map(Bind::Several)
}

/// `0,2,5` or `0-3,8`.
fn cores(text: &str) -> Option<Vec<usize>> {
    let mut all = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let core = |text: &str| text.parse::<usize>().ok().filter(|core| *core < CORES_MAX);
        all.extend(core(first)?..=core(last)?);
        if all.is_empty() || all.len() > CORES_MAX {
            return None;
        }
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_of_other_launchers_are_understood() {
        let plain = Mapping { by: MapBy::Slot, per_node: None, bind: None };
        assert_eq!(mapping("slot"), Ok(plain.clone()));
        assert_eq!(mapping("node:OVERSUBSCRIBE"), Ok(Mapping { by: MapBy::Node, ..plain.clone() }));
        assert_eq!(mapping("ppr:2:node"), Ok(Mapping { per_node: Some(2), ..plain.clone() }));
        assert_eq!(mapping("slot:PE=4"), Ok(Mapping { bind: Some(Bind::Several(4)), ..plain.clone() }));
        assert_eq!(mapping("socket"), Ok(Mapping { bind: Some(Bind::Package), ..plain }));
        for bad in ["ppr:2:socket", "ppr:0:node", "ppr", "moon", "slot:moon", "slot:PE=0", ""] {
            assert!(mapping(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn processors_are_listed_one_by_one_or_as_ranges() {
        assert_eq!(binding("user:0-2,5"), Some(Bind::User(vec![0, 1, 2, 5])));
        assert_eq!(binding("core:overload-allowed"), Some(Bind::Core));
        for bad in ["user:", "user:3-1", "user:0-999999999999", "user:0-1023,0-1023", "core:0", "moon"] {
            assert_eq!(binding(bad), None, "{bad}");
        }
    }
}

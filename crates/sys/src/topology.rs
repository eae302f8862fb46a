//! Processors that belong together, as the kernel tells. Not here: which are allowed: see [`crate::limit::allowed_cores`].
use std::fs;

/// What processors may have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Common {
    /// The package that is plugged into a socket.
    Package,
    /// The memory that is near.
    Memory,
}

/// Groups `processors` by what they have in common; groups and members in the order in which they come. Those about which the
/// kernel tells nothing are one group.
pub fn groups(processors: &[usize], by: Common) -> Vec<Vec<usize>> {
    let memories = if by == Common::Memory { memories() } else { Vec::new() };
    grouped(processors, |processor| match by {
        Common::Package => package_of(processor),
        Common::Memory => memories.iter().position(|near| near.contains(&processor)),
    })
}

fn grouped(processors: &[usize], mut place: impl FnMut(usize) -> Option<usize>) -> Vec<Vec<usize>> {
    let mut groups: Vec<(Option<usize>, Vec<usize>)> = Vec::new();
    for &processor in processors {
        let at = place(processor);
        match groups.iter_mut().find(|(other, _)| *other == at) {
            Some((_, members)) => members.push(processor),
            None => groups.push((at, vec![processor])),
        }
    }
    groups.into_iter().map(|(_, members)| members).collect()
}

fn package_of(processor: usize) -> Option<usize> {
    let file = format!("/sys/devices/system/cpu/cpu{processor}/topology/physical_package_id");
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// The processors near each memory.
fn memories() -> Vec<Vec<usize>> {
    let folder = "/sys/devices/system/node";
    let online = fs::read_to_string(format!("{folder}/online")).unwrap_or_default();
    let list = |node: usize| fs::read_to_string(format!("{folder}/node{node}/cpulist")).unwrap_or_default();
    numbers(&online).into_iter().map(|node| numbers(&list(node))).collect()
}

/// `0-3,8` as the kernel writes lists.
fn numbers(text: &str) -> Vec<usize> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse::<usize>().ok()?..=last.trim().parse::<usize>().ok()?)
    };
    text.split(',').filter_map(range).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_grouped_in_their_order() {
        assert_eq!(grouped(&[4, 0, 5, 1], |at| Some(at / 4)), [[4, 5], [0, 1]]);
        assert_eq!(grouped(&[1, 2], |_| None), [[1, 2]]);
        assert!(grouped(&[], |_| None).is_empty());
    }

    #[test]
    fn lists_of_the_kernel_are_read() {
        assert_eq!(numbers("0-2,8,10-11\n"), [0, 1, 2, 8, 10, 11]);
        assert!(numbers("\n").is_empty());
    }

    #[test]
    fn every_allowed_processor_is_in_one_group() {
        let allowed = crate::limit::allowed_cores().unwrap();
        for by in [Common::Package, Common::Memory] {
            let mut all = groups(&allowed, by).concat();
            all.sort_unstable();
            assert_eq!(all, allowed);
        }
    }
}

//! What Vishnu and Krishnan count: "Efficient On-Demand Connection Management Mechanisms with PGAS Models over InfiniBand"
//! (2010), tables I to IV, with 6 processes on a node: the average number of connections of a process to data servers, and of
//! a data server to processes. In the paper a process connects to the server of its own node as well.

/// Processes, connections of a process, connections of a server.
pub type Published = (usize, f64, f64);

const LU: [Published; 4] = [(128, 12.0, 71.0), (256, 19.0, 112.0), (512, 25.0, 197.0), (1024, 31.0, 263.0)];
const LJ: [Published; 4] =
    [(128, 22.0, 128.0), (256, 44.0, 256.0), (512, 88.0, 512.0), (1024, 176.0, 1024.0)];
const RANDOM: [Published; 4] =
    [(128, 21.0, 123.0), (256, 43.0, 251.0), (512, 87.0, 507.0), (1024, 175.0, 1021.0)];
/// On grids that grow with the number of processes.
const STENCIL: [Published; 6] = [
    (128, 3.0, 21.0),
    (256, 3.0, 22.0),
    (512, 3.0, 23.0),
    (1024, 6.0, 35.0),
    (2048, 10.0, 61.0),
    (4096, 10.0, 62.0),
];

/// How connections grow with the number of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Everybody needs everybody's memory.
    Linear,
    /// Everybody needs that of some.
    Sublinear,
}

/// Counts of a program.
pub fn published(program: &str) -> &'static [Published] {
    match program {
        "lu" => &LU,
        "lj" => &LJ,
        "random" => &RANDOM,
        "stencil" => &STENCIL,
        _ => &[],
    }
}

/// How they grow.
pub fn shape(program: &str) -> Shape {
    if matches!(program, "lu" | "stencil") { Shape::Sublinear } else { Shape::Linear }
}

/// What our counts come from.
pub fn reason(program: &str) -> &'static str {
    match program {
        "lu" => "panels of the own row and column of the grid: about twice the root of the processes",
        "lj" => "blocks of positions and forces, which are given to whoever comes next",
        "random" => "numbers of the table at random places",
        "stencil" => "the neighbours on the grid, of which those of a row are mostly on the same node",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_has_counts_a_shape_and_a_reason() {
        for program in pgas_kernels::ALL {
            let counts = published(program.name);
            assert!(!counts.is_empty() && !reason(program.name).is_empty(), "{}", program.name);
            let ((few, least, _), (many, most, _)) = (counts[0], counts[counts.len() - 1]);
            let growth = (most / least) / (many as f64 / few as f64);
            let is_linear = growth > 0.9;
            assert_eq!(is_linear, shape(program.name) == Shape::Linear, "{}", program.name);
        }
    }
}

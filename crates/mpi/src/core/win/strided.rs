//! Puts and gets of rows at regular distances, in memory that is mapped here: no datatype is needed to say where they are. As
//! in [`super::short`], nothing here makes an error: what is not for it is left to operations on datatypes.
use super::WinId;
use super::short::near;
use crate::buffer::{RecvBuf, SendBuf};
use crate::core::Mpi;

/// Rows at regular distances: `counts[0]` bytes, and `counts[i]` times that at a distance of `strides[i - 1]` bytes, which
/// differ here and there.
#[derive(Clone, Copy, Debug)]
pub struct Strided<'a> {
    /// Distances in this process's memory.
    pub here: &'a [i64],
    /// Distances at the target.
    pub there: &'a [i64],
    /// Bytes of a row, and how often.
    pub counts: &'a [i64],
}

/// Most levels of rows.
const LEVELS_MAX: usize = 8;

impl Mpi {
    /// Copies rows to a target's memory, from `at` on.
    #[inline]
    pub fn put_strided_short(&self, win: WinId, from: SendBuf, rank: u32, at: u64, how: Strided<'_>) -> bool {
        let windows = self.hall.windows.borrow();
        let Some((base, at)) = windows.list.get(win.0).and_then(|window| inside(window, rank, at, &how))
        else {
            return false;
        };
        let bytes = how.counts[0] as usize;
        how.walk(|here, there| base.range(at + there, bytes).copy_from(&from.range(here, bytes)));
        true
    }

    /// Copies rows from a target's memory.
    #[inline]
    pub fn get_strided_short(&self, win: WinId, into: RecvBuf, rank: u32, at: u64, how: Strided<'_>) -> bool {
        let windows = self.hall.windows.borrow();
        let Some((base, at)) = windows.list.get(win.0).and_then(|window| inside(window, rank, at, &how))
        else {
            return false;
        };
        let bytes = how.counts[0] as usize;
        how.walk(|here, there| {
            into.range(here, bytes).copy_from(&base.as_source().range(at + there, bytes));
        });
        true
    }
}

/// The memory of a target, if it is mapped and all rows are inside.
#[inline(always)]
fn inside(window: &super::window::Window, rank: u32, at: u64, how: &Strided<'_>) -> Option<(RecvBuf, isize)> {
    let (target, base) = near(window, i32::try_from(rank).ok()?)?;
    let levels = how.counts.len().checked_sub(1)?;
    if levels > LEVELS_MAX || how.here.len() != levels || how.there.len() != levels || how.counts[0] < 0 {
        return None;
    }
    let at = i64::try_from(at).ok()?;
    let (mut low, mut high) = (at, at.checked_add(how.counts[0])?);
    for (count, stride) in how.counts[1..].iter().zip(how.there) {
        let reach = count.checked_sub(1).filter(|further| *further >= 0)?.checked_mul(*stride)?;
        low = low.checked_add(reach.min(0))?;
        high = high.checked_add(reach.max(0))?;
    }
    (low >= 0 && high as u64 <= target.bytes).then_some((base, at as isize))
}

impl Strided<'_> {
    /// Visits each row: its distances here and there.
    #[inline(always)]
    fn walk(&self, mut row: impl FnMut(isize, isize)) {
        let levels = self.counts.len() - 1;
        let (mut here, mut there) = (0, 0);
        let Some(inner) = self.counts.get(1) else { return row(0, 0) };
        let mut at = [0; LEVELS_MAX];
        loop {
            let (mut from, mut to) = (here, there);
            for _ in 0..*inner {
                row(from, to);
                from += self.here[0] as isize;
                to += self.there[0] as isize;
            }
            // The next place of the levels above, as an odometer turns.
            let mut level = 1;
            loop {
                if level == levels {
                    return;
                }
                at[level] += 1;
                here += self.here[level] as isize;
                there += self.there[level] as isize;
                if at[level] < self.counts[level + 1] {
                    break;
                }
                here -= (self.here[level] * at[level]) as isize;
                there -= (self.there[level] * at[level]) as isize;
                at[level] = 0;
                level += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_three_levels_are_visited_in_order() {
        let how = Strided { here: &[10, 100], there: &[-4, 50], counts: &[3, 2, 3] };
        let mut seen = Vec::new();
        how.walk(|here, there| seen.push((here, there)));
        assert_eq!(seen, [(0, 0), (10, -4), (100, 50), (110, 46), (200, 100), (210, 96)]);
    }

    #[test]
    fn a_row_alone_is_visited_once() {
        let mut seen = 0;
        Strided { here: &[], there: &[], counts: &[8] }.walk(|_, _| seen += 1);
        assert_eq!(seen, 1);
    }
}

//! Shared memory of System V: what the kernel lists, and removing it. Banyan makes none of its own.
use crate::process::Pid;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{fs, io};

const LIST: &str = "/proc/sysvipc/shm";
/// The key of segments that can be found by their number only.
const PRIVATE: i32 = libc::IPC_PRIVATE;

/// A segment, as the kernel tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// What it was asked for by.
    pub key: i32,
    /// Its number.
    pub id: i32,
    /// Its size.
    pub bytes: u64,
    /// Who made it; 0 if that process is of another namespace.
    pub creator: Pid,
    /// Who attached or detached it last.
    pub last: Pid,
    /// Processes that have it mapped.
    pub attached: u64,
    /// The user it belongs to.
    pub owner: u32,
    /// When it was made, or its rights changed: the beginning of that second.
    pub changed: SystemTime,
}

impl Segment {
    /// Can nobody find it who was not told its number?
    pub fn is_private(&self) -> bool {
        self.key == PRIVATE
    }

    /// Removes it from the system; who has it mapped keeps it until then.
    pub fn remove(&self) -> io::Result<()> {
        // SAFETY: removing takes no buffer, so none is read or written.
        match unsafe { libc::shmctl(self.id, libc::IPC_RMID, std::ptr::null_mut()) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// key, shmid, perms, size, cpid, lpid, nattch, uid, gid, cuid, cgid, atime, dtime, ctime, and more.
    fn parse(line: &str) -> Option<Self> {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let seconds: u64 = fields.get(13)?.parse().ok()?;
        Some(Segment {
            key: fields[0].parse().ok()?,
            id: fields[1].parse().ok()?,
            bytes: fields[3].parse().ok()?,
            creator: Pid(fields[4].parse().ok()?),
            last: Pid(fields[5].parse().ok()?),
            attached: fields[6].parse().ok()?,
            owner: fields[7].parse().ok()?,
            changed: UNIX_EPOCH + Duration::from_secs(seconds),
        })
    }
}

/// All segments of this host; none where the kernel has no such memory.
pub fn segments() -> Vec<Segment> {
    let list = fs::read_to_string(LIST).unwrap_or_default();
    list.lines().filter_map(Segment::parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_list_is_a_segment_and_its_head_is_none() {
        let line = "  0   59768832  1660  4296704 14982 14983  1  1000  0  0  0 1794738971  0 1794738972  2097152  0";
        let segment = Segment::parse(line).unwrap();
        assert!(segment.is_private());
        assert_eq!(
            (segment.id, segment.bytes, segment.attached, segment.owner),
            (59_768_832, 4_296_704, 1, 1000)
        );
        assert_eq!((segment.creator, segment.last), (Pid(14_982), Pid(14_983)));
        assert_eq!(segment.changed, UNIX_EPOCH + Duration::from_secs(1_794_738_972));
        assert_eq!(
            Segment::parse("key shmid perms size cpid lpid nattch uid gid cuid cgid atime dtime ctime"),
            None
        );
        assert_eq!(Segment::parse("0 1 2"), None);
    }

    #[test]
    fn what_is_made_is_listed_until_it_is_removed() {
        // SAFETY: makes a segment of one page, attached nowhere.
        let id = unsafe { libc::shmget(PRIVATE, 4096, libc::IPC_CREAT | 0o600) };
        assert!(id >= 0, "{}", io::Error::last_os_error());
        let find = || segments().into_iter().find(|segment| segment.id == id);
        let made = find().expect("it is listed");
        assert_eq!((made.creator, made.attached, made.bytes), (Pid::own(), 0, 4096));
        made.remove().unwrap();
        assert_eq!(find(), None);
        assert!(made.remove().is_err());
    }
}

//! Faults at a moment: words in a file that the thread of a device watches, or given to a function.
//!
//! | word | what happens |
//! |---|---|
//! | `down=PORT`, `up=PORT` | a port goes down or comes up; nothing moves meanwhile |
//! | `remove` | the device is gone: everything posted is flushed, later calls fail |
//! | `break=QP`, `break` | a queue pair by its number, or every connected one, breaks by itself |
//!
//! Words are separated by commas or white space. `standin1:remove` is for one device only. The file `control` of the directory is
//! for all processes, `control.PID` for one; what is in it is done when a device is opened, and whenever it has changed.
use crate::adapter::Adapter;
use crate::machine::Kind;
use crate::settings::{PORTS_MAX, number};
use verbs::ffi::*;

/// Something that is to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Port(u8, PortIs),
    Removed,
    Broken(Option<u32>),
}

/// What becomes of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PortIs {
    Up,
    Down,
}

/// What is in the files.
#[derive(Debug, Default)]
pub(crate) struct Controls {
    seen: [String; 2],
}

impl Controls {
    pub(crate) fn new(adapter: &mut Adapter) -> Controls {
        let mut controls = Controls::default();
        controls.look(adapter);
        controls
    }

    /// Does what is new in the files.
    pub(crate) fn look(&mut self, adapter: &mut Adapter) {
        let Some(directory) = adapter.links.directory().map(std::path::Path::to_path_buf) else { return };
        let names = ["control".to_string(), format!("control.{}", std::process::id())];
        for (seen, name) in self.seen.iter_mut().zip(names) {
            let words = std::fs::read_to_string(directory.join(name)).unwrap_or_default();
            if words == *seen {
                continue;
            }
            if let Err(why) = adapter.apply(&words) {
                eprintln!("standin: {why}");
            }
            *seen = words;
        }
    }
}

impl Adapter {
    /// Does what words say, all of it or, if one is wrong, nothing.
    pub(crate) fn apply(&mut self, words: &str) -> Result<(), String> {
        let words = words.split([',', ' ', '\n', '\t']).filter(|word| !word.is_empty());
        let faults: Result<Vec<_>, String> = words.map(|word| self.fault(word)).collect();
        faults?.into_iter().flatten().for_each(|fault| self.happen(fault));
        Ok(())
    }

    /// What a word says, if it is for this device.
    fn fault(&self, word: &str) -> Result<Option<Fault>, String> {
        let (device, word) = word.split_once(':').map_or((None, word), |(device, word)| (Some(device), word));
        let port = || number(word, 1, PORTS_MAX).map(|port| port as u8);
        let fault = match word.split('=').next().unwrap_or(word) {
            "down" => Fault::Port(port()?, PortIs::Down),
            "up" => Fault::Port(port()?, PortIs::Up),
            "remove" => Fault::Removed,
            "break" if word == "break" => Fault::Broken(None),
            "break" => Fault::Broken(Some(number(word, 0, u32::MAX.into())? as u32)),
            _ => return Err(format!("{word}: there is no such word")),
        };
        let is_own = device.is_none_or(|device| device == format!("standin{}", self.device));
        Ok(is_own.then_some(fault))
    }

    fn happen(&mut self, fault: Fault) {
        if self.removed {
            return;
        }
        match fault {
            Fault::Port(port, is) => self.set_port(port, is),
            Fault::Removed => self.remove(),
            Fault::Broken(wanted) => {
                let is_it = |(number, qp): (&u32, &crate::objects::Qp)| {
                    let is_it = wanted.map_or(qp.kind != Kind::Ud, |wanted| wanted == *number);
                    is_it.then_some((*number, qp.raw))
                };
                for (number, raw) in self.qps.iter().filter_map(is_it).collect::<Vec<_>>() {
                    self.raise(IBV_EVENT_QP_FATAL, raw);
                    self.break_qp(number);
                }
            }
        }
    }

    fn set_port(&mut self, port: u8, is: PortIs) {
        let Some(up) = self.up.get_mut(usize::from(port) - 1) else { return };
        let now = is == PortIs::Up;
        if std::mem::replace(up, now) != now {
            self.raise(if now { IBV_EVENT_PORT_ACTIVE } else { IBV_EVENT_PORT_ERR }, port.into());
        }
    }

    fn remove(&mut self) {
        self.removed = true;
        self.links.close();
        self.qps.values_mut().for_each(|qp| qp.shared = None);
        self.raise(IBV_EVENT_DEVICE_FATAL, 0);
        for number in self.qps.keys().copied().collect::<Vec<_>>() {
            self.break_qp(number);
        }
        self.timers.clear();
    }
}

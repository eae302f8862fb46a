//! `banyan info --env`: every variable that somebody may set, with its value, its default and its meaning.
use proto::env::{ReadBy, VARIABLES, Variable, check, unknown};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Variables that are not ours and are read nevertheless: name, default, meaning.
const OTHERS: [(&str, &str, &str); 4] = [
    ("MPIEXEC_TIMEOUT", "no limit", "seconds that a job may take (--timeout)"),
    ("HYDRA_HOST_FILE", "none", "file of hosts (--hostfile)"),
    ("MPICH_CC", "none", "the C compiler of mpicc, where BANYAN_CC is not set"),
    ("MPICH_CXX", "none", "the C++ compiler of mpicxx, where BANYAN_CXX is not set"),
];

/// What is known of a variable here and now.
struct Known {
    name: &'static str,
    value: Option<String>,
    default: &'static str,
    meaning: String,
    read_by: &'static str,
    /// Why it cannot have its value.
    wrong: Option<String>,
}

/// All variables, in a table or as JSON. The exit code says whether all values can be.
pub(super) fn show(is_json: bool) -> i32 {
    let all: Vec<Known> = known();
    let set: BTreeMap<String, String> =
        std::env::vars_os().map(|(name, value)| (text(name), text(value))).collect();
    let unread: Vec<String> =
        unknown(set.keys().map(String::as_str)).iter().map(ToString::to_string).collect();
    if is_json {
        let variables: Vec<Value> = all.iter().map(Known::json).collect();
        sys::say!("{:#}", json!({ "variables": variables, "unknown": unread }));
    } else {
        sys::out::print(&table(&all, &unread));
    }
    i32::from(all.iter().any(|known| known.wrong.is_some()))
}

fn text(text: std::ffi::OsString) -> String {
    text.to_string_lossy().into_owned()
}

fn known() -> Vec<Known> {
    let value = |name: &str| std::env::var_os(name).map(text).filter(|value| !value.is_empty());
    let ours = VARIABLES.iter().filter_map(|variable| {
        let value = value(variable.name);
        let wrong = value
            .as_deref()
            .and_then(|value| check(variable.name, value).err())
            .map(|error| error.to_string());
        let (read_by, default) = (reader(variable)?, variable.default());
        let meaning = format!("{}: {}", variable.meaning, variable.values);
        Some(Known { name: variable.name, value, default, meaning, read_by, wrong })
    });
    let others = OTHERS.iter().map(|(name, default, meaning)| Known {
        name,
        value: value(name),
        default,
        meaning: (*meaning).into(),
        read_by: if name.starts_with("MPICH") { "compilers" } else { "launcher" },
        wrong: None,
    });
    ours.chain(others).collect()
}

/// Who reads it; nobody for what is the tests' or the launcher's own business.
fn reader(variable: &Variable) -> Option<&'static str> {
    match variable.read_by {
        ReadBy::Library => Some("library"),
        ReadBy::Launcher => Some("launcher"),
        ReadBy::Compilers => Some("compilers"),
        ReadBy::LibraryFromLauncher | ReadBy::Tests => None,
    }
}

impl Known {
    fn json(&self) -> Value {
        json!({
            "name": self.name,
            "value": self.value,
            "default": self.default,
            "meaning": self.meaning,
            "read_by": self.read_by,
            "wrong": self.wrong,
        })
    }
}

fn table(all: &[Known], unread: &[String]) -> String {
    let mut text = String::new();
    for known in all {
        let value = match (&known.value, &known.wrong) {
            (Some(value), None) => format!("= {value} (default: {})", known.default),
            (Some(_), Some(wrong)) => format!("wrong: {wrong} (default: {})", known.default),
            (None, _) => format!("not set (default: {})", known.default),
        };
        writeln!(text, "{:<23} {value}\n{:<23} {}", known.name, "", known.meaning)
            .expect("a string takes all");
    }
    for unread in unread {
        writeln!(text, "warning: {unread}").expect("a string takes all");
    }
    text
}

//! Settings of the library: the variables of the environment that users may set, and what a program (or a tool in it) has put
//! in their place before the engine starts. The engine reads them once, at its start.
use super::Registry;
use crate::error::{ErrorClass, MpiError, Result};
use proto::env::{PMI_VERSION, ReadBy, VARIABLES};
pub use proto::env::{Values, Variable};

/// All settings. (The version of PMI is between the process and its launcher.)
pub fn settings() -> impl Iterator<Item = &'static Variable> {
    VARIABLES.iter().filter(|variable| variable.read_by == ReadBy::Library && variable.name != PMI_VERSION)
}

impl Registry {
    /// What a setting is, as text; nothing stands for its default.
    pub fn setting(&self, name: &str) -> Option<String> {
        match self.settings.get(name) {
            Some(value) => Some(value.clone()),
            None => std::env::var_os(name).map(|value| value.to_string_lossy().into_owned()),
        }
    }

    /// Puts a value in the place of the environment's, for an engine that starts later.
    pub fn set_setting(&mut self, variable: &'static Variable, value: &str) -> Result<()> {
        if !value.is_empty() {
            let check = variable.values.check(variable.name, value);
            check.map_err(|error| MpiError::new(ErrorClass::Arg, error.to_string()))?;
        }
        self.settings.insert(variable.name, value.into());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::core::{registry, settings};

    #[test]
    fn a_setting_takes_the_place_of_the_variable() {
        let warn = settings().find(|variable| variable.name == "BANYAN_WAIT_WARN").expect("it is a setting");
        assert!(registry().set_setting(warn, "soon").is_err());
        registry().set_setting(warn, "7").unwrap();
        assert_eq!(registry().setting(warn.name).as_deref(), Some("7"));
        registry().set_setting(warn, "").unwrap();
        assert_eq!(registry().setting(warn.name).as_deref(), Some(""));
    }
}

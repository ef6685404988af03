//! The result of the settings file and flags: the settings with the origin of each value, or all faults.

use std::collections::BTreeMap;
use std::fmt;

use super::Settings;
use super::keys::{KEYS, Restart};
use crate::yaml::{Location, Node, written};

/// The origin of a value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Origin {
    /// The default.
    #[default]
    Default,
    /// The file.
    File(Location),
    /// A flag.
    Flag(&'static str),
}

impl Origin {
    /// The location, `lockgate.yaml:12:14` or `--connect-timeout`; empty for a default.
    pub fn within(self, file: &str) -> String {
        match self {
            Self::File(Location { line, column }) => format!("{file}:{line}:{column}"),
            Self::Flag(flag) => flag.to_owned(),
            Self::Default => String::new(),
        }
    }
}

/// A value from a flag.
#[derive(Debug, Clone)]
pub struct Override {
    /// The key.
    pub key: &'static str,
    /// The flag: `--connect-timeout`.
    pub flag: &'static str,
    /// The value in the format of the file.
    pub value: Node,
}

/// Settings, and the origin of each value that is not the default.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Resolved {
    /// The settings.
    pub settings: Settings,
    /// The origins by key.
    pub origins: BTreeMap<&'static str, Origin>,
    /// By key: values of the file that a flag overrides.
    pub hidden: BTreeMap<&'static str, Other>,
    /// By key: values that become effective after a restart of the controller.
    pub waiting: BTreeMap<&'static str, Other>,
}

/// A value that is not effective.
#[derive(Debug, Clone, PartialEq)]
pub struct Other {
    /// The origin.
    pub origin: Origin,
    /// The value in the format of the file.
    pub value: serde_json::Value,
}

impl Other {
    /// The value in the format of the file.
    pub fn written(&self) -> String {
        written(&self.value)
    }
}

impl Resolved {
    /// Returns the effective settings of a process that runs with `running`. Values that need a restart of the
    /// controller keep their running values, and wait.
    pub fn in_place_of(mut self, running: &Self) -> Self {
        for key in KEYS.iter().filter(|key| key.restart == Some(Restart::Controller)) {
            let value = (key.show)(&self.settings);
            if value == (key.show)(&running.settings) {
                continue;
            }
            let origin = match running.origins.get(key.path) {
                Some(running) => self.origins.insert(key.path, *running),
                None => self.origins.remove(key.path),
            };
            (key.copy)(&mut self.settings, &running.settings);
            self.waiting.insert(key.path, Other { origin: origin.unwrap_or_default(), value });
        }
        self
    }
}

/// A fault of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingsFault {
    /// The location.
    pub origin: Origin,
    /// The path of the key; empty if unknown.
    pub key: String,
    /// The message: lower case, no full stop.
    pub message: String,
}

/// All faults of a file and of flags, in the order of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingsFaults {
    /// The name of the file as given by the user.
    pub file: String,
    /// The faults, at least one.
    pub faults: Vec<SettingsFault>,
}

impl std::error::Error for SettingsFaults {}

/// Formats one line per fault: `lockgate.yaml:12:14: timeouts.connect: "2" is not a valid duration: expected …`.
impl fmt::Display for SettingsFaults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, fault) in self.faults.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            f.write_str(&self.line(fault))?;
        }
        Ok(())
    }
}

impl SettingsFaults {
    /// Formats one fault after the name of the file.
    pub fn line(&self, fault: &SettingsFault) -> String {
        let SettingsFault { origin, key, message } = fault;
        let place = origin.within(&self.file);
        let parts = [&*place, key, message].into_iter().filter(|part| !part.is_empty());
        parts.collect::<Vec<_>>().join(": ")
    }
}

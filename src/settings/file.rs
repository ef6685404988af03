//! From a settings file and flags to [`Settings`]: every value checked, every fault told, and of each value where it
//! comes from.

use std::collections::BTreeMap;
use std::fmt;

use super::keys::{KEYS, Key, key};
use super::values::{found, quoted};
use super::yaml::{self, Content, Node, Place, Wrong};
use super::{Settings, check, foreign, nearest};

/// Where a value comes from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Origin {
    /// Nobody has set it.
    #[default]
    Default,
    /// The file.
    File(Place),
    /// This flag.
    Flag(&'static str),
}

/// A value that a flag gives instead of the file.
#[derive(Debug, Clone)]
pub struct Override {
    /// The key that it is of.
    pub key: &'static str,
    /// The flag: `--connect-timeout`.
    pub flag: &'static str,
    /// The value, as the file would have it.
    pub value: Node,
}

/// Settings, and of each key that is not the default where it comes from.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Resolved {
    /// The settings.
    pub settings: Settings,
    /// By key.
    pub origins: BTreeMap<&'static str, Origin>,
}

/// What is wrong with a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Where.
    pub origin: Origin,
    /// The path of the key; empty if none is known.
    pub key: String,
    /// What: lower case, no full stop.
    pub message: String,
}

/// All that is wrong with a file and flags, in the order of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Faults {
    /// The file, as it was named.
    pub file: String,
    /// At least one.
    pub faults: Vec<Fault>,
}

impl std::error::Error for Faults {}

/// `lockgate.yaml:12:14: timeouts.connect: "2" is no duration: expected …`, a line for each fault.
impl fmt::Display for Faults {
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

impl Faults {
    /// One fault with the file before it.
    pub fn line(&self, fault: &Fault) -> String {
        let Fault { origin, key, message } = fault;
        let place = match origin {
            Origin::File(Place { line, column }) => format!("{}:{line}:{column}: ", self.file),
            Origin::Flag(flag) => format!("{flag}: "),
            Origin::Default => String::new(),
        };
        let key = if key.is_empty() { String::new() } else { format!("{key}: ") };
        format!("{place}{key}{message}")
    }
}

/// The settings of the file `name` with the content `text`, and of the flags, which win.
/// Errors: all that is wrong.
pub fn resolve(name: &str, text: &str, overrides: &[Override]) -> Result<Resolved, Faults> {
    let mut reading = Reading::default();
    match yaml::read(text) {
        Ok(document) => reading.group("", &document),
        Err(Wrong { place, message }) => reading.fault(Origin::File(place), "", message),
    }
    for Override { key: path, flag, value } in overrides {
        if let Some(key) = key(path) {
            reading.leaf(key, value, Origin::Flag(flag));
        }
    }
    let Reading { resolved, mut faults } = reading;
    // What has faults is not what the user meant; faults that come of that would only confuse.
    if faults.is_empty() {
        faults = check::all(&resolved);
    }
    match faults.is_empty() {
        true => Ok(resolved),
        false => {
            faults.sort_by_key(|fault| match fault.origin {
                Origin::File(place) => (0, place),
                Origin::Flag(_) | Origin::Default => (1, Place::default()),
            });
            Err(Faults { file: name.to_owned(), faults })
        }
    }
}

#[derive(Default)]
struct Reading {
    resolved: Resolved,
    faults: Vec<Fault>,
}

impl Reading {
    fn fault(&mut self, origin: Origin, key: &str, message: impl Into<String>) {
        self.faults.push(Fault { origin, key: key.to_owned(), message: message.into() });
    }

    /// Reads the keys below `path`, which is empty for the whole file.
    fn group(&mut self, path: &str, node: &Node) {
        let fields = match &node.content {
            Content::Nothing => return,
            Content::Object(fields) => fields,
            other => {
                let message =
                    format!("expected an object with the keys {}, found {}", children(path).join(", "), found(other));
                return self.fault(Origin::File(node.place), path, message);
            }
        };
        for field in fields {
            let inner = if path.is_empty() { field.key.clone() } else { format!("{path}.{}", field.key) };
            match key(&inner) {
                Some(key) => self.leaf(key, &field.value, Origin::File(field.place)),
                None if is_group(&inner) => self.group(&inner, &field.value),
                None => {
                    let message = unknown(path, &field.key, &inner);
                    self.fault(Origin::File(field.place), &inner, message);
                    self.hints(&inner, &field.value);
                }
            }
        }
    }

    /// Tells of keys below one that is not known what they are here.
    fn hints(&mut self, path: &str, node: &Node) {
        let Content::Object(fields) = &node.content else { return };
        for field in fields {
            let inner = format!("{path}.{}", field.key);
            match foreign::of_contour(&inner) {
                Some(hint) => self.fault(Origin::File(field.place), &inner, hint),
                None => self.hints(&inner, &field.value),
            }
        }
    }

    /// Reads the value of `key`. An empty one is as good as none.
    fn leaf(&mut self, key: &'static Key, node: &Node, origin: Origin) {
        if node.content == Content::Nothing {
            return;
        }
        let mut wrong = Vec::new();
        if (key.read)(&mut self.resolved.settings, node, &mut wrong) {
            self.resolved.origins.insert(key.path, origin);
        }
        for Wrong { place, message } in wrong {
            let origin = match origin {
                Origin::File(_) => Origin::File(place),
                other => other,
            };
            self.fault(origin, key.path, message);
        }
    }
}

/// Whether there are keys below `path`.
fn is_group(path: &str) -> bool {
    KEYS.iter().any(|key| key.path.strip_prefix(path).is_some_and(|rest| rest.starts_with('.')))
}

/// The names right below `path`, in the order of the table.
fn children(path: &str) -> Vec<&'static str> {
    let mut names: Vec<&str> = Vec::new();
    for key in KEYS {
        let below = match path {
            "" => Some(key.path),
            _ => key.path.strip_prefix(path).and_then(|rest| rest.strip_prefix('.')),
        };
        let name = below.map(|below| below.split('.').next().unwrap_or(below));
        if let Some(name) = name
            && !names.contains(&name)
        {
            names.push(name);
        }
    }
    names
}

/// What to tell of the key `name` below `path`, which is not in the table.
fn unknown(path: &str, name: &str, whole: &str) -> String {
    if let Some(hint) = foreign::hint(whole) {
        return hint;
    }
    if let Some(near) = nearest(name, children(path)) {
        return format!("unknown key {}; did you mean {near}?", quoted(name));
    }
    // The right name in the wrong place.
    let folded = foreign::folded(name);
    let elsewhere = KEYS.iter().map(|key| key.path).find(|path| {
        let own = path.rsplit('.').next().unwrap_or(path);
        foreign::folded(own) == folded || foreign::folded(&path.replace('.', "")) == folded
    });
    match elsewhere {
        Some(place) => format!("unknown key {}; did you mean {place}?", quoted(name)),
        None => format!("unknown key {}; known here: {}", quoted(name), children(path).join(", ")),
    }
}

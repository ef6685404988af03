//! From a settings file and flags to [`Settings`]: every value checked, every fault told, and of each value where it
//! comes from.

use std::collections::BTreeMap;
use std::fmt;

use super::keys::{KEYS, Key, Restart, key};
use super::print::written;
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

impl Origin {
    /// The place: `lockgate.yaml:12:14` in that file, `--connect-timeout`; empty if nobody has set it.
    pub fn within(self, file: &str) -> String {
        match self {
            Self::File(Place { line, column }) => format!("{file}:{line}:{column}"),
            Self::Flag(flag) => flag.to_owned(),
            Self::Default => String::new(),
        }
    }
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
    /// By key: what the file says, where a flag says something else.
    pub hidden: BTreeMap<&'static str, Other>,
    /// By key: what will be after a restart of the controller, where that is something else than what holds.
    pub waiting: BTreeMap<&'static str, Other>,
}

/// A value that does not hold.
#[derive(Debug, Clone, PartialEq)]
pub struct Other {
    /// Where it comes from.
    pub origin: Origin,
    /// The value as it may be written in a file.
    pub value: serde_json::Value,
}

impl Other {
    /// The value as the file would have it.
    pub fn written(&self) -> String {
        written(&self.value)
    }
}

impl Resolved {
    /// What holds of these settings in a process that runs with `running`: what needs a restart of the controller stays as it
    /// is there, and waits.
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
        let place = origin.within(&self.file);
        let parts = [&*place, key, message].into_iter().filter(|part| !part.is_empty());
        parts.collect::<Vec<_>>().join(": ")
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
            reading.flag(key, flag, value);
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

    /// Reads the value of `key` that `flag` gives. It wins over that of the file, which is not forgotten.
    fn flag(&mut self, key: &'static Key, flag: &'static str, node: &Node) {
        let origin = self.resolved.origins.get(key.path).copied();
        let value = (key.show)(&self.resolved.settings);
        self.leaf(key, node, Origin::Flag(flag));
        if let Some(origin @ Origin::File(_)) = origin
            && value != (key.show)(&self.resolved.settings)
        {
            self.resolved.hidden.insert(key.path, Other { origin, value });
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

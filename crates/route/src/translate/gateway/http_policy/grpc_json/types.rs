//! The messages of a descriptor set that Envoy can convert, and their descriptors in a plain form.
//!
//! The descriptors are written again instead of copied, so that no descriptor of a tenant is one that Envoy rejects: a rejected route can delay
//! the routes of others.

use std::collections::{HashMap, HashSet};

use super::wire::{
    DescribedTypes, ENUM, EnumDescriptor, EnumValueDescriptor, FieldDescriptor, FileDescriptor, GROUP, MESSAGE,
    MessageDescriptor, OPTIONAL, REPEATED, STRING,
};

/// The package of the messages.
pub const PACKAGE: &str = "lockgate_json";
/// The name of every enum. Each is nested in a message of its own, because the values of two enums in one scope need different names.
const ENUM_NAME: &str = "LockgateEnum";
/// The longest name. A short response can contain a long name many times.
const NAME: usize = 64;
/// The maximum number of fields of a message. Each variable of a path looks up its field.
const FIELDS: usize = 512;
/// The maximum number of messages within each other.
const DEPTH: usize = 32;
/// The numbers that Protobuf reserves.
const RESERVED: std::ops::RangeInclusive<i32> = 19_000..=19_999;
/// The largest number of a field.
const LARGEST: i32 = (1 << 29) - 1;

/// The name, the number, the type, and the label of a field.
type KnownField = (&'static str, i32, i32, i32);

/// The messages with a format of their own in JSON, and their fields.
const WELL_KNOWN: [(&str, &[KnownField]); 12] = [
    ("Timestamp", &[("seconds", 1, 3, OPTIONAL), ("nanos", 2, 5, OPTIONAL)]),
    ("Duration", &[("seconds", 1, 3, OPTIONAL), ("nanos", 2, 5, OPTIONAL)]),
    ("FieldMask", &[("paths", 1, STRING, REPEATED)]),
    ("DoubleValue", &[("value", 1, 1, OPTIONAL)]),
    ("FloatValue", &[("value", 1, 2, OPTIONAL)]),
    ("Int64Value", &[("value", 1, 3, OPTIONAL)]),
    ("UInt64Value", &[("value", 1, 4, OPTIONAL)]),
    ("Int32Value", &[("value", 1, 5, OPTIONAL)]),
    ("UInt32Value", &[("value", 1, 13, OPTIONAL)]),
    ("BoolValue", &[("value", 1, 8, OPTIONAL)]),
    ("StringValue", &[("value", 1, STRING, OPTIONAL)]),
    ("BytesValue", &[("value", 1, 12, OPTIONAL)]),
];
/// The messages whose conversion crashes Envoy 1.40, or that can contain such a message.
const DYNAMIC: [&str; 4] = ["Struct", "Value", "ListValue", "Any"];

/// The number of messages within each other, or why a message cannot be converted. `None`: its fields are being checked.
type Checked = Option<Result<usize, String>>;

/// The messages of a set.
pub struct Messages<'s> {
    types: &'s DescribedTypes<'s>,
    /// The messages that were checked.
    checked: HashMap<&'s str, Checked>,
    /// The enums that were checked, with whether they can be converted.
    enums: HashMap<&'s str, bool>,
    /// The messages and enums that are written, in order, with their descriptors once they are complete.
    numbers: HashMap<&'s str, usize>,
    written: Vec<MessageDescriptor>,
    well_known: Vec<&'static str>,
}

impl<'s> Messages<'s> {
    /// Returns the messages of these types. None is written yet.
    pub fn new(types: &'s DescribedTypes<'s>) -> Self {
        let (checked, enums, numbers) = (HashMap::new(), HashMap::new(), HashMap::new());
        Self { types, checked, enums, numbers, written: Vec::new(), well_known: Vec::new() }
    }

    /// Checks whether Envoy can convert the message with this name. The error says why not.
    pub fn check(&mut self, name: &str) -> Result<(), String> {
        self.height(name, 0).map(drop)
    }

    /// Returns the number of messages within each other.
    fn height(&mut self, name: &str, depth: usize) -> Result<usize, String> {
        if well_known(name).is_some() {
            return Ok(1);
        }
        if DYNAMIC.iter().any(|one| name.strip_prefix(".google.protobuf.") == Some(one)) {
            return Err(format!("contains a {}", name.trim_start_matches('.')));
        }
        let types = self.types;
        let Some((name, message)) = types.messages.get_key_value(name) else {
            return Err(format!("contains message {:?}, which the descriptors lack", shown(name)));
        };
        match self.checked.get(name.as_str()) {
            Some(Some(checked)) => return checked.clone(),
            Some(None) => return Err(format!("contains message {:?}, which contains itself", shown(name))),
            None if depth > DEPTH => return Err(format!("contains more than {DEPTH} messages within each other")),
            None => drop(self.checked.insert(name, None)),
        }
        let mut checked = self.fields(name, message, depth);
        if checked.as_ref().is_ok_and(|height| *height > DEPTH) {
            checked = Err(format!("contains more than {DEPTH} messages within each other"));
        }
        self.checked.insert(name, Some(checked.clone()));
        checked
    }

    fn fields(&mut self, name: &str, message: &'s MessageDescriptor, depth: usize) -> Result<usize, String> {
        if message.field.len() > FIELDS {
            return Err(format!("contains message {:?}, which has more than {FIELDS} fields", shown(name)));
        }
        let (mut names, mut numbers, mut height) = (HashMap::new(), HashSet::new(), 0);
        for (at, field) in message.field.iter().enumerate() {
            let fault = |text: &str| {
                Err(format!("contains field {:?} of {:?}, which {text}", shown(field.name()), shown(name)))
            };
            let number = field.number();
            if !(1..=LARGEST).contains(&number) || RESERVED.contains(&number) || !numbers.insert(number) {
                return fault("has a number that is not valid");
            }
            let (json, camel_case) = (json_name(field), camel_case(field.name()));
            let is_json = |c: char| c.is_ascii_alphanumeric() || "_.-$@".contains(c);
            if !is_identifier(field.name()) || json.is_empty() || json.len() > NAME || !json.chars().all(is_json) {
                return fault("has a name that is not valid");
            }
            for name in [field.name().to_owned(), json, camel_case] {
                if names.insert(name, at).is_some_and(|other| other != at) {
                    return fault("has the name of another field");
                }
            }
            match field.r#type() {
                GROUP => return fault("is a group"),
                MESSAGE => {
                    let of = self.types.messages.get(field.type_name());
                    if of.and_then(|of| of.options.as_ref()).is_some_and(|options| options.map_entry()) {
                        return fault("is a map");
                    }
                    height = height.max(self.height(field.type_name(), depth + 1)?);
                }
                ENUM if self.has_enum(field.type_name()) => {}
                ENUM => return fault("has an enum that is not one of proto3"),
                1..=18 => {}
                _ => return fault("has a type that is not known"),
            }
        }
        Ok(height + 1)
    }

    /// Returns whether there is an enum with this name that Envoy can convert.
    fn has_enum(&mut self, name: &str) -> bool {
        let Some((name, values)) = self.types.enums.get_key_value(name) else { return false };
        *self.enums.entry(name).or_insert_with(|| is_convertible(values))
    }

    /// Returns the new name of a message that was checked. It is written with all messages that it contains.
    pub fn write(&mut self, name: &str) -> String {
        if let Some(name) = well_known(name) {
            if !self.well_known.contains(&name) {
                self.well_known.push(name);
            }
            return format!(".google.protobuf.{name}");
        }
        let types = self.types;
        let Some((name, message)) = types.messages.get_key_value(name) else { return String::new() };
        let (number, is_new) = self.number(name);
        if is_new {
            let field: Vec<_> = message.field.iter().map(|field| self.field(field)).collect();
            if let Some(written) = self.written.get_mut(number) {
                written.field = field;
            }
        }
        format!(".{PACKAGE}.T{number}")
    }

    fn field(&mut self, field: &FieldDescriptor) -> FieldDescriptor {
        let type_name = match field.r#type() {
            MESSAGE => Some(self.write(field.type_name())),
            ENUM => Some(self.write_enum(field.type_name())),
            _ => None,
        };
        FieldDescriptor {
            name: field.name.clone(),
            number: field.number,
            label: Some(if field.label() == REPEATED { REPEATED } else { OPTIONAL }),
            r#type: field.r#type,
            type_name,
            json_name: Some(json_name(field)),
        }
    }

    fn write_enum(&mut self, name: &str) -> String {
        let types = self.types;
        let Some((name, values)) = types.enums.get_key_value(name) else { return String::new() };
        let (number, is_new) = self.number(name);
        if is_new && let Some(written) = self.written.get_mut(number) {
            let mut numbers = HashSet::new();
            let value = values.value.iter().filter(|value| numbers.insert(value.number())).cloned().collect();
            written.enum_type = vec![EnumDescriptor { name: Some(ENUM_NAME.to_owned()), value }];
        }
        format!(".{PACKAGE}.T{number}.{ENUM_NAME}")
    }

    /// Returns the number of a type, and whether it is new.
    fn number(&mut self, name: &'s str) -> (usize, bool) {
        let next = self.written.len();
        let number = *self.numbers.entry(name).or_insert(next);
        let is_new = number == next;
        if is_new {
            let name = Some(format!("T{number}"));
            self.written.push(MessageDescriptor { name, ..MessageDescriptor::default() });
        }
        (number, is_new)
    }

    /// Returns the files with the messages that were written.
    pub fn into_files(self) -> [FileDescriptor; 2] {
        let field = |&(name, number, of, label): &KnownField| FieldDescriptor {
            name: Some(name.to_owned()),
            number: Some(number),
            label: Some(label),
            r#type: Some(of),
            type_name: None,
            json_name: Some(name.to_owned()),
        };
        let known = WELL_KNOWN.iter().filter(|(name, _)| self.well_known.contains(name));
        let known = known.map(|(name, fields)| MessageDescriptor {
            name: Some((*name).to_owned()),
            field: fields.iter().map(field).collect(),
            ..MessageDescriptor::default()
        });
        let file = |name: &str, package: &str, dependency, message_type| FileDescriptor {
            name: Some(name.to_owned()),
            package: Some(package.to_owned()),
            dependency,
            message_type,
            syntax: Some("proto3".to_owned()),
            ..FileDescriptor::default()
        };
        let [of_known, of_written] = FILES;
        [
            file(of_known, "google.protobuf", Vec::new(), known.collect()),
            file(of_written, PACKAGE, vec![of_known.to_owned()], self.written),
        ]
    }
}

/// The names of the files with messages.
pub const FILES: [&str; 2] = ["lockgate/well_known.proto", "lockgate/types.proto"];

/// Returns the message with a format of its own that has this name.
fn well_known(name: &str) -> Option<&'static str> {
    let name = name.strip_prefix(".google.protobuf.")?;
    WELL_KNOWN.iter().map(|(known, _)| *known).find(|known| *known == name)
}

/// Returns the beginning of a name of a tenant for a message. Many messages can contain it.
pub fn shown(name: &str) -> &str {
    name.char_indices().nth(2 * NAME).and_then(|(end, _)| name.get(..end)).unwrap_or(name)
}

/// Returns whether a text is a name of Protobuf of at most 64 characters.
pub fn is_identifier(text: &str) -> bool {
    let is_name = text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    is_name && text.len() <= NAME && !text.starts_with(|c: char| c.is_ascii_digit()) && !text.is_empty()
}

fn json_name(field: &FieldDescriptor) -> String {
    field.json_name.clone().unwrap_or_else(|| camel_case(field.name()))
}

/// Returns the name of a field in JSON unless the field has another one: without each `_`, and with the letter after it in upper case.
fn camel_case(name: &str) -> String {
    let mut is_upper = false;
    let letter = |c: char| {
        let written = (c != '_').then(|| if is_upper { c.to_ascii_uppercase() } else { c });
        is_upper = c == '_';
        written
    };
    name.chars().filter_map(letter).collect()
}

/// Returns whether the values of an enum are those of one of proto3, which Envoy's library accepts.
fn is_convertible(values: &EnumDescriptor) -> bool {
    let plain = |value: &EnumValueDescriptor| value.name().replace('_', "").to_ascii_lowercase();
    let mut names = HashSet::new();
    // The library compares the names without case, `_`, and the name of the enum.
    let is_valid = |value: &EnumValueDescriptor| {
        let plain = plain(value);
        is_identifier(value.name()) && !plain.starts_with(&ENUM_NAME.to_ascii_lowercase()) && names.insert(plain)
    };
    values.value.first().is_some_and(|first| first.number() == 0) && values.value.iter().all(is_valid)
}

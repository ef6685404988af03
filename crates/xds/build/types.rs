//! Writes the table of all message types as Rust source. It is read by `protobuf::types`.
//!
//! Decoding the descriptors takes 110 million instructions and several MiB. Every process that serves needs the table, and
//! few need the descriptors.

use std::collections::HashMap;
use std::fmt::Write;

use anyhow::{Context, Result};
use prost_reflect::{DescriptorPool, ExtensionDescriptor, Kind, MessageDescriptor};

/// The start of every type URL.
const TYPE_URL_PREFIX: &str = "type.googleapis.com/";

/// Errors in the versioning annotations: names of messages that never existed, and the correct ones.
const CORRECTIONS: &[(&str, &str)] =
    &[("envoy.config.filter.http.ext_authz.v3.ExtAuthz", "envoy.config.filter.http.ext_authz.v2.ExtAuthz")];

/// Omissions of the annotations: messages with two names that are both still in use.
const TWICE: &[(&str, &str)] = &[("xds.type.v3.TypedStruct", "udpa.type.v1.TypedStruct")];

/// A field that holds messages or is a map.
struct Field {
    number: u32,
    is_map: bool,
    /// The index of the type of the messages.
    message: Option<usize>,
}

/// Returns the source of a slice of `Type`, one for each message in `descriptors`, an encoded `FileDescriptorSet`.
pub fn source(descriptors: &[u8]) -> Result<String> {
    let pool = DescriptorPool::decode(descriptors).context("cannot read the descriptors")?;
    let annotation = pool.get_extension_by_name("udpa.annotations.versioning");
    let annotation = annotation.context("the descriptors have no versioning annotation")?;
    let messages: Vec<_> = pool.all_messages().filter(|message| !message.is_map_entry()).collect();
    let indexes: HashMap<_, _> =
        messages.iter().enumerate().map(|(index, message)| (message.full_name(), index)).collect();
    let fields: Vec<Vec<Field>> = messages.iter().map(|message| fields(message, &indexes)).collect();
    let is_any = |message: &MessageDescriptor| message.full_name() == "google.protobuf.Any";
    let unstable = unstable(messages.iter().map(is_any).collect(), &fields);
    let mut source = "&[\n".to_owned();
    for ((message, fields), unstable) in messages.iter().zip(fields).zip(unstable) {
        let url = |name: &str| format!("{TYPE_URL_PREFIX}{name}");
        let (name, v2) = (url(message.full_name()), v2_name(message, &annotation).map(|name| url(&name)));
        write!(source, "Type {{ url: {name:?}, v2: {v2:?}, any: {}, unstable: {unstable}, ", is_any(message))?;
        write!(source, "fields: &[")?;
        for Field { number, is_map, message } in fields {
            match (is_map, message) {
                (true, message) => write!(source, "({number}, FieldType::Map({message:?})), ")?,
                (false, Some(message)) => write!(source, "({number}, FieldType::Message({message})), ")?,
                (false, None) => {}
            }
        }
        writeln!(source, "] }},")?;
    }
    Ok(source + "]\n")
}

/// Returns the fields of `message` that hold messages or are maps, by number.
fn fields(message: &MessageDescriptor, indexes: &HashMap<&str, usize>) -> Vec<Field> {
    let index = |message: &MessageDescriptor| indexes.get(message.full_name()).copied();
    let fields = message.fields().filter_map(|field| {
        let Kind::Message(inner) = field.kind() else { return None };
        let (number, is_map) = (field.number(), field.is_map());
        let message = match is_map {
            true => inner.map_entry_value_field().kind().as_message().and_then(index),
            false => index(&inner),
        };
        Some(Field { number, is_map, message })
    });
    let mut fields: Vec<Field> = fields.collect();
    fields.sort_by_key(|field| field.number);
    fields
}

/// Returns for each type whether there is a map or an `Any` in it, at any depth.
fn unstable(any: Vec<bool>, fields: &[Vec<Field>]) -> Vec<bool> {
    let mut unstable = any;
    loop {
        let is = |field: &Field| field.is_map || field.message.is_some_and(|message| unstable[message]);
        let next: Vec<bool> =
            fields.iter().zip(&unstable).map(|(fields, unstable)| *unstable || fields.iter().any(is)).collect();
        if next == unstable {
            return next;
        }
        unstable = next;
    }
}

/// Returns the full name that `message` had in version 2.
fn v2_name(message: &MessageDescriptor, annotation: &ExtensionDescriptor) -> Option<String> {
    if let Some((_, name)) = TWICE.iter().find(|(name, _)| *name == message.full_name()) {
        return Some((*name).to_owned());
    }
    let options = message.options();
    let annotation = options.get_extension(annotation);
    let name = annotation.as_message()?.get_field_by_name("previous_message_type")?;
    let name = name.as_str()?;
    let corrected = CORRECTIONS.iter().find(|(wrong, _)| *wrong == name).map_or(name, |(_, right)| right);
    // Some moved within version 3.
    let is_v2 = !corrected.is_empty() && !corrected.contains(".v3.") && corrected != message.full_name();
    is_v2.then(|| corrected.to_owned())
}

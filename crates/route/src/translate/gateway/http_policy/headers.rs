//! The changes of headers by an HTTPPolicy.

use std::sync::Arc;

use crate::model::{HeaderChange, HeaderName, HeaderValue};
use crate::objects::gateway::{HeaderChangesSpec, HeaderSpec};
use crate::translate::fault::FieldFault;

/// The maximum number of headers in a list. Source: CustomResourceDefinition. Manifests are not validated against it.
const HEADERS: usize = 32;

/// Parses the changes of headers.
pub fn changes(spec: &HeaderChangesSpec) -> Result<Arc<[HeaderChange]>, FieldFault> {
    let HeaderChangesSpec { set, add, remove } = spec;
    for (field, length) in [("set", set.len()), ("add", add.len()), ("remove", remove.len())] {
        if length > HEADERS {
            return Err(FieldFault::new(format!(".{field}"), format!("more than {HEADERS} headers")));
        }
    }
    let name =
        |at: String, text: &str| HeaderName::parse_changeable(text).map_err(|message| FieldFault::new(at, message));
    let header = |field: &str, i: usize, HeaderSpec { name: text, value }: &HeaderSpec| {
        let name = name(format!(".{field}[{i}].name"), text)?;
        let fault =
            || FieldFault::new(format!(".{field}[{i}].value"), format!("{value:?} is not the value of a header"));
        Ok((name, HeaderValue::parse(value).ok_or_else(fault)?))
    };
    let set = set
        .iter()
        .enumerate()
        .map(|(i, one)| header("set", i, one).map(|(name, value)| HeaderChange::Set(name, value)));
    let add = add
        .iter()
        .enumerate()
        .map(|(i, one)| header("add", i, one).map(|(name, value)| HeaderChange::Add(name, value)));
    let remove = remove.iter().enumerate();
    let remove = remove.map(|(i, text)| name(format!(".remove[{i}]"), text).map(HeaderChange::Remove));
    set.chain(add).chain(remove).collect()
}

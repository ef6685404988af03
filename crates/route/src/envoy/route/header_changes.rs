//! Changes of headers.

use envoy_types::pb::envoy::config::core::v3 as core_v3;

use crate::envoy::headers;
use crate::model::HeaderChange;

/// Changes of headers in Envoy's form. Envoy first removes headers, then sets headers, and finally adds values.
#[derive(Debug, Default, PartialEq)]
pub struct EnvoyHeaderChanges {
    /// Headers to set and values to add.
    pub add: Vec<core_v3::HeaderValueOption>,
    /// Headers to remove.
    pub remove: Vec<String>,
}

impl EnvoyHeaderChanges {
    /// Builds the changes that have the same effect as `changes` in their order.
    pub fn new<'a>(changes: impl Iterator<Item = &'a HeaderChange>) -> Self {
        let mut built = Self::default();
        for change in changes {
            match change {
                HeaderChange::Set(name, value) => {
                    let name = name.to_string();
                    built.forget(&name);
                    built.add.push(headers::set(&name, &literal(value.as_str())));
                }
                HeaderChange::SetFormat(name, format) => {
                    let name = name.to_string();
                    built.forget(&name);
                    // Envoy would otherwise keep the value of the client if the new one is empty.
                    built.add.push(core_v3::HeaderValueOption {
                        keep_empty_value: true,
                        ..headers::set(&name, format.as_str())
                    });
                }
                HeaderChange::Add(name, value) => built.add.push(core_v3::HeaderValueOption {
                    append_action: core_v3::header_value_option::HeaderAppendAction::AppendIfExistsOrAdd as i32,
                    ..headers::set(&name.to_string(), &literal(value.as_str()))
                }),
                HeaderChange::Remove(name) => {
                    let name = name.to_string();
                    built.forget(&name);
                    built.remove.push(name);
                }
            }
        }
        built
    }

    /// Drops the earlier changes of a header whose value a later change determines.
    fn forget(&mut self, name: &str) {
        self.add.retain(|option| option.header.as_ref().is_none_or(|header| header.key != name));
        self.remove.retain(|removed| removed != name);
    }
}

/// Returns `text` in Envoy's format, in which `%` has a special meaning.
fn literal(text: &str) -> String {
    text.replace('%', "%%")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::model::{HeaderName, HeaderValue};

    /// Returns the values of a header with the value `old` after Envoy has applied `changes`.
    fn values(changes: &[HeaderChange]) -> Vec<String> {
        use core_v3::header_value_option::HeaderAppendAction;
        let EnvoyHeaderChanges { add, remove } = EnvoyHeaderChanges::new(changes.iter());
        let mut values = if remove.is_empty() { vec!["old".to_owned()] } else { vec![] };
        let of = |action: HeaderAppendAction| {
            let of_action = add.iter().filter(move |option| option.append_action == action as i32);
            of_action.map(|option| option.header.clone().unwrap().value)
        };
        of(HeaderAppendAction::OverwriteIfExistsOrAdd).for_each(|value| values = vec![value]);
        values.extend(of(HeaderAppendAction::AppendIfExistsOrAdd));
        values
    }

    #[test]
    fn changes_apply_in_their_order() {
        let name = || HeaderName::parse("x-team").unwrap();
        let value = |text: &str| HeaderValue::parse(text).unwrap();
        let (set, add) = (HeaderChange::Set(name(), value("1")), HeaderChange::Add(name(), value("2%")));
        let remove = HeaderChange::Remove(name());
        let of = |changes: &[&HeaderChange]| values(&changes.iter().copied().cloned().collect::<Vec<_>>());
        assert_eq!(of(&[&set, &add]), ["1", "2%%"]);
        assert_eq!(of(&[&add, &set]), ["1"]);
        assert_eq!(of(&[&add]), ["old", "2%%"]);
        assert_eq!(of(&[&add, &remove]), [""; 0]);
        assert_eq!(of(&[&remove, &add]), ["2%%"]);
        assert_eq!(of(&[&set, &remove, &add]), ["2%%"]);
        assert_eq!(of(&[&remove, &set]), ["1"]);
    }
}

//! The fault of a single field, for a caller that knows the object and the consequence.

use std::fmt::Display;

/// The fault of a field.
///
/// The parser of a part of an object, such as a feature of a policy, returns it. Its caller knows the field of the part and the
/// consequence of the fault.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FieldFault {
    /// The path of the field below the part, such as `.timeout` or `[0].name`. Empty: the part itself.
    pub field: String,
    /// The fault, with values in quotes: lower case, no full stop.
    pub message: String,
}

impl FieldFault {
    /// Returns the fault of a field.
    pub fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into() }
    }

    /// Returns the fault below the field of the part.
    #[must_use]
    pub fn within(self, part: impl Display) -> Self {
        Self { field: format!("{part}{}", self.field), message: self.message }
    }
}

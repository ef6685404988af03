//! Objects that cannot be decoded completely.

use std::any::Any;

use super::content::{Content, Object};
use super::kind::Kind;
use super::meta::Meta;

/// An object that cannot be decoded completely: it contains text that is not UTF-8, or is malformed as a whole.
#[derive(Debug, Clone, PartialEq)]
pub struct Misencoded {
    /// The kind.
    pub kind: Kind,
    /// The metadata: name, namespace, uid, and generation, without annotations.
    pub meta: Meta,
    /// The path of the first malformed field, empty if unknown.
    pub field: String,
    /// The fault: lower case, no full stop.
    pub message: String,
    /// The object, with U+FFFD for each byte that is not UTF-8. `None` if it cannot be decoded at all; then its
    /// previous version, if any, stays in use.
    pub readable: Option<Object>,
}

impl Content for Misencoded {
    fn kind(&self) -> Kind {
        self.kind
    }

    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn with_meta(&self, meta: Meta) -> Object {
        Object::new(Self { meta, ..self.clone() })
    }

    fn is_same(&self, other: &dyn Any) -> bool {
        other.downcast_ref() == Some(self)
    }
}

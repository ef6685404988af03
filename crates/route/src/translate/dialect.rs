//! The table of dialects: how the objects of each kind that declares routes are translated.

use std::fmt;

use crate::objects::{Kind, Object};

use super::class::Classes;
use super::ingress::{self, Parsed, Reading};

/// How the objects of one kind are translated. A dialect declares hosts, routes, TLS, and clusters of its objects by themselves
/// ([`Parsed`]); conflicts between objects, and everything after them, are the same for all dialects.
#[derive(Clone, Copy)]
pub struct Dialect {
    /// The kind of its objects.
    pub kind: Kind,
    /// Whether an object is served, by its class.
    pub serves: fn(&Object, &Classes) -> bool,
    /// Parses an object that is served. `None` if the object is not of this kind.
    pub parse: fn(&Object, Reading) -> Option<Parsed>,
}

/// Every dialect.
pub static DIALECTS: [Dialect; 1] = [ingress::DIALECT];

/// The dialect of a kind by its name, as references to objects have it.
pub fn by_name<'a>(dialects: &'a [Dialect], kind: &str) -> Option<&'a Dialect> {
    dialects.iter().find(|dialect| dialect.kind.as_str() == kind)
}

impl fmt::Debug for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)
    }
}

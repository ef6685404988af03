//! What is wrong with an object, as data: it ends in the log, on a debug page, and in an Event on the object.

mod bounds;

use std::fmt;
use std::sync::Arc;

use imbl::OrdSet;
use serde::Serialize;

use lockgate_xds::provenance::ObjectRef;

pub use bounds::{MOST, shorten};

/// One fault of one object. The rest of the object, and every neighbour, is served all the same.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Problem {
    /// The object at fault.
    pub object: ObjectRef,
    /// The field, as a path: `spec.rules[0].http.paths[2].path`; empty if it is about the whole object.
    pub field: String,
    /// The stable reason, CamelCase: of an Event, a condition, a metric.
    pub reason: Reason,
    /// What is wrong, values in quotes: lower case, no full stop.
    pub message: String,
    /// What was done instead: lower case, no full stop.
    pub consequence: String,
}

/// All that is wrong at one moment. A clone shares everything, and two of them differ cheaply where they share much.
pub type Problems = OrdSet<Arc<Problem>>;

/// Stable reasons of problems.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Reason {
    /// A path that cannot be served as written.
    PathMatchConditionsNotValid,
    /// A regular expression that would take Envoy too long.
    RegexTooExpensive,
    /// A host that is not a DNS name.
    HostNotValid,
    /// A Service or a port of it that does not exist.
    ServiceUnresolvedReference,
    /// A backend of a kind that is not served.
    UnsupportedBackend,
    /// An ExternalName that must not be reached.
    ExternalNameNotAllowed,
    /// A Secret that is missing, has no usable key pair, or has a certificate that does not cover a host.
    SecretNotValid,
    /// TLS settings that contradict each other.
    TLSConfigNotValid,
    /// Another namespace owns the host, or an older object has the same path, the default backend, or the certificate.
    Conflicted,
    /// An annotation's value, or an annotation on the wrong kind of object.
    InvalidAnnotation,
    /// Annotations of another ingress controller that restrict access, which is not enforced.
    AccessNotRestricted,
    /// Annotations of another ingress controller that are not read.
    UnsupportedAnnotation,
    /// An IngressClass that does not exist.
    IngressClassNotFound,
    /// More than one default IngressClass.
    MultipleDefaultClasses,
    /// Served, but perhaps not as its owner thinks.
    Ambiguous,
    /// An EndpointSlice, or an endpoint of it, that cannot be served.
    EndpointNotValid,
    /// Text that is not UTF-8, or an object that cannot be decoded at all.
    InvalidEncoding,
    /// A certificate in use that ends soon, or has ended. Translation has no clock: this is found beside it.
    CertificateExpiring,
    /// A resource made of the object is rejected by an Envoy. Translation knows no Envoy: this is found beside it.
    XdsRejected,
}

impl Reason {
    /// As it is written in Events and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::PathMatchConditionsNotValid => "PathMatchConditionsNotValid",
            Reason::RegexTooExpensive => "RegexTooExpensive",
            Reason::HostNotValid => "HostNotValid",
            Reason::ServiceUnresolvedReference => "ServiceUnresolvedReference",
            Reason::UnsupportedBackend => "UnsupportedBackend",
            Reason::ExternalNameNotAllowed => "ExternalNameNotAllowed",
            Reason::SecretNotValid => "SecretNotValid",
            Reason::TLSConfigNotValid => "TLSConfigNotValid",
            Reason::Conflicted => "Conflicted",
            Reason::InvalidAnnotation => "InvalidAnnotation",
            Reason::AccessNotRestricted => "AccessNotRestricted",
            Reason::UnsupportedAnnotation => "UnsupportedAnnotation",
            Reason::IngressClassNotFound => "IngressClassNotFound",
            Reason::MultipleDefaultClasses => "MultipleDefaultClasses",
            Reason::Ambiguous => "Ambiguous",
            Reason::EndpointNotValid => "EndpointNotValid",
            Reason::InvalidEncoding => "InvalidEncoding",
            Reason::CertificateExpiring => "CertificateExpiring",
            Reason::XdsRejected => "XdsRejected",
        }
    }
}

/// `Ingress shop/cart: spec.rules[0].http.paths[2].path: path "api" does not start with "/"; path left out`
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.object)?;
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        write!(f, "{}; {}", self.message, self.consequence)
    }
}

//! Faults of objects as data. They are reported in the log, on a debug page, and in Events on the objects.

mod bounds;
mod message;
mod remedy;

use std::fmt;
use std::sync::Arc;

use imbl::OrdSet;
use serde::Serialize;

use lockgate_xds::provenance::ObjectRef;

pub use bounds::{MOST, bounded, shorten};
pub use message::{Cause, Message};

/// A fault of an object. The rest of the object and all other objects are still served.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Problem {
    /// The faulty object.
    pub object: ObjectRef,
    /// The path of the field: `spec.rules[0].http.paths[2].path`. Empty if the fault concerns the whole object.
    pub field: String,
    /// The stable reason in CamelCase, for Events, conditions, and metrics.
    pub reason: Reason,
    /// The fault, with values in quotes: lower case, no full stop.
    pub message: Message,
    /// The consequence: lower case, no full stop.
    pub consequence: String,
}

/// All problems at one time. A clone shares all of them, and sets that share many problems are compared cheaply.
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
    /// A host that the namespace must not define, according to the HostGrants.
    HostNotGranted,
    /// A host or a selector of a HostGrant that is not valid.
    HostGrantNotValid,
    /// A Service or a port that does not exist.
    ServiceUnresolvedReference,
    /// A backend of a kind that is not served.
    UnsupportedBackend,
    /// An ExternalName with a forbidden target.
    ExternalNameNotAllowed,
    /// A Secret that is missing, has no usable key pair, or has a certificate that does not cover a host.
    SecretNotValid,
    /// TLS settings that contradict each other.
    TLSConfigNotValid,
    /// Another namespace owns the host, or an older object has the same path, the default backend, or the certificate.
    Conflicted,
    /// A host that an older HTTPProxy defines.
    DuplicateVhost,
    /// An include of an HTTPProxy that cannot be followed.
    IncludeNotValid,
    /// A part of an HTTPProxy that cannot be served as written.
    ProxyNotValid,
    /// A field of an HTTPProxy that Lockgate does not serve, and that may restrict access.
    UnsupportedField,
    /// A field of an HTTPProxy that Lockgate does not serve, and that restricts no access.
    IgnoredField,
    /// An annotation with an invalid value, or on the wrong kind of object.
    InvalidAnnotation,
    /// Annotations or policies of another product that restrict access. The restriction is not enforced.
    AccessNotRestricted,
    /// Unsupported annotations of another ingress controller.
    UnsupportedAnnotation,
    /// A policy of another product that is not applied.
    UnsupportedPolicy,
    /// An IngressClass that does not exist.
    IngressClassNotFound,
    /// More than one default IngressClass.
    MultipleDefaultClasses,
    /// A valid configuration that may differ from the intention of the owner.
    Ambiguous,
    /// An EndpointSlice or an endpoint that cannot be served.
    EndpointNotValid,
    /// A route that no listener of its Gateway accepts.
    RouteNotAttached,
    /// A match of a route that cannot be served as written.
    RouteMatchNotValid,
    /// A filter of a route that is not supported or not valid.
    RouteFilterNotValid,
    /// The session persistence of a rule that is not supported or not valid.
    SessionPersistenceNotValid,
    /// A reference to an object of another namespace that no ReferenceGrant permits.
    ReferenceNotPermitted,
    /// A listener of a Gateway that cannot be served.
    ListenerNotValid,
    /// A policy that is not valid, or without a target.
    PolicyNotValid,
    /// The certificate authorities of a BackendTLSPolicy that do not fit into the limit of its namespace.
    PolicyTooExpensive,
    /// A route whose configuration does not fit into the limit of its namespace.
    RouteTooExpensive,
    /// A wildcard host with TLS that does not fit into the limit of its namespace.
    TooManyWildcards,
    /// A host of Ingresses whose copy of the rules of another host does not fit into the limit of its namespace.
    TooManyCopies,
    /// Text that is not UTF-8, or an object that cannot be decoded at all.
    InvalidEncoding,
    /// A served certificate that expires soon or has expired. The translation has no clock, so this is detected
    /// elsewhere.
    CertificateExpiring,
    /// A resource of the object that an Envoy rejected. The translation does not know Envoys, so this is detected
    /// elsewhere.
    XdsRejected,
}

impl Reason {
    /// Returns the reason as in Events and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::PathMatchConditionsNotValid => "PathMatchConditionsNotValid",
            Reason::RegexTooExpensive => "RegexTooExpensive",
            Reason::HostNotValid => "HostNotValid",
            Reason::HostNotGranted => "HostNotGranted",
            Reason::HostGrantNotValid => "HostGrantNotValid",
            Reason::ServiceUnresolvedReference => "ServiceUnresolvedReference",
            Reason::UnsupportedBackend => "UnsupportedBackend",
            Reason::ExternalNameNotAllowed => "ExternalNameNotAllowed",
            Reason::SecretNotValid => "SecretNotValid",
            Reason::TLSConfigNotValid => "TLSConfigNotValid",
            Reason::Conflicted => "Conflicted",
            Reason::DuplicateVhost => "DuplicateVhost",
            Reason::IncludeNotValid => "IncludeNotValid",
            Reason::ProxyNotValid => "ProxyNotValid",
            Reason::UnsupportedField => "UnsupportedField",
            Reason::IgnoredField => "IgnoredField",
            Reason::InvalidAnnotation => "InvalidAnnotation",
            Reason::AccessNotRestricted => "AccessNotRestricted",
            Reason::UnsupportedAnnotation => "UnsupportedAnnotation",
            Reason::UnsupportedPolicy => "UnsupportedPolicy",
            Reason::IngressClassNotFound => "IngressClassNotFound",
            Reason::MultipleDefaultClasses => "MultipleDefaultClasses",
            Reason::Ambiguous => "Ambiguous",
            Reason::EndpointNotValid => "EndpointNotValid",
            Reason::RouteNotAttached => "RouteNotAttached",
            Reason::RouteMatchNotValid => "RouteMatchNotValid",
            Reason::RouteFilterNotValid => "RouteFilterNotValid",
            Reason::SessionPersistenceNotValid => "SessionPersistenceNotValid",
            Reason::ReferenceNotPermitted => "ReferenceNotPermitted",
            Reason::ListenerNotValid => "ListenerNotValid",
            Reason::PolicyNotValid => "PolicyNotValid",
            Reason::PolicyTooExpensive => "PolicyTooExpensive",
            Reason::RouteTooExpensive => "RouteTooExpensive",
            Reason::TooManyWildcards => "TooManyWildcards",
            Reason::TooManyCopies => "TooManyCopies",
            Reason::InvalidEncoding => "InvalidEncoding",
            Reason::CertificateExpiring => "CertificateExpiring",
            Reason::XdsRejected => "XdsRejected",
        }
    }
}

/// Displays `Ingress shop/cart: spec.rules[0].http.paths[2].path: path "api" does not start with "/"; path left out`.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.object)?;
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        write!(f, "{}; {}", self.message, self.consequence)
    }
}

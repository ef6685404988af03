//! The certificates with which Envoy and the controller authenticate each other: a private authority, and key pairs for the
//! controller and for Envoy. Three Secrets store them, and the leader renews them in time. A fourth Secret contains a key pair
//! for each dedicated fleet.
//!
//! [`plan()`] computes the next write from the stored content and the time, without I/O or a clock. [`secrets`]
//! performs the writes. [`directory`] reads custom files instead. None of them knows the users of the certificates.
//!
//! # Rotation of the authority
//!
//! A client and a server read their Secrets at different times: the kubelet takes up to two minutes to update a mount.
//! A new certificate is therefore used only after all peers have had time to trust it, which is [`WantedCertificates::pause`]. A
//! new authority takes three writes, with this pause between them:
//!
//! | state | trusted authorities (`ca.crt`) | issuer | next state when |
//! | --- | --- | --- | --- |
//! | single | old | old | the old authority expires soon, or a user requests a rotation |
//! | announced | old, new | old | both key pairs have had the new `ca.crt` for the pause |
//! | handed over | old, new | new | both key pairs have been from the new authority for the pause |
//! | single | new | new | |
//!
//! The Secrets contain the complete state, and each write changes one Secret. After a crash, another replica therefore
//! continues at the same step. A writer reads the Secrets of the key pairs first and the Secret of the authority last.
//! It overwrites only the versions that it has read. If two replicas believe that they lead, neither can undo a step
//! that the other relies on.

mod authorities;
mod certificate;
pub mod directory;
mod plan;
pub mod secrets;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use lockgate_route::objects::ObjectKey;

pub use certificate::{first_name, names, not_after};
pub use plan::{plan, timestamp};

/// Data key of the certificate.
pub const CERTIFICATE: &str = "tls.crt";
/// Data key of the private key of the certificate.
pub const KEY: &str = "tls.key";
/// Data key of all trusted authorities.
pub const AUTHORITIES: &str = "ca.crt";
/// Data key of the private key of the issuing authority.
pub const AUTHORITY_KEY: &str = "ca.key";
/// Data key of the private key of the next issuing authority.
pub const NEXT_KEY: &str = "next.key";

/// Annotation: the time of the last write, for the pauses.
pub const WRITTEN: &str = "lockgate.dev/written";
/// Annotation, set by a user: replace the content. It is removed afterwards.
pub const ROTATE: &str = "lockgate.dev/rotate";
/// Value of [`ROTATE`] on the Secret of the authority after a key has leaked: previous certificates are no longer
/// trusted.
pub const AT_ONCE: &str = "at-once";

/// Returns the prefix of the URIs of Envoys of dedicated fleets. The namespace and the name of the Gateway follow.
pub fn fleet_uri(wanted: &WantedCertificates) -> String {
    format!("spiffe://lockgate.dev/ns/{}/{}/fleet/", wanted.namespace, wanted.prefix)
}

/// One of the Secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// The authority. Only the controller reads it.
    Authority,
    /// The controller's key pair.
    Server,
    /// Envoy's key pair.
    Envoy,
    /// The key pairs of dedicated fleets, if the installation has such Envoys.
    Fleets,
}

/// The holder of a key pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holder<'a> {
    /// The controller.
    Server,
    /// The Envoys of the shared fleet.
    Envoy,
    /// The Envoys that serve this Gateway.
    Fleet(&'a ObjectKey),
}

impl Holder<'_> {
    /// Returns the URI in the certificate, a SPIFFE ID. It is the same in all versions.
    pub fn uri(self, wanted: &WantedCertificates) -> String {
        let uri = |end| format!("spiffe://lockgate.dev/ns/{}/{}/{end}", wanted.namespace, wanted.prefix);
        match self {
            Self::Server | Self::Envoy => uri(self.subject()),
            Self::Fleet(gateway) => format!("{}{gateway}", fleet_uri(wanted)),
        }
    }

    /// Returns the common name of the certificate.
    fn subject(self) -> &'static str {
        match self {
            Self::Server => "controller",
            Self::Envoy => "envoy",
            Self::Fleet(_) => "fleet",
        }
    }
}

impl Role {
    /// The Secrets of every installation.
    pub const ALL: [Self; 3] = [Self::Authority, Self::Server, Self::Envoy];

    /// Returns the suffix of the Secret's name.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Authority => "ca",
            Self::Server => "server",
            Self::Envoy => "envoy",
            Self::Fleets => "fleets",
        }
    }
}

/// The part of a Secret that is read and written.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct SecretContent {
    /// The data.
    pub data: BTreeMap<String, Vec<u8>>,
    /// The annotations, including the annotations of other writers.
    pub annotations: BTreeMap<String, String>,
}

/// Omits all values.
impl fmt::Debug for SecretContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretContent")
            .field("data", &self.data.keys())
            .field("annotations", &self.annotations)
            .finish()
    }
}

impl SecretContent {
    fn get(&self, key: &str) -> &[u8] {
        self.data.get(key).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns whether the Secret is empty, for example created by the chart.
    fn is_empty(&self) -> bool {
        self.data.values().all(Vec::is_empty)
    }
}

/// The content of the Secrets. The plan fills absent and empty Secrets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stored(BTreeMap<Role, SecretContent>);

impl Stored {
    /// Returns the content of a Secret.
    pub fn get(&self, role: Role) -> Option<&SecretContent> {
        self.0.get(&role)
    }

    /// Sets the content of a Secret. `None` means that the Secret is absent.
    pub fn set(&mut self, role: Role, content: Option<SecretContent>) {
        match content {
            Some(content) => self.0.insert(role, content),
            None => self.0.remove(&role),
        };
    }
}

/// The required certificates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedCertificates {
    /// The namespace of the installation, which is part of the names in the certificates.
    pub namespace: String,
    /// The prefix of the names of the Secrets. It is part of the names in the certificates, too.
    pub prefix: String,
    /// The host names with which Envoy connects to the controller.
    pub names: Vec<String>,
    /// The lifetime of a key pair. The plan renews it when a third of the lifetime is left.
    pub certificate_lifetime: Duration,
    /// The lifetime of an authority. The plan replaces it when a third of the lifetime is left.
    pub authority_lifetime: Duration,
    /// The maximum time until a change of a Secret has reached all readers, including clock differences.
    pub pause: Duration,
    /// The dedicated fleets.
    pub fleets: DedicatedFleets,
}

/// The fleets that need a key pair.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum DedicatedFleets {
    /// The installation has no dedicated fleets, and no Secret for them.
    #[default]
    Off,
    /// The Gateways are not known yet, so the stored key pairs stay.
    Unknown,
    /// The Gateways.
    Known(Arc<BTreeSet<ObjectKey>>),
}

/// The next action.
#[derive(Debug)]
pub enum Step {
    /// Write this Secret, then plan again.
    Write {
        /// The Secret.
        role: Role,
        /// The new content.
        content: SecretContent,
        /// The reason, for the log.
        reason: String,
    },
    /// Wait until this time.
    Wait(SystemTime),
}

/// A certificate cannot be created.
#[derive(Debug, thiserror::Error)]
#[error("cannot create a certificate: {0}")]
pub struct CertificateError(#[from] rcgen::Error);

/// A key pair and the authorities that its holder trusts, in PEM: the three files of a mount or a directory.
#[derive(Clone, PartialEq, Eq)]
pub struct Material {
    /// `tls.crt`: the certificate and its issuers.
    pub certificate: Vec<u8>,
    /// `tls.key`: the private key.
    pub key: Vec<u8>,
    /// `ca.crt`: the trusted authorities.
    pub authorities: Vec<u8>,
}

/// Omits the key.
impl fmt::Debug for Material {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Material").finish_non_exhaustive()
    }
}

impl From<&SecretContent> for Material {
    fn from(content: &SecretContent) -> Self {
        let part = |key| content.get(key).to_vec();
        Self { certificate: part(CERTIFICATE), key: part(KEY), authorities: part(AUTHORITIES) }
    }
}

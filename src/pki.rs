//! The certificates by which Envoy and the controller know each other: an authority of the installation's own, a key pair
//! for the controller and one for Envoy, kept in three Secrets and renewed in time.
//!
//! [`plan()`] says what is to be written, from what is stored and the time: no I/O, no clock. [`secrets`] does it, and
//! [`directory`] is for those who bring files of their own. Neither knows who uses the certificates.
//!
//! # How trust moves
//!
//! A client and a server read their Secrets at times of their own: the kubelet takes up to two minutes until a mount has
//! what the Secret has. So nothing is used before everybody who has to trust it has had the time to learn of it, which
//! is [`Wanted::pause`]. A new authority comes in three writes, each with that pause before the next one:
//!
//! | state | `ca.crt`, all that is trusted | who issues | goes on when |
//! | --- | --- | --- | --- |
//! | alone | old | old | the old one is near its end, or is asked to go |
//! | announced | old, new | old | both others have had the new `ca.crt` for the pause |
//! | handed over | new, old | new | both others have had key pairs of the new one for the pause |
//! | alone | new | new | |
//!
//! The state is what the Secrets hold, and each write is one Secret, so that whoever comes after a crash goes on where it
//! stopped. Who writes has read the Secrets of the key pairs first and that of the authority last, and writes only over
//! what it has read: two who think that they are the leader cannot undo a step that the other relies on.

mod authorities;
mod certificate;
pub mod directory;
mod plan;
pub mod secrets;

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, SystemTime};

pub use certificate::{first_name, names, not_after};
pub use plan::{plan, timestamp};

/// Data key of a certificate.
pub const CERTIFICATE: &str = "tls.crt";
/// Data key of its private key.
pub const KEY: &str = "tls.key";
/// Data key of all authorities that are trusted.
pub const AUTHORITIES: &str = "ca.crt";
/// Data key of the private key of the authority that issues.
pub const AUTHORITY_KEY: &str = "ca.key";
/// Data key of the private key of the authority that is going to issue.
pub const NEXT_KEY: &str = "next.key";

/// Annotation: when this was written, for the pauses.
pub const WRITTEN: &str = "lockgate.dev/written";
/// Annotation, set by a person: make this anew. It goes when that is done.
pub const ROTATE: &str = "lockgate.dev/rotate";
/// Its value on the Secret of the authority if nothing of before may be trusted any longer: a key has leaked.
pub const AT_ONCE: &str = "at-once";

/// One of the three Secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// The authority: nobody but the controller reads it.
    Authority,
    /// The controller's key pair.
    Server,
    /// Envoy's key pair.
    Envoy,
}

impl Role {
    /// All three.
    pub const ALL: [Self; 3] = [Self::Authority, Self::Server, Self::Envoy];

    /// The URI in its certificate, a SPIFFE ID. Certificates of all versions have it.
    pub fn uri(self, wanted: &Wanted) -> String {
        format!("spiffe://lockgate.dev/ns/{}/{}/{}", wanted.namespace, wanted.prefix, self.subject())
    }

    /// The common name in its certificate, and the end of its URI.
    fn subject(self) -> &'static str {
        match self {
            Self::Authority => "authority",
            Self::Server => "controller",
            Self::Envoy => "envoy",
        }
    }

    /// The end of its Secret's name.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Authority => "ca",
            Self::Server => "server",
            Self::Envoy => "envoy",
        }
    }
}

/// What of a Secret is read and written.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Content {
    /// Its data.
    pub data: BTreeMap<String, Vec<u8>>,
    /// Its annotations, those of others too.
    pub annotations: BTreeMap<String, String>,
}

/// Shows no values.
impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Content").field("data", &self.data.keys()).field("annotations", &self.annotations).finish()
    }
}

impl Content {
    fn get(&self, key: &str) -> &[u8] {
        self.data.get(key).map(Vec::as_slice).unwrap_or_default()
    }

    /// Whether it holds nothing at all: made by somebody for us to fill.
    fn is_empty(&self) -> bool {
        self.data.values().all(Vec::is_empty)
    }
}

/// What the three Secrets hold; what is absent or empty is still to be made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stored(BTreeMap<Role, Content>);

impl Stored {
    /// The content of one.
    pub fn get(&self, role: Role) -> Option<&Content> {
        self.0.get(&role)
    }

    /// Sets it, `None` if the Secret is absent.
    pub fn set(&mut self, role: Role, content: Option<Content>) {
        match content {
            Some(content) => self.0.insert(role, content),
            None => self.0.remove(&role),
        };
    }
}

/// What there should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The namespace of the installation: in the names of the certificates.
    pub namespace: String,
    /// The beginning of the Secrets' names, as well.
    pub prefix: String,
    /// The host names by which Envoy calls the controller.
    pub names: Vec<String>,
    /// How long a key pair is good. It is renewed when a third of that is left.
    pub certificate_lifetime: Duration,
    /// How long an authority is good. It is replaced when a third of that is left.
    pub authority_lifetime: Duration,
    /// How long it takes at most until a change of a Secret has reached whoever reads it, differences of clocks included.
    pub pause: Duration,
}

/// What is to be done.
#[derive(Debug)]
pub enum Step {
    /// This, and then ask again.
    Write {
        /// Which Secret.
        role: Role,
        /// What it shall hold.
        content: Content,
        /// Why, for the log.
        reason: String,
    },
    /// Nothing, until then.
    Wait(SystemTime),
}

/// A certificate cannot be made.
#[derive(Debug, thiserror::Error)]
#[error("cannot make a certificate: {0}")]
pub struct Fault(#[from] rcgen::Error);

/// A key pair and whom its holder trusts, all of it PEM: the three files of a mount, or of a directory.
#[derive(Clone, PartialEq, Eq)]
pub struct Material {
    /// `tls.crt`: the certificate, and those above it.
    pub certificate: Vec<u8>,
    /// `tls.key`
    pub key: Vec<u8>,
    /// `ca.crt`
    pub authorities: Vec<u8>,
}

/// Shows nothing of the key.
impl fmt::Debug for Material {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Material").finish_non_exhaustive()
    }
}

impl From<&Content> for Material {
    fn from(content: &Content) -> Self {
        let part = |key| content.get(key).to_vec();
        Self { certificate: part(CERTIFICATE), key: part(KEY), authorities: part(AUTHORITIES) }
    }
}

//! The message of a fault: a text for people, and the cause for code.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use serde::{Serialize, Serializer};

use crate::model::Host;
use crate::objects::{Kind, ObjectId, ObjectKey, ServicePort};

/// The description of a fault: lower case, no full stop. Code reads the [`Cause`], never the text.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Message {
    text: String,
    cause: Option<Arc<Cause>>,
}

/// The cause of a fault, if other code acts on it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// The object does not exist, or has no content that Lockgate reads.
    Missing(ObjectId),
    /// The Service does not exist. Contains the port that a backend refers to; its number is 1 if the backend has only a name.
    MissingService(ObjectKey, ServicePort),
    /// No ReferenceGrant in this namespace permits the reference.
    NotPermitted(Arc<str>),
    /// No TLSCertificateDelegation in this namespace permits the reference.
    NotDelegated(Arc<str>),
    /// The HostGrants do not permit the host.
    HostNotGranted {
        /// The host.
        host: Host,
        /// Whether a HostGrant gives the host to other namespaces.
        is_granted: bool,
    },
    /// There is no default certificate.
    NoDefaultCertificate,
    /// The address belongs to the own machine.
    Loopback,
    /// Listeners are not valid. They have problems of their own.
    FaultyListeners,
    /// There are so many more problems of the same reason.
    Others(usize),
}

impl Message {
    /// Returns the message with this cause.
    #[must_use]
    pub fn because(self, cause: Cause) -> Self {
        Self { cause: Some(Arc::new(cause)), ..self }
    }

    /// Returns the message that an object does not exist, or has no content that Lockgate reads. `absence` is the end of the text.
    pub fn missing(kind: Kind, key: &ObjectKey, absence: &str) -> Self {
        Self::from(format!("{} \"{key}\" {absence}", kind.as_str())).because(Cause::Missing(kind.id(key.clone())))
    }

    /// Returns the message that no ReferenceGrant permits the reference to an object.
    pub fn not_permitted(kind: Kind, key: &ObjectKey) -> Self {
        let text = format!("no ReferenceGrant permits the reference to {} \"{key}\"", kind.as_str());
        Self::from(text).because(Cause::NotPermitted(key.namespace.clone()))
    }

    /// Returns the message with another text, and the same cause.
    #[must_use]
    pub fn with_text(&self, text: String) -> Self {
        Self { text, cause: self.cause.clone() }
    }

    /// Returns the cause, if other code acts on it.
    pub fn cause(&self) -> Option<&Cause> {
        self.cause.as_deref()
    }
}

impl From<String> for Message {
    fn from(text: String) -> Self {
        Self { text, cause: None }
    }
}

impl From<&str> for Message {
    fn from(text: &str) -> Self {
        Self::from(text.to_owned())
    }
}

impl Deref for Message {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl PartialEq<str> for Message {
    fn eq(&self, other: &str) -> bool {
        self.text == other
    }
}

impl PartialEq<&str> for Message {
    fn eq(&self, other: &&str) -> bool {
        self.text == *other
    }
}

/// Serializes the text.
impl Serialize for Message {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_text_keeps_the_cause() {
        let key = ObjectKey::new("shop", "cart");
        let message = Message::missing(Kind::SECRET, &key, "does not exist");
        assert_eq!(message, "Secret \"shop/cart\" does not exist");
        let within = message.with_text(format!("spec.tls[0]: {message}"));
        assert_eq!(within, "spec.tls[0]: Secret \"shop/cart\" does not exist");
        assert_eq!(within.cause(), Some(&Cause::Missing(Kind::SECRET.id(key.clone()))));
        let namespace = Message::not_permitted(Kind::SERVICE, &key);
        assert_eq!(namespace.cause(), Some(&Cause::NotPermitted("shop".into())));
        assert_eq!(Message::from("a text alone").cause(), None);
    }

    #[test]
    fn the_text_alone_is_serialized() {
        let message = Message::from("loops").because(Cause::Loopback);
        assert!(serde_json::to_value(&message).is_ok_and(|value| value == "loops"));
    }
}

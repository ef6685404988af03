//! The key pairs of listeners that terminate TLS.

use super::parser::Parser;
use crate::model::{SecretId, SecretPart};
use crate::objects::gateway::{GatewayListener, SecretRef};
use crate::objects::{Kind, ObjectKey};
use crate::translate::gateway::grants::{Reference, permits};
use crate::translate::verdict::Status;

impl Parser<'_, '_> {
    /// Returns the usable key pairs of a listener that terminates TLS.
    pub fn key_pairs(&mut self, listener: &GatewayListener) -> Vec<SecretId> {
        let name = &listener.name;
        let references = listener.tls.as_ref().map(|tls| tls.certificate_refs.as_slice()).unwrap_or_default();
        if references.is_empty() {
            let message = "tls.certificateRefs is empty".to_owned();
            self.verdict(Some(name), "ResolvedRefs", Status::False, "InvalidCertificateRef", message);
        }
        let mut pairs = Vec::new();
        for reference in references {
            match self.key_pair(reference) {
                Ok(pair) => pairs.push(pair),
                Err((reason, message)) => self.verdict(Some(name), "ResolvedRefs", Status::False, reason, message),
            }
        }
        pairs
    }

    fn key_pair(&mut self, reference: &SecretRef) -> Result<SecretId, (&'static str, String)> {
        let SecretRef { group, kind, namespace, name } = reference;
        let (from, own) = match &self.declared.set {
            Some(set) => (Kind::LISTENER_SET, set.namespace.clone()),
            None => (Kind::GATEWAY, self.gateway.meta.key.namespace.clone()),
        };
        let key = ObjectKey::new(namespace.as_deref().unwrap_or(&own), name);
        let invalid = |message: String| Err(("InvalidCertificateRef", message));
        let (group, kind) = (group.as_deref().unwrap_or_default(), kind.as_deref().unwrap_or("Secret"));
        if (group, kind) != ("", "Secret") {
            return invalid(format!("certificates of kind {kind:?} of group {group:?} are not supported"));
        }
        let grant = Reference { from, namespace: &own, group: "", kind: "Secret", to: &key };
        if !permits(&grant, &mut self.reading) {
            return Err(("RefNotPermitted", format!("no ReferenceGrant permits the reference to Secret \"{key}\"")));
        }
        let id = SecretId::new(key.clone(), SecretPart::KeyPair);
        let Some(secret) = self.reading.secret(key.clone()) else {
            return invalid(format!("Secret \"{key}\" does not exist"));
        };
        match (&secret.pair, &secret.fault) {
            (Some(_), _) => Ok(id),
            (None, Some(fault)) => invalid(format!("Secret \"{key}\": {fault}")),
            (None, None) => invalid(format!("Secret \"{key}\" has no usable key pair")),
        }
    }
}

//! The key pairs of listeners that terminate TLS, the validation of their clients, and the client certificate of a Gateway.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::declared::Parser;
use super::parsed::ListenerProtocol;
use crate::model::{ClientValidation, SecretId, SecretPart};
use crate::objects::gateway::{GatewayListener, SecretRef};
use crate::objects::{Kind, ObjectKey, Secret};
use crate::translate::gateway::client_certificates::{self, ClientCertificate};
use crate::translate::grants::Reference;
use crate::translate::limit::fitting;
use crate::translate::problem::Message;
use crate::translate::tls::MISSING;
use crate::translate::verdict::{ConditionFault, Status};

/// The maximum size of the key pairs of one listener, in bytes. The API permits 64 key pairs for each of 64 listeners, and a key pair
/// can have 100 KiB.
const MAX_PAIR_SIZE: u64 = 512 << 10;

impl Parser<'_, '_> {
    /// Returns the usable key pairs of a listener that terminates TLS.
    pub fn key_pairs(&mut self, listener: &GatewayListener) -> Vec<SecretId> {
        let name = &listener.name;
        let references = listener.tls.as_ref().map(|tls| tls.certificate_refs.as_slice()).unwrap_or_default();
        if references.is_empty() {
            let message = "tls.certificateRefs is empty".to_owned();
            self.declared.verdict(Some(name), "ResolvedRefs", Status::False, "InvalidCertificateRef", message);
        }
        let mut pairs = Vec::new();
        for reference in references {
            match self.key_pair(reference) {
                // Envoy would have a copy of the same key pair for each reference.
                Ok(pair) if pairs.contains(&pair) => {}
                Ok(pair) => pairs.push(pair),
                Err(ConditionFault { reason, message }) => {
                    self.declared.verdict(Some(name), "ResolvedRefs", Status::False, reason, message)
                }
            }
        }
        self.within_size(name, pairs)
    }

    /// Leaves out the largest key pairs if all of them are too large. Secrets can belong to other namespaces, whose small
    /// key pairs must not depend on large ones.
    fn within_size(&mut self, listener: &Arc<str>, mut pairs: Vec<SecretId>) -> Vec<SecretId> {
        let mut by_size: Vec<(u64, &SecretId)> = pairs.iter().map(|pair| (self.size_of(pair), pair)).collect();
        by_size.sort();
        let mut fits = fitting(MAX_PAIR_SIZE);
        let surplus = by_size.into_iter().filter(|(size, _)| !fits(*size)).map(|(_, pair)| pair.clone());
        let surplus: BTreeSet<SecretId> = surplus.collect();
        for pair in &surplus {
            let message = format!(
                "Secret \"{}\" is left out: the key pairs of a listener have at most {} KiB, and small ones come first",
                pair.object(),
                MAX_PAIR_SIZE >> 10
            );
            self.declared.verdict(Some(listener), "ResolvedRefs", Status::False, "InvalidCertificateRef", message);
        }
        pairs.retain(|pair| !surplus.contains(pair));
        pairs
    }

    /// Returns the size of a key pair, in bytes.
    pub fn size_of(&self, pair: &SecretId) -> u64 {
        let secret = self.resolver.context.objects.get::<Secret>(pair.object());
        secret.and_then(|secret| secret.pair.as_ref()).map_or(0, |pair| pair.size())
    }

    /// Returns the key pair that the Gateway presents to backends.
    pub fn client_certificate(&mut self) -> ClientCertificate {
        let backend = self.gateway.spec.tls.as_ref()?.backend.as_ref()?;
        match self.key_pair(backend.client_certificate_ref.as_ref()?) {
            Ok(pair) => {
                self.declared.verdict(None, "ResolvedRefs", Status::True, "ResolvedRefs", String::new());
                Some(Some(pair))
            }
            Err(ConditionFault { reason, message }) => {
                let reason = if reason == "RefNotPermitted" { reason } else { "InvalidClientCertificateRef" };
                let message = message.with_text(format!("spec.tls.backend.clientCertificateRef: {message}"));
                self.declared.verdict(None, "ResolvedRefs", Status::False, reason, message);
                Some(None)
            }
        }
    }

    /// Returns the validation of the clients of a listener.
    pub fn clients(&mut self, listener: &GatewayListener, protocol: &ListenerProtocol) -> Option<ClientValidation> {
        let ListenerProtocol::Https(_) = protocol else { return None };
        let clients = client_certificates::of_port(self.gateway, listener.port, &mut self.resolver);
        for (condition, ConditionFault { reason, message }) in clients.faults {
            self.declared.verdict(Some(&listener.name), condition, Status::False, reason, message);
        }
        clients.validation
    }

    fn key_pair(&mut self, reference: &SecretRef) -> Result<SecretId, ConditionFault> {
        let SecretRef { group, kind, namespace, name } = reference;
        let (from, own) = match &self.declared.set {
            Some(set) => (Kind::LISTENER_SET, set.namespace.clone()),
            None => (Kind::GATEWAY, self.gateway.meta.key.namespace.clone()),
        };
        let key = ObjectKey::new(namespace.as_deref().unwrap_or(&own), name);
        let invalid = |message: Message| Err(ConditionFault::new("InvalidCertificateRef", message));
        let (group, kind) = (group.as_deref().unwrap_or_default(), kind.as_deref().unwrap_or("Secret"));
        if (group, kind) != ("", "Secret") {
            return invalid(format!("certificates of kind {kind:?} of group {group:?} are not supported").into());
        }
        let grant = Reference { from, namespace: &own, group: "", kind: "Secret", to: &key };
        if !self.resolver.permits(&grant) {
            return Err(ConditionFault::new("RefNotPermitted", Message::not_permitted(Kind::SECRET, &key)));
        }
        let id = SecretId::new(key.clone(), SecretPart::KeyPair);
        let Some(secret) = self.resolver.secret(key.clone()) else {
            return invalid(Message::missing(Kind::SECRET, &key, MISSING));
        };
        match (&secret.pair, &secret.fault) {
            (Some(_), _) => Ok(id),
            (None, Some(fault)) => invalid(format!("Secret \"{key}\": {fault}").into()),
            (None, None) => invalid(format!("Secret \"{key}\" has no usable key pair").into()),
        }
    }
}

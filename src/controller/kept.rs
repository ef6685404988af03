//! Last good content of Secrets from other replicas: adopted on arrival, and awaited at the start.

use lockgate_route::objects::gateway::{Gateway, GatewayListener, ListenerSet, SecretRef};
use lockgate_route::objects::{Kept, Kind, ObjectKey, Secret};
use lockgate_route::translate::{DIALECTS, Input};

use super::{Controller, Pass};

/// The state of the request for the last good content of other replicas.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum Replicas {
    /// Other replicas are not asked, or have answered.
    #[default]
    Nothing,
    /// Other replicas are asked. It is not known yet whether an object depends on their answer.
    Asked,
    /// Publications wait for their answer.
    Awaited,
}

impl Controller {
    /// Sets whether other replicas are asked. If so, [`Event::Kept`](crate::source::Event::Kept) contains their answer.
    #[must_use]
    pub fn with_replicas(mut self, asked: bool) -> Self {
        self.replicas = if asked { Replicas::Asked } else { Replicas::Nothing };
        self
    }

    /// Returns whether the first publication waits for other replicas. It does if an object references
    /// a Secret without a key pair. Another replica may have the last good key pair, and an Envoy that reconnects from there
    /// must not lose it.
    pub(super) fn waits_for_replicas(&mut self) -> bool {
        if self.replicas == Replicas::Asked {
            self.replicas = if self.lacks_key_pairs() { Replicas::Awaited } else { Replicas::Nothing };
            if self.replicas == Replicas::Awaited {
                tracing::info!(
                    "some Secrets lack a usable key pair; asking other replicas for the last good key pairs"
                );
            }
        }
        self.replicas == Replicas::Awaited
    }

    fn lacks_key_pairs(&self) -> bool {
        let lacks = |key: &ObjectKey| self.objects.get::<Secret>(key).is_none_or(|secret| secret.fault.is_some());
        let tls = &self.settings.tls;
        let of_settings = tls.default_secret.iter().chain(&self.settings.upstream.client_certificate);
        let of_settings = of_settings.map(|(namespace, name)| ObjectKey::new(namespace, name));
        let of_dialects = DIALECTS.iter().flat_map(|dialect| {
            self.objects.of_kind(dialect.kind).values().flat_map(|object| (dialect.key_pairs)(object))
        });
        let of_gateways = self.objects.all::<Gateway>().flat_map(key_pairs_of_gateway);
        let of_sets = self.objects.all::<ListenerSet>();
        let of_sets = of_sets.flat_map(|set| key_pairs_of_listeners(&set.spec.listeners, &set.meta.key));
        of_settings.chain(of_dialects).chain(of_gateways).chain(of_sets).any(|key| lacks(&key))
    }

    /// Adopts the last good content of other replicas.
    pub(super) fn adopt(&mut self, kept: &[Kept], pass: &mut Pass) {
        self.replicas = Replicas::Nothing;
        for kept in kept {
            if self.objects.adopt(kept) {
                let key = kept.key.clone();
                tracing::info!(
                    kind = "Secret",
                    namespace = &*key.namespace,
                    name = &*key.name,
                    "the last good content of another replica is served"
                );
                self.changed.insert(Input::new(Kind::SECRET, key));
            }
        }
        pass.requested = true;
    }
}

fn key_pairs_of_gateway(gateway: &Gateway) -> impl Iterator<Item = ObjectKey> {
    let backend = gateway.spec.tls.as_ref().and_then(|tls| tls.backend.as_ref());
    let client = backend.and_then(|backend| backend.client_certificate_ref.as_ref());
    let client = client.map(|reference| key_of(reference, &gateway.meta.key));
    key_pairs_of_listeners(&gateway.spec.listeners, &gateway.meta.key).chain(client)
}

fn key_pairs_of_listeners(listeners: &[GatewayListener], owner: &ObjectKey) -> impl Iterator<Item = ObjectKey> {
    let references = listeners.iter().filter_map(|one| one.tls.as_ref()).flat_map(|tls| &tls.certificate_refs);
    references.map(|reference| key_of(reference, owner))
}

fn key_of(reference: &SecretRef, owner: &ObjectKey) -> ObjectKey {
    ObjectKey::new(reference.namespace.as_deref().unwrap_or(&owner.namespace), &reference.name)
}

#[cfg(test)]
mod tests;

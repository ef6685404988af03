//! Last good content of Secrets from other replicas: adopted on arrival, and awaited at the start.

use lockgate_route::objects::{Ingress, Kept, Kind, ObjectKey, Secret};
use lockgate_route::translate::Input;

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

    /// Returns whether the first publication waits for other replicas. It does if an Ingress references a Secret
    /// without a key pair. Another replica may have the last good key pair, and an Envoy that reconnects from there
    /// must not lose it.
    pub(super) fn waits_for_replicas(&mut self) -> bool {
        if self.replicas == Replicas::Asked {
            self.replicas = if self.lacks_key_pairs() { Replicas::Awaited } else { Replicas::Nothing };
            if self.replicas == Replicas::Awaited {
                tracing::info!(
                    "Ingresses name Secrets without a usable key pair: other replicas are asked for the last good ones"
                );
            }
        }
        self.replicas == Replicas::Awaited
    }

    fn lacks_key_pairs(&self) -> bool {
        let lacks = |key: &ObjectKey| self.objects.get::<Secret>(key).is_none_or(|secret| secret.fault.is_some());
        let tls = &self.settings.tls;
        let default = tls.default_secret.iter().chain(&self.settings.upstream.client_certificate);
        default.map(|(namespace, name)| ObjectKey::new(namespace, name)).any(|key| lacks(&key))
            || self.objects.all::<Ingress>().any(|ingress| {
                let names = ingress.spec.tls.iter().flatten().filter_map(|tls| tls.secret_name.as_deref());
                let of = |name: &str| ObjectKey { namespace: ingress.meta.key.namespace.clone(), name: name.into() };
                names.filter(|name| !name.is_empty()).any(|name| lacks(&of(name)))
            })
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

#[cfg(test)]
mod tests;

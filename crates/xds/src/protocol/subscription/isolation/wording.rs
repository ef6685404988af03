//! Alternative encodings of the same content, for types whose rejected bytes Envoy stores.
//!
//! Envoy 1.40 stores the hash of a secret or scope before it validates it. If the same bytes arrive after a rejection,
//! Envoy treats them as unchanged. It ACKs an invalid secret, and ACKs a valid scope without using it. Source: Envoy
//! `SdsApi::onConfigUpdate`, `ScopedRdsConfigSubscription::addOrUpdateScopes`.

use std::sync::Arc;

use envoy_types::pb::envoy::config::core::v3::DataSource;
use envoy_types::pb::envoy::config::core::v3::data_source::Specifier;
use envoy_types::pb::envoy::config::route::v3 as route_v3;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3 as tls_v3;
use envoy_types::pb::google::protobuf::UInt32Value;
use prost::Message;
use tls_v3::secret::Type;

use super::Subscription;
use crate::protocol::message::Resources;
use crate::snapshot::{Resource, ResourceType};

/// Envoy's default of `max_direct_response_body_size_bytes`.
const DEFAULT_DIRECT_RESPONSE_BYTES: u32 = 4096;

impl Subscription {
    /// Records that the client has rejected a response with `resources`. Their next response uses another encoding.
    pub(super) fn reword<'a>(&mut self, resources: impl Iterator<Item = &'a Arc<Resource>>) {
        if ![ResourceType::SECRET, ResourceType::SCOPED_ROUTES].contains(&self.kind) {
            return;
        }
        let isolation = self.isolation.get_or_insert_default();
        for resource in resources {
            let before = isolation.reworded.insert(resource.name().clone(), resource.version());
            if before == Some(resource.version()) {
                isolation.reworded.remove(resource.name());
            }
        }
    }

    /// Returns `resources` in an encoding that differs from the rejected one.
    pub fn worded(&self, resources: Resources) -> Resources {
        let Some(isolation) = self.isolation.as_ref().filter(|isolation| !isolation.reworded.is_empty()) else {
            return resources;
        };
        let is_reworded =
            |resource: &Arc<Resource>| isolation.reworded.get(resource.name()) == Some(&resource.version());
        let word = |resource: &Arc<Resource>| match is_reworded(resource) {
            true => reworded(resource).map_or_else(|| resource.clone(), Arc::new),
            false => resource.clone(),
        };
        Resources::from(resources.iter().map(word).collect::<Vec<_>>())
    }
}

/// Returns `resource` in an alternative encoding, if there is one.
fn reworded(resource: &Resource) -> Option<Resource> {
    let message = match resource.kind() {
        ResourceType::SECRET => {
            let mut secret = tls_v3::Secret::decode(resource.message()).ok()?;
            sources(&mut secret).into_iter().for_each(reword_source);
            secret.encode_to_vec()
        }
        ResourceType::SCOPED_ROUTES => {
            let mut scope = route_v3::ScopedRouteConfiguration::decode(resource.message()).ok()?;
            let limit = &mut scope.route_configuration.as_mut()?.max_direct_response_body_size_bytes;
            *limit = match limit.take() {
                None => Some(UInt32Value { value: DEFAULT_DIRECT_RESPONSE_BYTES }),
                Some(UInt32Value { value: DEFAULT_DIRECT_RESPONSE_BYTES }) => None,
                other => other,
            };
            scope.encode_to_vec()
        }
        _ => return None,
    };
    Some(resource.with_encoding(&message))
}

fn sources(secret: &mut tls_v3::Secret) -> Vec<&mut DataSource> {
    match &mut secret.r#type {
        Some(Type::TlsCertificate(pair)) => {
            let sources = [&mut pair.certificate_chain, &mut pair.private_key, &mut pair.ocsp_staple];
            sources.into_iter().flatten().collect()
        }
        Some(Type::ValidationContext(context)) => {
            [&mut context.trusted_ca, &mut context.crl].into_iter().flatten().collect()
        }
        Some(Type::SessionTicketKeys(keys)) => keys.keys.iter_mut().collect(),
        Some(Type::GenericSecret(secret)) => secret.secret.iter_mut().collect(),
        None => Vec::new(),
    }
}

/// Replaces text by bytes, and bytes that are text by text.
fn reword_source(source: &mut DataSource) {
    source.specifier = match source.specifier.take() {
        Some(Specifier::InlineString(text)) => Some(Specifier::InlineBytes(text.into_bytes())),
        Some(Specifier::InlineBytes(bytes)) => Some(match String::from_utf8(bytes) {
            Ok(text) => Specifier::InlineString(text),
            Err(error) => Specifier::InlineBytes(error.into_bytes()),
        }),
        other => other,
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Option<DataSource> {
        Some(DataSource { specifier: Some(Specifier::InlineString(text.into())), ..DataSource::default() })
    }

    #[test]
    fn a_resource_has_two_encodings() {
        let pair = tls_v3::TlsCertificate {
            certificate_chain: text("chain"),
            private_key: text("key"),
            ..tls_v3::TlsCertificate::default()
        };
        let context = tls_v3::CertificateValidationContext {
            trusted_ca: text("ca"),
            ..tls_v3::CertificateValidationContext::default()
        };
        let secret = |kind| Resource::new("a", &tls_v3::Secret { name: "a".into(), r#type: Some(kind) }, Vec::new());
        let scope = route_v3::ScopedRouteConfiguration {
            name: "a".into(),
            route_configuration: Some(route_v3::RouteConfiguration::default()),
            ..route_v3::ScopedRouteConfiguration::default()
        };
        for resource in [
            secret(Type::TlsCertificate(pair)),
            secret(Type::ValidationContext(context)),
            Resource::new("a", &scope, Vec::new()),
        ] {
            let other = reworded(&resource);
            assert_eq!(other.as_ref(), Some(&resource), "the same version");
            assert_ne!(other.as_ref().map(Resource::message), Some(resource.message()));
            assert_eq!(other.as_ref().and_then(reworded).map(|again| again.message()), Some(resource.message()));
        }
    }
}

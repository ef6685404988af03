//! API keys of clients.

use std::sync::Arc;

use envoy_types::pb::envoy::config::core::v3 as core_v3;
use envoy_types::pb::envoy::extensions::filters::http::api_key_auth::v3 as api_key_v3;

use super::delegate;
use crate::model::{ApiKeys, Confidential, KeySource};

/// Builds the filter of a route for these clients. Other requests are answered 401. The backend does not receive the key.
pub fn of_route(keys: &ApiKeys) -> core_v3::TypedExtensionConfig {
    let ApiKeys { clients, sources, client_header } = keys;
    let credential = |(client, key): &(Arc<str>, Confidential)| api_key_v3::Credential {
        key: str::to_owned(key),
        client: client.to_string(),
    };
    let config = api_key_v3::ApiKeyAuth {
        credentials: clients.iter().map(credential).collect(),
        key_sources: sources.iter().map(source).collect(),
        forwarding: Some(api_key_v3::Forwarding {
            header: client_header.as_ref().map(ToString::to_string).unwrap_or_default(),
            hide_credentials: true,
        }),
    };
    delegate::part("envoy.filters.http.api_key_auth", &config)
}

fn source(source: &KeySource) -> api_key_v3::KeySource {
    match source {
        KeySource::Header(name) => api_key_v3::KeySource { header: name.to_string(), ..Default::default() },
        KeySource::Query(name) => api_key_v3::KeySource { query: name.to_string(), ..Default::default() },
        KeySource::Cookie(name) => api_key_v3::KeySource { cookie: name.to_string(), ..Default::default() },
    }
}

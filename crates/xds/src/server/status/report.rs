//! The state of the clients' streams as `ClientConfig` messages.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::PoisonError;

use envoy_types::pb::envoy::admin::v3::{ClientResourceStatus, UpdateFailureState};
use envoy_types::pb::envoy::config::core::v3 as core_v3;
use envoy_types::pb::envoy::service::status::v3::client_config::GenericXdsConfig;
use envoy_types::pb::envoy::service::status::v3::{ClientConfig, ClientStatusResponse, ConfigStatus};
use envoy_types::pb::google::protobuf::Any;
use prost::Message;

use super::matcher::NodeMatcher;
use crate::protobuf;
use crate::protocol::Node;
use crate::protocol::{Held, Standing};
use crate::server::observer::Registry;
use crate::snapshot::{Resource, ResourceType};

/// Returns the status of every client that one of `matchers` selects, or of all clients without matchers. The streams of one
/// node are merged. Returns `None` if the response would exceed `most` bytes.
pub(super) fn report(
    registry: &Registry,
    matchers: &[NodeMatcher],
    contents: bool,
    most: usize,
) -> Option<ClientStatusResponse> {
    let mut clients: BTreeMap<String, Client> = BTreeMap::new();
    let mut size = 0;
    for open in registry.streams() {
        let stream = open.stream.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(node) = stream.node() else { continue };
        if !matchers.is_empty() && !matchers.iter().any(|matcher| matcher.matches(&node.id, &node.metadata)) {
            continue;
        }
        let client =
            clients.entry(node.id.clone()).or_insert_with(|| Client { node: node.clone(), has: BTreeMap::new() });
        stream.each_resource(&mut |held| {
            if size <= most {
                size += client.add(&held, contents);
            }
        });
        if size > most {
            return None;
        }
    }
    Some(ClientStatusResponse { config: clients.into_values().map(Client::config).collect() })
}

struct Client {
    node: Node,
    has: BTreeMap<(String, String), GenericXdsConfig>,
}

impl Client {
    /// Adds the state of one resource. Returns its size in bytes.
    fn add(&mut self, held: &Held<'_>, contents: bool) -> usize {
        let config = config(held, contents);
        let size = config.encoded_len() + 8;
        match self.has.entry((held.type_url.to_owned(), held.name.to_owned())) {
            Entry::Vacant(vacant) => drop(vacant.insert(config)),
            // If two streams have the resource, the worse status counts.
            Entry::Occupied(mut other) if other.get().config_status < config.config_status => {
                drop(other.insert(config));
            }
            Entry::Occupied(_) => {}
        }
        size
    }

    fn config(self) -> ClientConfig {
        ClientConfig {
            node: Some(core_v3::Node {
                id: self.node.id,
                cluster: self.node.cluster,
                user_agent_name: self.node.user_agent,
                client_features: self.node.features,
                ..Default::default()
            }),
            generic_xds_configs: self.has.into_values().collect(),
            ..Default::default()
        }
    }
}

fn config(held: &Held<'_>, contents: bool) -> GenericXdsConfig {
    let (config_status, client_status) = match held.standing {
        Standing::Waits => (ConfigStatus::NotSent, ClientResourceStatus::Requested),
        Standing::Absent => (ConfigStatus::NotSent, ClientResourceStatus::DoesNotExist),
        Standing::Sent { before: false } => (ConfigStatus::Stale, ClientResourceStatus::Requested),
        Standing::Sent { before: true } => (ConfigStatus::Stale, ClientResourceStatus::Acked),
        Standing::Accepted => (ConfigStatus::Synced, ClientResourceStatus::Acked),
        Standing::Rejected(_) => (ConfigStatus::Error, ClientResourceStatus::Nacked),
    };
    let version = held.version.map(|version| version.to_string()).unwrap_or_default();
    let error_state = match held.standing {
        Standing::Rejected(details) => {
            let (details, version_info) = (details.to_owned(), version.clone());
            Some(UpdateFailureState { details, version_info, ..Default::default() })
        }
        _ => None,
    };
    GenericXdsConfig {
        type_url: held.type_url.to_owned(),
        name: held.name.to_owned(),
        version_info: version,
        xds_config: held
            .resource
            .as_ref()
            .filter(|resource| contents && may_be_shown(resource))
            .map(|resource| Any { type_url: resource.kind().url().to_owned(), value: resource.message().to_vec() }),
        config_status: config_status.into(),
        client_status: client_status.into(),
        error_state,
        ..Default::default()
    }
}

/// Returns whether a resource contains no secrets, neither a `Secret` nor a key in another message.
fn may_be_shown(resource: &Resource) -> bool {
    let (kind, message) = (resource.kind(), resource.message());
    kind != ResourceType::SECRET
        && protobuf::to_json(kind.full_name(), &message) == protobuf::to_json_redacted(kind.full_name(), &message)
}

//! BackendPolicies for the load balancing, the health checks, and the idle connections that HTTPProxies set for a Service, and
//! BackendTLSPolicies for its verification.

mod spec;
mod verified;

use std::collections::BTreeMap;

use lockgate_route::model::{BackendFeatures, Cluster, ClusterId, TrafficPolicy, UpstreamProtocol};
use lockgate_route::objects::{BackendPolicy, Kind, ObjectKey, Objects};
use lockgate_route::translate::traffic_policy;
use serde_json::{Map, Value, json};

use super::losses::{FindingText, Losses};
use super::names::Names;
use super::routes::MIGRATED_FROM;
use super::rules::{RuleFault, RulePlace};
use super::{key, object};
use crate::check::Translated;

use verified::Verified;

/// The features that HTTPProxies set, by Service port.
#[derive(Debug, Default)]
pub struct Backends {
    features: BTreeMap<(ObjectKey, u16), (ObjectKey, Map<String, Value>)>,
    verified: Verified,
}

impl Backends {
    /// Adds the features with which a route reaches a Service. The error is a protocol or a verification that no policy expresses.
    pub fn add(
        &mut self,
        source: &Translated,
        cluster: &Cluster,
        id: &ClusterId,
        place: RulePlace,
        losses: &mut Losses,
    ) -> Result<(), Option<RuleFault>> {
        // The policy of the Service itself.
        if cluster.of_service {
            return Ok(());
        }
        let service = id.port.service();
        let own = traffic_policy((&source.objects, &source.settings), service, cluster.port, None);
        check(cluster, own.as_ref(), service)?;
        if let Some(verification) = &cluster.policy.verification {
            self.verified.add(verification, &id.port, place, losses).map_err(Some)?;
        }
        if cluster.policy.server_name.is_some() {
            let texts = [
                "the server name (SNI) of connections to a backend follows from a BackendTLSPolicy",
                "the Service may present another certificate",
                "Write a BackendTLSPolicy with the host if the Service needs a server name.",
            ];
            place.report_change(losses, "services", texts);
        }
        let Some(features) = &cluster.policy.features else { return Ok(()) };
        if !features.origins.is_empty() {
            let texts = [
                "a BackendPolicy targets the Service, and the HTTPProxy adds features",
                "the load balancing, the health check, and the limit of idle connections of the HTTPProxy are left out",
                "Add the features to the BackendPolicy.",
            ];
            place.report_change(losses, "services", texts);
            return Ok(());
        }
        self.add_features((service, cluster.port), features, place, losses);
        Ok(())
    }

    fn add_features(
        &mut self,
        (service, port): (&ObjectKey, u16),
        features: &BackendFeatures,
        place: RulePlace,
        losses: &mut Losses,
    ) {
        let written = spec::written(features, place, losses);
        if written.is_empty() {
            return;
        }
        let at = (service.clone(), port);
        let (_, known) = self.features.entry(at).or_insert_with(|| (place.owner.clone(), written.clone()));
        if *known == written {
            let text = FindingText {
                message: "a BackendPolicy applies to all routes of a Service".to_owned(),
                consequence: "the load balancing and the health check of this route apply to the other routes of the Service too",
                remedy: "No action is needed unless another route needs other features.",
            };
            return losses.add_note(place.owner, place.below(losses, "services"), text);
        }
        let texts = [
            "a BackendPolicy applies to all routes of a Service, and another route sets other features",
            "the features of the other route apply",
            "Use a second Service for this route, or decide for one of both.",
        ];
        place.report_change(losses, "services", texts);
    }

    /// Returns the ConfigMaps, the BackendTLSPolicies, and the BackendPolicies.
    pub fn objects(self, objects: &Objects) -> Vec<Value> {
        let mut names = BTreeMap::<_, Names>::new();
        let others =
            objects.all::<BackendPolicy>().filter(|policy| !policy.meta.annotations.contains_key(MIGRATED_FROM));
        for policy in others {
            names.entry(policy.meta.key.namespace.clone()).or_default().reserve(&policy.meta.key.name);
        }
        let mut written = self.verified.objects(objects);
        for ((service, port), (owner, features)) in self.features {
            let target = json!({ "kind": "Service", "name": &*service.name, "sectionName": port.to_string() });
            let mut spec = Map::from_iter([("targetRefs".to_owned(), json!([target]))]);
            spec.extend(features);
            let name = names.entry(service.namespace.clone()).or_default().take(&service.name);
            let policy = key(&service.namespace, &name);
            let annotations = [(MIGRATED_FROM, &*owner.name)];
            written.push(object(Kind::BACKEND_POLICY, &policy, &annotations, Value::Object(spec)));
        }
        written
    }
}

/// Checks that HTTPRoutes reach a Service with the same protocol, encryption, and verification.
fn check(cluster: &Cluster, own: Option<&TrafficPolicy>, service: &ObjectKey) -> Result<(), Option<RuleFault>> {
    let Cluster { port, policy, .. } = cluster;
    let protocol = match policy.protocol {
        UpstreamProtocol::Http1 => None,
        UpstreamProtocol::Tls => Some("tls"),
        UpstreamProtocol::H2 => Some("h2"),
        UpstreamProtocol::H2c => Some("h2c"),
    };
    // A BackendTLSPolicy is sufficient for TLS.
    let protocol_of = |own: &TrafficPolicy| match policy.verification {
        Some(_) => own.protocol.over_tls(),
        None => own.protocol,
    };
    if own.is_some_and(|own| protocol_of(own) == policy.protocol) {
        return Ok(());
    }
    let protocol = protocol.unwrap_or("http/1.1");
    Err(Some(RuleFault {
        part: "services",
        message: format!("HTTPRoutes take the protocol {protocol:?} of Service \"{service}\" from the Service alone"),
        remedy: format!(
            "Annotate the Service, and migrate again: kubectl annotate service {} --namespace {} \
             projectcontour.io/upstream-protocol.{protocol}={port}.",
            service.name, service.namespace
        ),
    }))
}

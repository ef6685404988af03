//! BackendTLSPolicies for the Services whose certificates HTTPProxies verify, with ConfigMaps of the certificate authorities.

use std::collections::BTreeMap;
use std::sync::Arc;

use lockgate_route::model::{Authorities, PeerName, PortRef, ServicePortId, Verification};
use lockgate_route::objects::gateway::BackendTlsPolicy;
use lockgate_route::objects::{Kind, ObjectKey, Objects, Secret};
use serde_json::{Value, json};

use super::super::losses::{FindingText, Losses};
use super::super::names::Names;
use super::super::routes::MIGRATED_FROM;
use super::super::rules::{RuleFault, RulePlace};
use super::super::{key, object};

/// The part of a route with the verification.
const PART: &str = "services";

/// The verifications by Service port, each with the HTTPProxy that sets it first.
#[derive(Debug, Default)]
pub struct Verified(BTreeMap<ServicePortId, (ObjectKey, Verification)>);

impl Verified {
    /// Adds the verification with which a route reaches a Service. The error is the reason why no BackendTLSPolicy can have it.
    pub fn add(
        &mut self,
        verification: &Verification,
        port: &ServicePortId,
        place: RulePlace,
        losses: &mut Losses,
    ) -> Result<(), RuleFault> {
        let fault = |message: &str, remedy: &str| {
            Err(RuleFault { part: PART, message: message.to_owned(), remedy: remedy.to_owned() })
        };
        if verification.server_name.is_empty() {
            return fault(
                "a BackendTLSPolicy needs the server name (SNI) of connections, a DNS name",
                "Name a DNS name of the certificate first in subjectNames, and migrate again.",
            );
        }
        let (_, known) = self.0.entry(port.clone()).or_insert_with(|| (place.owner.clone(), verification.clone()));
        if *known != *verification {
            return fault(
                "another route verifies the certificate of this Service with other authorities or names",
                "Use a second Service for this route, or the same validation for both.",
            );
        }
        let text = FindingText {
            message: "a BackendTLSPolicy applies to all routes of a Service".to_owned(),
            consequence: "the certificate authorities are copied into a ConfigMap, and other routes use and verify TLS too",
            remedy: "Replace the ConfigMap when the authorities change, such as by trust-manager.",
        };
        losses.add_note(place.owner, place.below(losses, PART), text);
        Ok(())
    }

    /// Returns the ConfigMaps and the BackendTLSPolicies.
    pub fn objects(self, objects: &Objects) -> Vec<Value> {
        let mut names = BTreeMap::<Arc<str>, Names>::new();
        let others =
            objects.all::<BackendTlsPolicy>().filter(|policy| !policy.meta.annotations.contains_key(MIGRATED_FROM));
        for policy in others {
            names.entry(policy.meta.key.namespace.clone()).or_default().reserve(&policy.meta.key.name);
        }
        for name in objects.of_kind(Kind::CONFIG_MAP).keys() {
            names.entry(name.namespace.clone()).or_default().reserve(&name.name);
        }
        let mut written = Vec::new();
        for (port, (owner, verification)) in self.0 {
            let service = port.service();
            let Authorities::Secret(secret) = &verification.authorities else { continue };
            let Some(authorities) = objects.get::<Secret>(secret.object()).and_then(|one| one.authorities.as_deref())
            else {
                continue;
            };
            // Both objects have one name, which no ConfigMap of users is likely to have: the input rarely contains these.
            let wanted = format!("{}-upstream-ca", service.name);
            let name = names.entry(service.namespace.clone()).or_default().take(&wanted);
            let named = key(&service.namespace, &name);
            let annotations = [(MIGRATED_FROM, &*owner.name)];
            let mut authorities = object(Kind::CONFIG_MAP, &named, &annotations, json!({ "ca.crt": authorities }));
            if let Some(fields) = authorities.as_object_mut()
                && let Some(data) = fields.remove("spec")
            {
                fields.insert("data".to_owned(), data);
            }
            let mut target = json!({ "group": "", "kind": "Service", "name": &*service.name });
            if let PortRef::Name(port) = port.port() {
                target["sectionName"] = json!(&**port);
            }
            let mut validation = json!({
                "caCertificateRefs": [{ "group": "", "kind": "ConfigMap", "name": name }],
                "hostname": &*verification.server_name,
            });
            if verification.names != [PeerName::Dns(verification.server_name.clone())] {
                validation["subjectAltNames"] = verification.names.iter().map(alternative_name).collect();
            }
            let spec = json!({ "targetRefs": [target], "validation": validation });
            written.extend([authorities, object(Kind::BACKEND_TLS_POLICY, &named, &annotations, spec)]);
        }
        written
    }
}

fn alternative_name(name: &PeerName) -> Value {
    match name {
        PeerName::Dns(name) => json!({ "type": "Hostname", "hostname": &**name }),
        PeerName::DnsBelow(suffix) => json!({ "type": "Hostname", "hostname": format!("*.{suffix}") }),
        PeerName::Uri(uri) => json!({ "type": "URI", "uri": &**uri }),
    }
}

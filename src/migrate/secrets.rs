//! Secrets that the input does not contain. Users rarely write them to files, so each is assumed to contain a certificate for the
//! hosts of its TLS entry, or of its HTTPProxy.

use std::collections::BTreeMap;
use std::sync::Arc;

use lockgate_route::model::KeyPair;
use lockgate_route::objects::http_proxy::HttpProxy;
use lockgate_route::objects::{Ingress, Kind, Meta, Object, ObjectKey, Objects, Secret};
use lockgate_route::settings::Settings;
use lockgate_route::translate::secret_namespace;

/// Adds the Secrets that Ingresses, HTTPProxies, and the settings name, that are not in `objects`, and that are not `known` to be absent.
pub fn assume(objects: &mut Objects, settings: &Settings, known: impl Fn(Kind, &ObjectKey) -> bool) {
    let mut missing = BTreeMap::<ObjectKey, Vec<String>>::new();
    let configured = [&settings.tls.default_secret, &settings.tls.fallback_secret];
    for (namespace, name) in configured.into_iter().flatten() {
        missing.entry(ObjectKey::new(namespace, name)).or_default();
    }
    for ingress in objects.all::<Ingress>() {
        for entry in ingress.spec.tls.iter().flatten() {
            let Some(name) = entry.secret_name.as_deref().filter(|name| !name.is_empty()) else { continue };
            let of_rules = || ingress.spec.rules.iter().flatten().filter_map(|rule| rule.host.clone());
            let hosts = entry.hosts.clone().filter(|hosts| !hosts.is_empty()).unwrap_or_else(|| of_rules().collect());
            let namespace = secret_namespace(&ingress.meta).unwrap_or_else(|| ingress.meta.key.namespace.clone());
            let names = missing.entry(ObjectKey { namespace, name: name.into() }).or_default();
            names.extend(hosts.iter().map(|host| host.to_ascii_lowercase()));
        }
    }
    for proxy in objects.all::<HttpProxy>() {
        let Some(host) = &proxy.spec.virtualhost else { continue };
        let Some(name) = host.tls.as_ref().map(|tls| &*tls.secret_name).filter(|name| !name.is_empty()) else {
            continue;
        };
        let key = match name.split_once('/') {
            Some((namespace, name)) => ObjectKey::new(namespace, name),
            None => ObjectKey::new(&proxy.meta.key.namespace, name),
        };
        missing.entry(key).or_default().push(host.fqdn.to_ascii_lowercase());
    }
    missing.retain(|key, _| objects.get::<Secret>(key).is_none() && !known(Kind::SECRET, key));
    for (key, names) in missing {
        objects.apply(Object::new(secret(key, names)));
    }
}

fn secret(key: ObjectKey, names: Vec<String>) -> Secret {
    let pair = KeyPair {
        certificate_chain: Vec::new(),
        private_key: Vec::new(),
        names: names.into(),
        not_after: i64::MAX,
        is_ed25519: false,
    };
    let meta = Meta {
        key,
        uid: "".into(),
        generation: 0,
        created: i64::MAX,
        terminating: false,
        annotations: BTreeMap::new(),
        labels: BTreeMap::new(),
    };
    let pair = Some(Arc::new(pair));
    Secret {
        meta,
        pair,
        early: None,
        expired: None,
        fault: None,
        authorities: None,
        authorities_fault: None,
        revocations: None,
        credentials: None,
        key_sets: Box::default(),
        client_secret: None,
    }
}

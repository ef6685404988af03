//! The migration to Gateway API: `lockgate migrate ingress` and `lockgate migrate httpproxy`. [`contour`] is the report for those who
//! keep their HTTPProxies.
//!
//! The module translates the Ingresses or the HTTPProxies like the controller, and writes the served routes as a Gateway and
//! HTTPRoutes. [`lockgate_route::translate`] therefore decides conflicts, the ownership of hosts, includes, certificates, and redirects.
//! This module expresses the result in Gateway API ([`paths`], [`conditions`], [`rules`], [`filters`], [`routes`], [`streams`], [`listeners`]) and in
//! Lockgate's policies ([`policies`], [`backends`]), and reports the parts that these cannot express ([`losses`]). A route whose
//! restriction of access cannot be expressed is written without a backend. The module translates the written objects once more, and
//! reports their problems, too ([`proof`]). No I/O.

mod backends;
mod conditions;
pub mod contour;
mod filters;
mod listeners;
mod losses;
mod names;
mod paths;
mod policies;
mod proof;
mod routes;
mod rules;
mod secrets;
mod served;
mod streams;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

use lockgate_route::objects::{Kind, ObjectKey};
use lockgate_route::settings::Settings;
use serde_json::{Value, json};

use crate::check::{Finding, Level, Manifests, Rule, Scope, check, translated};

use backends::Backends;
use listeners::HostListeners;
use losses::Losses;
use served::Served;

/// The options for the written objects.
#[derive(Debug, Clone)]
pub struct MigrationOptions {
    /// The migrated objects.
    pub migrated: Migrated,
    /// The namespace and the name of the Gateway.
    pub gateway: ObjectKey,
    /// The name of its GatewayClass.
    pub class: String,
    /// The port of its listener for HTTP.
    pub http_port: u16,
    /// The port of its listeners for HTTPS.
    pub https_port: u16,
    /// Whether fields of the experimental channel are written.
    pub experimental: bool,
    /// Whether prefixes of characters become prefixes of whole elements.
    pub whole_elements: bool,
}

/// The objects that are migrated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Migrated {
    /// Ingresses.
    Ingresses,
    /// HTTPProxies, with the objects that they include.
    HttpProxies,
}

impl Migrated {
    /// Returns the plural of the kind.
    pub fn plural(self) -> &'static str {
        match self {
            Self::Ingresses => "Ingresses",
            Self::HttpProxies => "HTTPProxies",
        }
    }

    /// Returns the kind.
    pub fn kind(self) -> Kind {
        match self {
            Self::Ingresses => Kind::INGRESS,
            Self::HttpProxies => Kind::HTTP_PROXY,
        }
    }
}

/// The result of a migration.
#[derive(Debug, Default)]
pub struct Migration {
    /// The objects of Gateway API: the Gateway, ListenerSets, ReferenceGrants, HTTPRoutes from older migrated objects first, and TLSRoutes.
    /// Then Lockgate's policies.
    pub objects: Vec<Value>,
    /// The findings about the migrated objects, and the parts that Gateway API does not express, sorted.
    pub findings: Vec<Finding>,
}

/// Writes the Ingresses or the HTTPProxies of `manifests` as objects of Gateway API. `now` is the time in seconds since the Unix epoch, for the
/// certificates.
pub fn migrate(
    manifests: &Manifests,
    settings: &Settings,
    scope: &Scope,
    options: &MigrationOptions,
    now: i64,
) -> Migration {
    let known = |kind: Kind, key: &ObjectKey| !scope.is_unknown(kind) || manifests.has_unread(kind, key);
    let source = translated(manifests, settings, scope, |objects| secrets::assume(objects, settings, known));
    let given: BTreeSet<ObjectKey> = manifests
        .objects()
        .iter()
        .filter(|object| object.kind() == Kind::SERVICE)
        .map(|one| one.meta().key.clone())
        .collect();
    let mut losses = Losses::new(&source.objects, options.migrated);
    if options.migrated == Migrated::Ingresses {
        losses.report_delegations(&source.translator);
    }
    let served = Served::new(source.translator.model(), options.migrated);
    served.report(&source.settings, &source.translator, &mut losses);
    if settings.http.http3.enabled && !served.tls.is_empty() {
        losses.report_http3(&options.gateway);
    }
    let mut writer = rules::Writer { source: &source, given: &given, options, backends: Backends::default() };
    let hosts = routes::hosts(&served, &mut writer, &mut losses);
    let streams = streams::streams(&served, &mut writer, &mut losses);
    let listeners = HostListeners::new(&served, (&hosts, &streams), options, &mut losses);
    let mut objects = listeners.objects(&hosts, &streams);
    let routes::Written { routes, policies } = routes::write(&hosts, &listeners, &source.objects, options, &mut losses);
    objects.extend(policies::grants(&policies));
    objects.extend(routes);
    objects.extend(streams::objects(&streams, &listeners, &source.objects));
    objects.extend(policies);
    objects.extend(writer.backends.objects(&source.objects));
    proof::report(&objects, &source, &mut losses);
    let mut findings: Vec<Finding> = check(manifests, settings, scope, now);
    // A missing object is no loss, and an annotation that the controller reads may be one.
    findings.retain(|finding| ![Rule::NotInManifests, Rule::SupportedAnnotation].contains(&finding.rule));
    // Without a cluster, Ingresses without a class are migrated, and routes need no class.
    let is_classless = |finding: &Finding| finding.rule == Rule::NotServed && finding.level == Level::Warning;
    findings.retain(|finding| !matches!(scope, Scope::Part) || !is_classless(finding));
    findings.extend(losses.located(manifests));
    findings.sort();
    findings.dedup();
    Migration { objects, findings }
}

/// Returns an object of Gateway API without status.
fn object(kind: Kind, key: &ObjectKey, annotations: &[(&str, &str)], spec: Value) -> Value {
    let mut metadata = json!({ "name": &*key.name, "namespace": &*key.namespace });
    for (name, value) in annotations {
        metadata["annotations"][*name] = json!(value);
    }
    json!({ "apiVersion": kind.api_version(), "kind": kind.as_str(), "metadata": metadata, "spec": spec })
}

/// Returns the key of an object of `namespace`.
fn key(namespace: &Arc<str>, name: &str) -> ObjectKey {
    ObjectKey { namespace: namespace.clone(), name: name.into() }
}

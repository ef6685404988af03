//! TLS of a root: its Secret, its versions, and the redirect of plain HTTP.

use std::sync::Arc;

use super::client_validation;
use super::fallback;
use super::report::ProxyReport;
use super::situation;
use crate::model::{Host, RedirectStatus, TlsVersion};
use crate::objects::http_proxy::{HttpProxy, Tls};
use crate::objects::{Kind, ObjectKey};
use crate::settings::Settings;
pub use crate::translate::delegations::permit as is_delegated;
use crate::translate::dialect::Resolver;
use crate::translate::host;
use crate::translate::plain_text::ToHttps;
use crate::translate::problem::{Cause, Message};
use crate::translate::source::{EntryKeyPair, HostClientValidation, TlsEntry};
use crate::translate::unit::Field;

/// The field of TLS.
const FIELD: &str = "spec.virtualhost.tls";

/// TLS of a root, parsed.
pub struct ParsedTls {
    /// The entry with the key pair. `None`: the host has no certificate of its own.
    pub entry: Option<TlsEntry>,
    /// The lowest and the highest TLS version.
    pub versions: (TlsVersion, TlsVersion),
    /// The verification of clients.
    pub clients: Option<Arc<HostClientValidation>>,
    /// Whether clients without a known server name reach the host too.
    pub is_without_server_name: bool,
    /// The redirect of plain HTTP, which also applies without a usable certificate. Otherwise, routes would be served in clear text.
    pub redirect: ToHttps,
}

/// Parses TLS of a root.
pub fn parse(
    proxy: &HttpProxy,
    tls: &Tls,
    host: &Host,
    report: &mut ProxyReport,
    resolver: &mut Resolver,
) -> ParsedTls {
    let settings = resolver.context.settings;
    let entry = entry(proxy, tls, host, report, resolver);
    let versions = versions(proxy, tls, report, settings);
    let clients = client_validation::parse(proxy, tls, report, resolver);
    let is_without_server_name = tls.enable_fallback_certificate && fallback::parse(proxy, tls, host, report, resolver);
    let redirect = ToHttps::with_status(RedirectStatus::MovedPermanently, settings);
    ParsedTls { entry, versions, clients, is_without_server_name, redirect }
}

/// Returns whether exactly one of the two kinds of TLS is set.
pub fn is_valid(tls: &Tls) -> bool {
    tls.passthrough == tls.secret_name.is_empty()
}

fn entry(
    proxy: &HttpProxy,
    tls: &Tls,
    host: &Host,
    report: &mut ProxyReport,
    resolver: &mut Resolver,
) -> Option<TlsEntry> {
    let origin = proxy.meta.object_ref(Kind::HTTP_PROXY);
    let without = "no certificate for the host";
    if !is_valid(tls) {
        let message = "exactly one of \"secretName\" and \"passthrough\" must be set";
        report.add(&origin, FIELD, &situation::TLS_NOT_VALID, message, without);
        return None;
    }
    if tls.passthrough {
        return None;
    }
    let (field, key) = (Field::new(FIELD, &[]), secret_key(&tls.secret_name, &proxy.meta.key.namespace));
    if !is_delegated(&key, &proxy.meta.key.namespace, resolver) {
        let message = format!("no TLSCertificateDelegation permits the reference to Secret \"{key}\"");
        let field = format!("{field}.secretName");
        let message = Message::from(message).because(Cause::NotDelegated(key.namespace));
        report.add(&origin, field, &situation::DELEGATION_NOT_PERMITTED, message, without);
        return None;
    }
    let (material, problem) = EntryKeyPair::read(&origin, &field, key, resolver);
    if let Some(problem) = problem {
        report.add_problem(problem, &situation::SECRET_NOT_VALID);
    }
    // Contour presents it as well, and some clients do not verify names.
    if let Some((secret, _)) = material.pair().filter(|(_, pair)| !host::covered(host, &pair.names)) {
        let message = format!("the certificate of Secret \"{secret}\" has no name that covers \"{host}\"");
        let field = format!("{field}.secretName");
        report.add(&origin, field, &situation::CERTIFICATE_NAMES, message, "presented, and most clients refuse it");
    }
    Some(TlsEntry { field, hosts: vec![host.clone()], hostless: false, ignores_names: true, material })
}

/// Returns the key of a Secret: `name` in `namespace`, or `namespace/name`.
pub fn secret_key(text: &str, namespace: &str) -> ObjectKey {
    match text.split_once('/') {
        Some((namespace, name)) => ObjectKey::new(namespace, name),
        None => ObjectKey::new(namespace, text),
    }
}

/// Returns the TLS versions, within the bounds of the settings. An unknown version is the default.
fn versions(proxy: &HttpProxy, tls: &Tls, report: &mut ProxyReport, settings: &Settings) -> (TlsVersion, TlsVersion) {
    let bounds = &settings.tls.parameters;
    let version = |text: &str| match text {
        "1.2" => Some(TlsVersion::V1_2),
        "1.3" => Some(TlsVersion::V1_3),
        _ => None,
    };
    let (asked_minimum, asked_maximum) =
        (version(&tls.minimum_protocol_version), version(&tls.maximum_protocol_version));
    let minimum = asked_minimum.map_or(bounds.minimum, |asked| asked.max(bounds.minimum));
    let maximum = asked_maximum.map_or(bounds.maximum, |asked| asked.min(bounds.maximum));
    if minimum <= maximum {
        return (minimum, maximum);
    }
    let object = proxy.meta.object_ref(Kind::HTTP_PROXY);
    let field = format!("{FIELD}.minimumProtocolVersion");
    let message = "the lowest TLS version is above the highest";
    report.add(&object, field, &situation::TLS_NOT_VALID, message, "the versions of the settings are offered");
    (bounds.minimum, bounds.maximum)
}

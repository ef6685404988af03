//! The authorization server of the settings: which routes are not authorized, and the context of their requests.

use std::collections::BTreeMap;
use std::sync::Arc;

use lockgate_xds::provenance::ObjectRef;

use super::report::ProxyReport;
use super::situation::{self, Block, Situation};
use super::tree::{Declaring, Tree};
use crate::model::{AuthorizationProtocol, SettingsAuthorization};
use crate::objects::http_proxy::{AuthorizationPolicy, AuthorizationServer, ProxyRoute};
use crate::settings::Settings;

/// The maximum number of values of a context, and its size in bytes. Each route has a copy.
const MOST: usize = 32;
const LONGEST: usize = 4 << 10;

const CONTEXT_NOT_VALID: Situation = situation::auth("AuthContextInvalid");

/// The policy of a host for the server of the settings.
#[derive(Debug, Clone, Default)]
pub struct HostPolicy {
    /// Whether routes without a policy are not authorized.
    is_disabled: bool,
    /// The values of all routes, which share them.
    context: Arc<BTreeMap<String, String>>,
}

impl HostPolicy {
    /// Returns whether an authorization names no server, so that it concerns that of the settings.
    pub fn concerns(spec: &AuthorizationServer, settings: &Settings) -> bool {
        let AuthorizationServer { auth_policy, .. } = spec;
        let others = AuthorizationServer { auth_policy: auth_policy.clone(), ..AuthorizationServer::default() };
        *spec == others && settings.external_authorization.endpoint.is_some()
    }

    /// Parses the policy of a host.
    pub fn parse(
        policy: Option<&AuthorizationPolicy>,
        field: &str,
        origin: &ObjectRef,
        report: &mut ProxyReport,
        settings: &Settings,
    ) -> Self {
        let Some(policy) = policy else { return Self::default() };
        Self {
            is_disabled: policy.disabled && may_disable(origin, field, report, settings),
            context: Arc::new(context_beside(policy, field, origin, report, settings)),
        }
    }
}

impl Tree<'_> {
    /// Returns how a route differs from others for the server of the settings.
    pub fn settings_authorization(
        &mut self,
        object: &Declaring,
        field: &str,
        route: &ProxyRoute,
    ) -> Option<SettingsAuthorization> {
        let (settings, report) = (self.resolver.context.settings, &mut self.report);
        let host = self.host.access.authorization.of_settings()?;
        let field = format!("{field}.authPolicy");
        let Some(policy) = &route.auth_policy else {
            return difference(host.is_disabled, host.context.clone());
        };
        if settings.external_authorization.endpoint.is_none() {
            if !policy.context.is_empty() {
                let message = "the host has no authorization";
                report.add(
                    &object.origin,
                    format!("{field}.context"),
                    &Block::Authorization.ignored(),
                    message,
                    "left out",
                );
            }
            return None;
        }
        let own = context_beside(policy, &field, &object.origin, report, settings);
        let is_off = policy.disabled && may_disable(&object.origin, &field, report, settings);
        let mut context = host.context.clone();
        if !own.is_empty() {
            Arc::make_mut(&mut context).extend(own);
        }
        difference(is_off, context)
    }
}

fn difference(is_off: bool, context: Arc<BTreeMap<String, String>>) -> Option<SettingsAuthorization> {
    match is_off {
        true => Some(SettingsAuthorization::Off),
        false => (!context.is_empty()).then_some(SettingsAuthorization::Context(context)),
    }
}

/// Returns whether the settings allow routes without authorization.
fn may_disable(origin: &ObjectRef, field: &str, report: &mut ProxyReport, settings: &Settings) -> bool {
    let may = settings.tenants.disable_authorization;
    if !may {
        let message = "the setting \"tenants.disableAuthorization\" does not allow it";
        let field = format!("{field}.disabled");
        report.add(origin, field, &Block::Authorization.ignored(), message, "requests are authorized");
    }
    may
}

/// Returns the context of a policy for the server of the settings. It cannot replace values of the settings, on which the server may rely.
fn context_beside(
    policy: &AuthorizationPolicy,
    field: &str,
    origin: &ObjectRef,
    report: &mut ProxyReport,
    settings: &Settings,
) -> BTreeMap<String, String> {
    let of_settings = &settings.external_authorization;
    let is_http = of_settings.check.protocol == AuthorizationProtocol::Http;
    let mut own = context(policy, is_http, (origin, field), "context left out", report).unwrap_or_default();
    if let Some(key) = own.keys().find(|key| of_settings.context.contains_key(*key)) {
        let (field, message) = (format!("{field}.context"), format!("{key:?} has a value in the settings"));
        report.add(origin, field, &Block::Authorization.ignored(), message, "value of the settings sent");
    }
    own.retain(|key, _| !of_settings.context.contains_key(key));
    own
}

/// Returns the context of a policy. A server over HTTP receives none. The error is reported with its consequence.
pub fn context(
    policy: &AuthorizationPolicy,
    is_http: bool,
    (origin, field): (&ObjectRef, &str),
    consequence: &str,
    report: &mut ProxyReport,
) -> Result<BTreeMap<String, String>, ()> {
    let field = format!("{field}.context");
    let size: usize = policy.context.iter().map(|(key, value)| key.len() + value.len()).sum();
    if is_http && !policy.context.is_empty() {
        let message = "a server over HTTP receives no context";
        report.add(origin, field, &situation::auth("AuthContextForHTTP"), message, "context left out");
        return Ok(BTreeMap::new());
    }
    if policy.context.len() > MOST || size > LONGEST {
        let message = format!("more than {MOST} values or {LONGEST} bytes");
        report.add(origin, field, &CONTEXT_NOT_VALID, message, consequence);
        return Err(());
    }
    Ok(policy.context.clone())
}

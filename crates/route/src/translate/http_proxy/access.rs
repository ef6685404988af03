//! The access policies of a host and its routes: addresses of clients, limits of the request rate, tokens, and authorization.
//!
//! The policies of a route replace those of its host. An invalid policy closes what it protects.

use std::sync::Arc;
use std::time::Duration;

use lockgate_xds::provenance::ObjectRef;

use super::authorization::HostAuthorization;
use super::global_limits::Descriptors;
use super::report::ProxyReport;
use super::situation::{self, Block, Situation};
use super::tokens::Tokens;
use super::tree::{Declaring, Tree};
use super::upstream::RootPolicies;
use crate::model::{AddressRange, ClientAddresses, ClientRange, HeaderName, HeaderValue, LimitAnswer, LocalRateLimit};
use crate::objects::http_proxy::{IpFilterPolicy, LocalRateLimitPolicy, ProxyRoute, RateLimitPolicy, VirtualHost};
use crate::translate::dialect::Resolver;
use crate::translate::fault::FieldFault;
use crate::translate::gateway::http_policy::{Features, Shared};

/// The maximum number of address ranges of a list. Each route has a copy.
const RANGES: usize = 256;
/// The maximum number of headers of the answer to requests over a limit. Source: Envoy `response_headers_to_add`.
const HEADERS: usize = 10;

/// The access policies of a host.
#[derive(Debug, Default)]
pub struct HostAccess {
    addresses: Option<Arc<ClientAddresses>>,
    limit: Option<Arc<LocalRateLimit>>,
    descriptors: Option<Descriptors>,
    tokens: Tokens,
    /// The authorization.
    pub authorization: HostAuthorization,
    /// The policies for the servers that the access policies call.
    pub servers: RootPolicies,
    /// The object that sets them.
    root: Option<ObjectRef>,
}

/// The access policies of a route.
pub struct Access {
    /// The features.
    pub features: Option<Arc<Features>>,
    /// Whether a policy cannot be enforced.
    pub is_closed: bool,
}

/// The object and the part of it that policies belong to.
#[derive(Clone, Copy)]
struct Owner<'a> {
    origin: &'a ObjectRef,
    block: Block,
    /// The consequence of a policy that cannot be enforced.
    closed: &'a str,
}

impl HostAccess {
    /// Parses the policies of a host. Returns them, and whether the host is closed.
    pub fn parse(
        host: &VirtualHost,
        origin: &ObjectRef,
        closed: &str,
        report: &mut ProxyReport,
        resolver: &mut Resolver,
    ) -> (Self, bool) {
        let owner = Owner { origin, block: Block::VirtualHost, closed };
        let field = "spec.virtualhost";
        let addresses = addresses(field, [&host.ip_allow_policy, &host.ip_deny_policy], owner, report);
        let limit = limit(field, host.rate_limit_policy.as_ref(), Some(origin), owner, report);
        let is_closed = addresses.is_err() || limit.is_err();
        let descriptors = descriptors(field, host.rate_limit_policy.as_ref(), owner, report, resolver);
        let mut servers = RootPolicies::default();
        let tokens = Tokens::parse(&host.jwt_providers, origin, report, resolver, &mut servers);
        let authorization = HostAuthorization::parse(host, origin, report, resolver, &mut servers);
        let (addresses, limit) = (addresses.unwrap_or_default(), limit.unwrap_or_default());
        let root = Some(origin.clone());
        (Self { addresses, limit, descriptors, tokens, authorization, servers, root }, is_closed)
    }
}

impl Tree<'_> {
    /// Returns the access policies of a route.
    pub fn access(&mut self, object: &Declaring, field: &str, route: &ProxyRoute) -> Access {
        let (report, host, resolver) = (&mut self.report, &self.host.access, &mut self.resolver);
        let owner = Owner { origin: &object.origin, block: Block::Route, closed: "answered 503" };
        let addresses = addresses(field, [&route.ip_allow_policy, &route.ip_deny_policy], owner, report);
        let limit = limit(field, route.rate_limit_policy.as_ref(), None, owner, report);
        let jwt = host.tokens.of_route(route.jwt_verification_policy.as_ref(), &object.origin, field, report);
        let is_in_plain_text = self.host.redirect.is_none() || route.permit_insecure;
        let at = (&object.origin, field);
        let server = host.authorization.of_route(route.auth_policy.as_ref(), is_in_plain_text, at, report);
        let (Ok(addresses), Ok(limit), Ok(jwt), Ok(server)) = (addresses, limit, jwt, server) else {
            return Access { features: None, is_closed: true };
        };
        let own_descriptors = descriptors(field, route.rate_limit_policy.as_ref(), owner, report, resolver);
        let has_descriptors = own_descriptors.is_some();
        let default = &resolver.context.settings.rate_limit.descriptors;
        let global = Descriptors::of_route(own_descriptors, host.descriptors.as_ref(), default).map(Arc::new).map(Ok);
        let own = Features {
            client_addresses: addresses.map(Ok),
            local_rate_limit: limit.map(Ok),
            global_rate_limit: global.clone().filter(|_| has_descriptors),
            ..Features::default()
        };
        let inherited = Features {
            client_addresses: host.addresses.clone().map(Ok),
            local_rate_limit: host.limit.clone().map(Ok),
            global_rate_limit: global,
            jwt: jwt.map(Ok),
            authorization: server.map(Ok),
            cors: self.host.cors.clone().map(|value| Ok(Shared { value, replaces: false })),
            ..Features::default()
        };
        let inherited = match &host.root {
            Some(root) => {
                let origins = (*root != object.origin).then(|| root.clone()).into_iter().collect();
                Features { origins, ..inherited.decided_by(root) }
            }
            None => inherited,
        };
        let features = own.decided_by(&object.origin).or(&inherited);
        Access { features: self.shared_features(features), is_closed: false }
    }

    /// Returns the features, shared with the last route if they are equal. `None`: there are none.
    fn shared_features(&mut self, features: Features) -> Option<Arc<Features>> {
        features.names().next()?;
        let last = self.last_features.take().filter(|last| **last == features);
        self.last_features = Some(last.unwrap_or_else(|| Arc::new(features)));
        self.last_features.clone()
    }
}

/// Parses the allowed and the denied addresses. The error is reported.
fn addresses(
    field: &str,
    [allow, deny]: [&[IpFilterPolicy]; 2],
    owner: Owner,
    report: &mut ProxyReport,
) -> Result<Option<Arc<ClientAddresses>>, ()> {
    if allow.is_empty() && deny.is_empty() {
        return Ok(None);
    }
    if !allow.is_empty() && !deny.is_empty() {
        let message = "only one of \"ipAllowPolicy\" and \"ipDenyPolicy\" can be set";
        let field = format!("{field}.ipDenyPolicy");
        report.add(owner.origin, field, &situation::IP_FILTERS_INCOMPATIBLE, message, owner.closed);
        return Err(());
    }
    let allow = ranges(&format!("{field}.ipAllowPolicy"), allow, owner, report);
    let deny = ranges(&format!("{field}.ipDenyPolicy"), deny, owner, report);
    Ok(Some(Arc::new(ClientAddresses { allow: allow?, deny: deny? })))
}

fn ranges(
    field: &str,
    list: &[IpFilterPolicy],
    owner: Owner,
    report: &mut ProxyReport,
) -> Result<Vec<ClientRange>, ()> {
    let mut fault = |field: String, situation: &Situation, message: String| {
        report.add(owner.origin, field, situation, message, owner.closed);
    };
    if list.len() > RANGES {
        fault(field.to_owned(), &situation::IP_FILTER_NOT_VALID, format!("more than {RANGES} ranges"));
        return Err(());
    }
    let mut ranges = Vec::new();
    for (index, IpFilterPolicy { source, cidr, rest }) in list.iter().enumerate() {
        let field = format!("{field}[{index}]");
        let of_connection = match &**source {
            "Peer" => Some(true),
            "Remote" => Some(false),
            other => {
                let message = format!("source {other:?} is neither \"Peer\" nor \"Remote\"");
                fault(format!("{field}.source"), &situation::IP_FILTER_NOT_VALID, message);
                None
            }
        };
        let range = AddressRange::parse_around(cidr);
        if range.is_none() {
            let message = format!("{cidr:?} is not an IP address or a range such as 192.0.2.0/24");
            fault(format!("{field}.cidr"), &situation::IP_FILTER_CIDR, message);
        }
        for name in rest.names() {
            let message = format!("field {name:?} is not supported");
            fault(format!("{field}.{name}"), &Block::IpFilter.unsupported(), message);
        }
        ranges.extend(of_connection.zip(range).map(|(of_connection, range)| ClientRange { range, of_connection }));
    }
    let is_valid = ranges.len() == list.len() && list.iter().all(|one| one.rest.is_empty());
    is_valid.then_some(ranges).ok_or(())
}

/// Parses the descriptors for the service that counts requests.
fn descriptors(
    field: &str,
    policy: Option<&RateLimitPolicy>,
    owner: Owner,
    report: &mut ProxyReport,
    resolver: &mut Resolver,
) -> Option<Descriptors> {
    let field = format!("{field}.rateLimitPolicy.global");
    Descriptors::parse(&field, policy?.global.as_ref()?, (owner.origin, owner.block), report, resolver)
}

/// Parses a limit of the request rate. `root`: the routes of the host share a bucket. The error is reported.
fn limit(
    field: &str,
    policy: Option<&RateLimitPolicy>,
    root: Option<&ObjectRef>,
    owner: Owner,
    report: &mut ProxyReport,
) -> Result<Option<Arc<LocalRateLimit>>, ()> {
    let Some(RateLimitPolicy { local, global: _, rest }) = policy else { return Ok(None) };
    let field = format!("{field}.rateLimitPolicy");
    let mut is_closed = report.add_rest(owner.origin, &field, (rest, &[]), owner.block, owner.closed);
    let Some(policy) = local else {
        return if is_closed { Err(()) } else { Ok(None) };
    };
    let field = format!("{field}.local");
    is_closed |= report.add_rest(owner.origin, &field, (&policy.rest, &[]), owner.block, owner.closed);
    let limit = match parse_limit(policy, root) {
        Ok(limit) => limit,
        Err(fault) => {
            let FieldFault { field, message } = fault.within(field);
            report.add(owner.origin, field, &owner.block.rate_limit(), message, "no limit");
            return if is_closed { Err(()) } else { Ok(None) };
        }
    };
    if is_closed { Err(()) } else { Ok(Some(Arc::new(limit))) }
}

fn parse_limit(policy: &LocalRateLimitPolicy, root: Option<&ObjectRef>) -> Result<LocalRateLimit, FieldFault> {
    /// The most requests, as in HTTPPolicies.
    const MOST: i64 = 1_000_000_000;
    let LocalRateLimitPolicy { requests, unit, burst, response_status_code, response_headers_to_add, rest: _ } = policy;
    let number = |field: &str, number: i64, least: i64| {
        let range = least..=MOST;
        let valid = u32::try_from(number).ok().filter(|_| range.contains(&number));
        valid.ok_or_else(|| FieldFault::new(field, format!("{number} is not between {least} and {MOST}")))
    };
    let (requests, burst) = (number(".requests", *requests, 1)?, number(".burst", *burst, 0)?);
    let seconds = match &**unit {
        "second" => 1,
        "minute" => 60,
        "hour" => 3600,
        other => {
            let message = format!("{other:?} is none of \"second\", \"minute\", and \"hour\"");
            return Err(FieldFault::new(".unit", message));
        }
    };
    let code = response_status_code.filter(|code| *code != 0);
    let status =
        code.map(|code| u16::try_from(code).ok().filter(|code| LimitAnswer::STATUSES.contains(code)).ok_or(code));
    let status = status.transpose().map_err(|code| {
        FieldFault::new(
            ".responseStatusCode",
            format!("{code} is not a status of errors that Envoy knows, such as 429 or 503"),
        )
    })?;
    let at = ".responseHeadersToAdd";
    if response_headers_to_add.len() > HEADERS {
        return Err(FieldFault::new(at, format!("more than {HEADERS} headers")));
    }
    let headers = response_headers_to_add.iter().enumerate().map(|(index, header)| -> Result<_, FieldFault> {
        let name = HeaderName::parse_changeable(&header.name)
            .map_err(|message| FieldFault::new(format!("{at}[{index}].name"), message))?;
        let value = HeaderValue::parse(&header.value);
        let fault = || {
            FieldFault::new(format!("{at}[{index}].value"), format!("{:?} is not the value of a header", header.value))
        };
        Ok((name, value.ok_or_else(fault)?))
    });
    let headers = headers.collect::<Result<Vec<_>, _>>()?;
    let period = Duration::from_secs(seconds);
    let shared = root.map(|ObjectRef { kind, namespace, name, .. }| format!("{kind}/{namespace}/{name} host").into());
    let has_answer = status.is_some() || !headers.is_empty();
    let answer = has_answer.then(|| Box::new(LimitAnswer { status: status.unwrap_or(429), headers }));
    Ok(LocalRateLimit { requests, period, burst, per_client_address: false, shared, answer })
}

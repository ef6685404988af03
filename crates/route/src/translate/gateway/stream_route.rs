//! The parser of the rule of a single TCPRoute, UDPRoute, or TLSRoute.

use super::attached::RouteContent;
use super::backend::{self, Bytes};
use super::parser::{self, Fields, Parser};
use crate::model::{Destination, WeightedCluster};
use crate::objects::gateway::{StreamRule, TcpRoute, TlsRoute, UdpRoute};
use crate::objects::{Kind, Revision};
use crate::translate::dialect::Resolver;
use crate::translate::problem::Reason;
use crate::translate::source::{Dependencies, Source};

/// Parses a TCPRoute like [`parser::parse`].
pub fn parse_tcp(route: &TcpRoute, resolver: Resolver) -> Result<Source, Dependencies> {
    let TcpRoute { meta, spec, status: _, version: _ } = route;
    let revision = Revision::new(meta, spec);
    let fields = Fields { kind: Kind::TCP_ROUTE, meta, parents: &spec.parent_refs, hostnames: &[], revision };
    parser::parse(fields, resolver, |parser| content(&spec.rules, parser))
}

/// Parses a UDPRoute like [`parser::parse`].
pub fn parse_udp(route: &UdpRoute, resolver: Resolver) -> Result<Source, Dependencies> {
    let UdpRoute { meta, spec, status: _, version: _ } = route;
    let revision = Revision::new(meta, spec);
    let fields = Fields { kind: Kind::UDP_ROUTE, meta, parents: &spec.parent_refs, hostnames: &[], revision };
    parser::parse(fields, resolver, |parser| content(&spec.rules, parser))
}

/// Parses a TLSRoute like [`parser::parse`].
pub fn parse_tls(route: &TlsRoute, resolver: Resolver) -> Result<Source, Dependencies> {
    let TlsRoute { meta, spec, status: _, version: _ } = route;
    let (parents, hostnames, revision) = (&spec.parent_refs, &spec.hostnames, Revision::new(meta, spec));
    let fields = Fields { kind: Kind::TLS_ROUTE, meta, parents, hostnames, revision };
    parser::parse(fields, resolver, |parser| content(&spec.rules, parser))
}

/// Returns the destinations of a route. Source: Gateway API v1, `TCPRouteRule.backendRefs`, and `BackendTLSPolicySpec`.
fn content(rules: &[StreamRule], parser: &mut Parser) -> RouteContent {
    let to = destination(rules, Bytes::OfClients, parser);
    let decrypted = parser.is_decrypted.then(|| destination(rules, Bytes::Decrypted, parser));
    RouteContent::Stream { to, decrypted }
}

fn destination(rules: &[StreamRule], bytes: Bytes, parser: &mut Parser) -> Destination {
    let mut to = Destination::refusing(parser.origin.clone());
    for (index, rule) in rules.iter().enumerate() {
        let field = format!("spec.rules[{index}]");
        if index > 0 {
            let message = "only one rule is allowed".to_owned();
            parser.left_out(field, Reason::Ambiguous, message, "rule left out");
            continue;
        }
        for (index, reference) in rule.backend_refs.iter().enumerate() {
            let weight = backend::weight(reference);
            match backend::cluster_of_bytes(reference, bytes, parser) {
                Ok(cluster) => match to.clusters.iter_mut().find(|one| one.cluster == cluster) {
                    Some(same) => same.weight = same.weight.saturating_add(weight),
                    None => to.clusters.push(WeightedCluster::new(cluster, weight)),
                },
                Err(fault) => {
                    let instead = match parser.kind() == Kind::UDP_ROUTE {
                        true => "its share of the datagrams is dropped",
                        false => "its share of the connections is closed",
                    };
                    fault.report(&format!("{field}.backendRefs[{index}]"), parser, instead);
                    to.refused = to.refused.saturating_add(weight);
                }
            }
        }
    }
    // The backends are parsed in any case, so that their problems are reported.
    if parser.denied(None).is_some() {
        return Destination::refusing(parser.origin.clone());
    }
    to.clusters.retain(|cluster| cluster.weight > 0);
    to
}

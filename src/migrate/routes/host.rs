//! The rules of a host. A route that HTTPRoutes cannot express gets no rule. If it restricts access, later rules that would take its
//! requests with less restrictions get no backend.

use std::sync::Arc;

use lockgate_route::model::{
    Action, ForwardFilter, Host, PathMatch, PathRewrite, Redirect, Rewrite, Route, RoutePolicy, SettingsAuthorization,
};
use lockgate_route::objects::ObjectKey;
use serde_json::json;

use super::super::Migrated;
use super::super::conditions::OtherConditions;
use super::super::losses::{FindingText, Losses};
use super::super::paths::{self, PathCondition};
use super::super::rules::{RuleContent, Without, Writer};
use super::super::served::Served;
use super::{HostRule, HostRules};

/// Returns the rules of all hosts.
pub fn hosts<'m>(served: &Served<'m>, writer: &mut Writer, losses: &mut Losses) -> Vec<HostRules<'m>> {
    let mut hosts = Vec::new();
    for host in served.hosts() {
        let mut rules = |routes: &[&Route]| rules(host, routes, writer, losses);
        let plain = served.plain.get(host).map(|routes| rules(routes)).unwrap_or_default();
        let mut tls = served.tls.get(host).map(|tls| rules(&tls.routes)).unwrap_or_default();
        if served.tls.get(host).is_some_and(|tls| tls.needs_client_certificate()) {
            tls.iter_mut().for_each(close);
        }
        hosts.push(HostRules { host, plain, tls });
    }
    hosts
}

/// Removes the backends of a rule.
fn close(rule: &mut HostRule) {
    (rule.content, rule.policy) = (json!({}), None);
}

fn rules(host: &Host, routes: &[&Route], writer: &mut Writer, losses: &mut Losses) -> Vec<HostRule> {
    let conditions = conditions(host, routes, writer.options.whole_elements, losses);
    let mut rules = Vec::<(&Route, HostRule)>::new();
    let mut unwritten = Vec::<(&Route, PathCondition)>::new();
    for (route, condition) in routes.iter().zip(conditions) {
        let Some(owner) = losses.owner(&route.origin) else { continue };
        let field = losses.field(&owner, host, route);
        let others = match OtherConditions::new(&route.matches) {
            Ok(_) if !condition.is_valid() => {
                let text = FindingText {
                    message: "the path is longer than HTTPRoutes permit, 1024 characters".to_owned(),
                    consequence: "path left out, and its requests may reach a shorter path",
                    remedy: match losses.migrated() {
                        Migrated::HttpProxies => "Shorten the path, or keep the HTTPProxy.",
                        _ => "Shorten the path, or keep the Ingress.",
                    },
                };
                losses.add_lost(&owner, field, text);
                close_widened(host, &mut rules, (route, &condition), losses);
                unwritten.push((route, condition));
                continue;
            }
            Ok(others) => others,
            Err(message) => {
                let text = FindingText {
                    message,
                    consequence: "route left out, and its requests may reach another route",
                    remedy: "Change the condition, or keep the HTTPProxy.",
                };
                losses.add_lost(&owner, format!("{field}.conditions"), text);
                close_widened(host, &mut rules, (route, &condition), losses);
                unwritten.push((route, condition));
                continue;
            }
        };
        let mut rule = HostRule { owner, condition, others, content: json!({}), policy: None };
        let same =
            |(_, other): &&mut (&Route, HostRule)| (&other.condition, &other.others) == (&rule.condition, &rule.others);
        if let Some((earlier, written)) = rules.iter_mut().find(same) {
            // The paths with and without a slash at the end of a rewritten prefix.
            if replaces_prefix(route) && replaces_prefix(earlier) && earlier.origin == route.origin {
                continue;
            }
            let opens = admits_more(earlier, route);
            if opens {
                close(written);
            }
            let text = FindingText {
                message: format!(
                    "host \"{host}\" has another route that differs in a slash at the end of its prefix, and PathPrefix does not"
                ),
                consequence: if opens {
                    "both are answered 500"
                } else {
                    "route left out, and the other one takes its requests"
                },
                remedy: "Write one prefix with both routes' behavior, or keep the HTTPProxy.",
            };
            losses.add_lost(&rule.owner, field, text);
            continue;
        }
        if unwritten.iter().any(|(lost, at)| at.may_overlap(&rule.condition) && admits_more(route, lost)) {
            losses.add_lost(&rule.owner, field, TAKES_RESTRICTED.text());
        } else {
            let RuleContent { fields, policy } = writer.rule(&rule.owner, host, route, &rule.condition, losses);
            (rule.content, rule.policy) = (fields, policy.map(|features| features.to_string().into()));
        }
        rules.push((route, rule));
    }
    let mut rules: Vec<HostRule> = rules.into_iter().map(|(_, rule)| rule).collect();
    let lost = unwritten.first().and_then(|(route, _)| losses.owner(&route.origin)).filter(|_| rules.is_empty());
    // Without a rule, a wildcard above the host would take its requests.
    rules.extend(lost.map(|owner| HostRule {
        owner,
        condition: PathCondition::everything(),
        others: OtherConditions::default(),
        content: json!({}),
        policy: None,
    }));
    match losses.migrated() {
        Migrated::HttpProxies => without_redundant_redirects(rules),
        Migrated::Ingresses => rules,
    }
}

/// The report of a rule that would take the requests of a route that is left out.
const TAKES_RESTRICTED: Without = Without {
    message: "another route of the host that restricts access is left out, and this one would take its requests",
    consequence: "the rule has no backend, and its requests are answered 500",
    remedy: "Change the conditions of the other route, or keep the HTTPProxy.",
};

/// Removes the backends of earlier rules that would take the requests of a route that is left out, because they match the path without the
/// slash at the end of their prefix too.
fn close_widened(
    host: &Host,
    rules: &mut [(&Route, HostRule)],
    (lost, at): (&Route, &PathCondition),
    losses: &mut Losses,
) {
    for (route, rule) in rules {
        let is_widened = matches!(&route.matches.path, PathMatch::Prefix(text) if text.len() > 1 && text.ends_with('/'))
            && rule.condition.kind == paths::Kind::PathPrefix;
        if is_widened && rule.condition.may_overlap(at) && admits_more(route, lost) {
            close(rule);
            losses.add_lost(&rule.owner, losses.field(&rule.owner, host, route), TAKES_RESTRICTED.text());
        }
    }
}

/// Returns the conditions on the paths of routes, and reports those that differ from prefixes.
fn conditions(host: &Host, routes: &[&Route], whole_elements: bool, losses: &mut Losses) -> Vec<PathCondition> {
    let paths: Vec<_> = routes.iter().map(|route| &route.matches.path).collect();
    let forced: Vec<bool> = routes.iter().map(|route| whole_elements || replaces_prefix(route)).collect();
    let of_elements = paths::with_elements(&paths, &forced);
    let conditions = paths::conditions(&of_elements.iter().collect::<Vec<_>>());
    for ((route, now), condition) in routes.iter().zip(&of_elements).zip(&conditions) {
        let Some(owner) = losses.owner(&route.origin) else { continue };
        let before = &route.matches.path;
        let is_regex = condition.kind == paths::Kind::RegularExpression && !matches!(before, PathMatch::Regex(_));
        // The other path of a rewritten prefix.
        let is_pair = |text: &str| {
            let text = text.strip_suffix('/').filter(|_| replaces_prefix(route));
            text.is_some_and(|text| {
                paths.iter().any(|other| matches!(other, PathMatch::Prefix(other) if **other == *text))
            })
        };
        if let (PathMatch::Prefix(text), false) = (before, before == now)
            && !is_pair(text)
            && losses.is_first(&owner, format!("elements {text}"))
        {
            let elements = text.trim_end_matches('/');
            let message = match elements.len() == text.len() {
                true => format!("prefix {text:?} becomes PathPrefix, which matches whole elements of the path"),
                false => format!("prefix {text:?} becomes PathPrefix {elements:?}"),
            };
            let text = FindingText {
                message,
                consequence: match elements.len() == text.len() {
                    true => "requests with more characters in the last element reach another route",
                    false => "requests for the path without the slash at its end are served too",
                },
                remedy: "Add a route for such paths if clients request them, such as /apix for the prefix /api.",
            };
            let field = format!("{}.conditions", losses.field(&owner, host, route));
            losses.add_changed(&owner, field, text);
        } else if is_regex && condition.is_valid() {
            report_regex(&owner, host, route, losses);
        }
    }
    conditions
}

/// Reports a path that is written as a regular expression. Most paths of an HTTPProxy are, so that it is reported once.
fn report_regex(owner: &ObjectKey, host: &Host, route: &Route, losses: &mut Losses) {
    let field = losses.field(owner, host, route);
    let (field, text) = match losses.migrated() {
        Migrated::HttpProxies if !losses.is_first(owner, "regular expressions") => return,
        Migrated::HttpProxies => {
            let text = FindingText {
                message: "prefixes of HTTPProxies match characters, and PathPrefix matches whole elements".to_owned(),
                consequence: "prefixes are written as the regular expressions that match the same requests",
                remedy: "Migrate with --whole-elements if no request differs, such as /apix for the prefix /api.",
            };
            (format!("{field}.conditions"), text)
        }
        Migrated::Ingresses => {
            let text = FindingText {
                message: "PathPrefix and Exact do not express this path beside the others of its host".to_owned(),
                consequence: "it is written as the regular expression that matches the same requests",
                remedy: "Write PathPrefix instead if no request differs, such as /apix for the path /api.",
            };
            (format!("{field}.path"), text)
        }
    };
    losses.add_note(owner, field, text);
}

/// Removes redirects that are the same without their rule: a later rule for all requests redirects alike, and no other rule takes them.
fn without_redundant_redirects(rules: Vec<HostRule>) -> Vec<HostRule> {
    let everything = PathCondition::everything();
    let is_redundant = |(at, rule): (usize, &HostRule)| {
        let is_same = |other: &HostRule| (&other.content, &other.policy) == (&rule.content, &rule.policy);
        let later = &rules[at + 1..];
        let others = later.iter().take_while(|other| is_same(other) || !other.condition.may_overlap(&rule.condition));
        let mut general = others.filter(|other| other.condition == everything && other.others.fields.is_empty());
        rule.content["filters"][0]["type"] == "RequestRedirect" && general.any(is_same)
    };
    let redundant: Vec<bool> = rules.iter().enumerate().map(is_redundant).collect();
    rules.into_iter().zip(redundant).filter(|(_, is_redundant)| !is_redundant).map(|(rule, _)| rule).collect()
}

/// Returns whether a route replaces the prefix that it matches, which HTTPRoutes permit for the type `PathPrefix` alone.
fn replaces_prefix(route: &Route) -> bool {
    let is_of_prefix = |rewrite: &Rewrite| matches!(rewrite.path, Some(PathRewrite::Prefix(_)));
    match &route.action {
        Action::Forward(forward) => {
            forward.filters.iter().any(|filter| matches!(filter, ForwardFilter::Rewrite(one) if is_of_prefix(one)))
        }
        Action::Redirect(Redirect { rewrite, .. }) => rewrite.as_ref().is_some_and(|one| is_of_prefix(one)),
        Action::Respond { .. } => false,
    }
}

/// Returns whether `route` admits requests that `restricted` refuses, redirects, or asks for something else.
fn admits_more(route: &Route, restricted: &Route) -> bool {
    let Action::Forward(forward) = &route.action else { return false };
    let Action::Forward(of_restricted) = &restricted.action else { return true };
    let of_settings = |filters: &[ForwardFilter]| -> Vec<SettingsAuthorization> {
        let found = filters.iter().filter_map(|filter| match filter {
            ForwardFilter::SettingsAuthorization(one) => Some(one.clone()),
            _ => None,
        });
        found.collect()
    };
    if of_settings(&forward.filters) != of_settings(&of_restricted.filters) {
        return true;
    }
    let Some(wanted) = restricted.policy() else { return false };
    let none = Arc::<RoutePolicy>::default();
    let own = route.policy().unwrap_or(&none);
    wanted.client_addresses.is_some() && own.client_addresses != wanted.client_addresses
        || wanted.basic_authentication.is_some() && own.basic_authentication != wanted.basic_authentication
        || wanted.api_keys.is_some() && own.api_keys != wanted.api_keys
        || wanted.jwt.is_some() && own.jwt != wanted.jwt
        || wanted.oidc.is_some() && own.oidc != wanted.oidc
        || wanted.csrf.is_some() && own.csrf != wanted.csrf
        || wanted.authorization.is_some() && own.authorization != wanted.authorization
}

//! The fields of routes and hosts. A model has no fields, so that they are found by the content of a route.

use lockgate_route::model::{Action, Host, PathMatch, Route};
use lockgate_route::objects::http_proxy::{HttpProxy, ProxyRoute};
use lockgate_route::objects::{Ingress, ObjectKey};
use lockgate_route::translate::host;

use super::Losses;
use crate::migrate::Migrated;

impl Losses<'_> {
    /// Returns the field of a route.
    pub fn field(&self, owner: &ObjectKey, host: &Host, route: &Route) -> String {
        match self.migrated {
            Migrated::HttpProxies => self.field_of_proxy(owner, route),
            _ => self.field_of_path(owner, host, &route.matches.path),
        }
    }

    /// Returns a field of the host of a root, or `spec` of an included object.
    pub fn field_of_root(&self, owner: &ObjectKey, name: &str) -> String {
        let is_root = self.objects.get::<HttpProxy>(owner).is_some_and(|proxy| proxy.spec.virtualhost.is_some());
        if is_root { format!("spec.virtualhost.{name}") } else { "spec".to_owned() }
    }

    /// Returns the field of the default backend of an Ingress.
    pub(super) fn default_field(&self, ingress: &ObjectKey) -> String {
        self.field_of_path(ingress, &Host::Any, &PathMatch::root())
    }

    /// Returns the field of a route of an HTTPProxy: the most specific route with a part of its conditions and the same Services.
    fn field_of_proxy(&self, owner: &ObjectKey, route: &Route) -> String {
        let Some(proxy) = self.objects.get::<HttpProxy>(owner) else { return String::new() };
        let rank = |one: &ProxyRoute| Some((names_services(one, route), specificity(one, route)?));
        let ranked = proxy.spec.routes.iter().enumerate().filter_map(|(at, one)| Some((rank(one)?, at)));
        ranked.max().map_or_else(|| "spec".to_owned(), |(_, at)| format!("spec.routes[{at}]"))
    }

    /// Returns the field of a path of an Ingress.
    fn field_of_path(&self, ingress: &ObjectKey, host: &Host, path: &PathMatch) -> String {
        let Some(object) = self.objects.get::<Ingress>(ingress) else { return String::new() };
        let rules = || object.spec.rules.iter().flatten().enumerate();
        let of_host = |one: &Option<String>| host::parse(one.as_deref().unwrap_or_default()).as_ref() == Ok(host);
        let in_rules = |any_host: bool| {
            let rules = rules().filter(|(_, rule)| any_host || of_host(&rule.host));
            let mut paths = rules.flat_map(|(at, rule)| {
                let paths = rule.http.iter().flat_map(|http| &http.paths).enumerate();
                paths.map(move |(path, content)| (at, path, content))
            });
            let is_meant = |text: &str, path_type: &str| match path {
                PathMatch::Exact(one) => path_type == "Exact" && **one == *text,
                PathMatch::Regex(one) => **one == *text,
                PathMatch::SeparatedPrefix(one) => path_type == "Prefix" && **one == *text.trim_end_matches('/'),
                PathMatch::Prefix(one) => **one == *text || **one == *"/" && text.trim_end_matches('/').is_empty(),
            };
            let found = paths.find(|(.., one)| is_meant(one.path.as_deref().unwrap_or_default(), &one.path_type));
            found.map(|(rule, path, _)| format!("spec.rules[{rule}].http.paths[{path}]"))
        };
        in_rules(false).or_else(|| in_rules(true)).unwrap_or_else(|| "spec.defaultBackend".to_owned())
    }

    /// Returns the field of a host.
    pub(super) fn host_field(&self, owner: &ObjectKey, host: &Host) -> String {
        if self.migrated == Migrated::HttpProxies {
            return "spec.virtualhost.fqdn".to_owned();
        }
        let rules =
            self.objects.get::<Ingress>(owner).and_then(|object| object.spec.rules.as_deref()).unwrap_or_default();
        let is_meant = |one: &Option<String>| host::parse(one.as_deref().unwrap_or_default()).as_ref() == Ok(host);
        let at = rules.iter().position(|rule| is_meant(&rule.host));
        at.map_or_else(|| "spec.tls".to_owned(), |at| format!("spec.rules[{at}].host"))
    }
}

/// Returns whether a route forwards to Services that a route of an HTTPProxy names.
fn names_services(one: &ProxyRoute, route: &Route) -> bool {
    let Action::Forward(forward) = &route.action else { return false };
    let is_named = |name: &str| one.services.iter().any(|service| service.name == name);
    forward.clusters.iter().all(|one| is_named(&one.cluster.port.service().name))
}

/// Returns the length of the path and the number of conditions of a route of an HTTPProxy, if they are a part of those of `route`.
fn specificity(one: &ProxyRoute, route: &Route) -> Option<(usize, usize)> {
    let (mut length, mut number) = (0, 0);
    let text = |path: &PathMatch| match path {
        PathMatch::Exact(text)
        | PathMatch::Regex(text)
        | PathMatch::SeparatedPrefix(text)
        | PathMatch::Prefix(text) => text.clone(),
    };
    let path = text(&route.matches.path);
    let conditions = route.matches.conditions();
    for condition in &one.conditions {
        let own = [&condition.prefix, &condition.exact, &condition.regex].into_iter().find(|text| !text.is_empty());
        if let Some(own) = own {
            // The other slash of a rewritten prefix counts as the same path.
            let (own, path) = (own.trim_end_matches('/'), path.trim_end_matches('/'));
            length = path.ends_with(own).then_some(own.len())?;
        }
        if let Some(header) = &condition.header {
            let mut names = conditions.into_iter().flat_map(|one| &one.headers).map(|one| one.name.as_str());
            let has = names.any(|name| name.eq_ignore_ascii_case(&header.name));
            let is_method = header.name.eq_ignore_ascii_case(":method") && conditions?.method.is_some();
            number += (has || is_method).then_some(1)?;
        }
        if let Some(query) = &condition.query_parameter {
            let mut names = conditions.into_iter().flat_map(|one| &one.query).map(|one| &one.name);
            number += names.any(|name| **name == *query.name).then_some(1)?;
        }
    }
    Some((length, number))
}

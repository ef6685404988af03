//! HTTPRoutes: the rules of each migrated object, divided by hosts that have the same rules on the same listeners, and by the
//! policies of the rules.

mod host;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lockgate_route::model::Host;
use lockgate_route::objects::gateway::{HttpPolicy, HttpRoute};
use lockgate_route::objects::http_proxy::HttpProxy;
use lockgate_route::objects::{Ingress, Kind, Meta, ObjectKey, Objects};
use serde_json::{Value, json};

use super::conditions::OtherConditions;
use super::listeners::HostListeners;
use super::losses::{FindingText, Losses};
use super::names::Names;
use super::paths::{self, PathCondition};
use super::policies;
use super::{Migrated, MigrationOptions, object};
use crate::check::Rule;

pub use host::hosts;

/// The annotation with the name of the migrated object.
pub const MIGRATED_FROM: &str = "lockgate.dev/migrated-from";

// Limits of HTTPRoutes. Source: Gateway API v1, `HTTPRouteSpec`: 16 hostnames, 16 rules, and 128 matches.
const HOSTS: usize = 16;
const RULES: usize = 16;
const MATCHES: usize = 8;

/// A rule for one host.
#[derive(Debug, Clone, PartialEq)]
pub struct HostRule {
    /// The migrated object.
    pub owner: ObjectKey,
    /// The condition on the path.
    pub condition: PathCondition,
    /// The other conditions.
    pub others: OtherConditions,
    /// The other fields of the rule.
    pub content: Value,
    /// The features of the HTTPPolicy, as JSON.
    pub policy: Option<Arc<str>>,
}

impl HostRule {
    /// Returns the match of the rule.
    fn matches(&self) -> Value {
        let PathCondition { kind, value, .. } = &self.condition;
        let mut matches = json!({ "path": { "type": kind.as_str(), "value": value } });
        for (name, field) in &self.others.fields {
            matches[name] = field.clone();
        }
        matches
    }
}

/// The rules of a host, in the order in which they are tried.
pub struct HostRules<'m> {
    /// The host.
    pub host: &'m Host,
    /// The rules for plain HTTP.
    pub plain: Vec<HostRule>,
    /// The rules behind TLS.
    pub tls: Vec<HostRule>,
}

/// The written routes, and their policies.
pub struct Written {
    /// The HTTPRoutes, from older migrated objects first.
    pub routes: Vec<Value>,
    /// The HTTPPolicies.
    pub policies: Vec<Value>,
}

/// The listeners of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Sides {
    Both,
    Tls,
    Plain,
}

/// Hosts for which a migrated object has the same rules on the same listeners. The rules have one policy.
struct Group<'h> {
    sides: Sides,
    hosts: Vec<&'h Host>,
    rules: Vec<HostRule>,
}

/// A migrated object, and one of the policies of its rules.
type Part = (ObjectKey, Option<Arc<str>>);

/// The place of a rule: its HTTPRoute and its position there.
type Placed = (ObjectKey, usize);

/// Returns the HTTPRoutes and the HTTPPolicies.
pub fn write(
    hosts: &[HostRules],
    listeners: &HostListeners,
    objects: &Objects,
    options: &MigrationOptions,
    losses: &mut Losses,
) -> Written {
    let groups = groups(hosts);
    let mut taken = BTreeMap::<Arc<str>, Names>::new();
    groups.keys().for_each(|(owner, _)| taken.entry(owner.namespace.clone()).or_default().reserve(&owner.name));
    let mut names_of_policies = reserved(objects);
    let mut parts: Vec<&Part> = groups.keys().collect();
    let behind_tls: BTreeSet<&Part> = groups
        .iter()
        .filter(|(_, groups)| groups.iter().any(|group| group.sides != Sides::Plain))
        .map(|(part, _)| part)
        .collect();
    let owners_behind_tls: BTreeSet<&ObjectKey> = behind_tls.iter().map(|(owner, _)| owner).collect();
    parts.sort_by_cached_key(|part| {
        let (owner, policy) = part;
        let meta: Option<&Meta> = match options.migrated {
            Migrated::HttpProxies => objects.get::<HttpProxy>(owner).map(|proxy| &proxy.meta),
            _ => objects.get::<Ingress>(owner).map(|ingress| &ingress.meta),
        };
        (meta.map(|meta| objects.precedence(options.migrated.kind(), meta)), !behind_tls.contains(part), policy.clone())
    });
    let mut places = BTreeMap::new();
    let mut started = BTreeSet::new();
    let mut written = Written { routes: Vec::new(), policies: Vec::new() };
    for part in parts {
        let (owner, policy) = part;
        let names = taken.entry(owner.namespace.clone()).or_default();
        let groups = groups.get(part).map(Vec::as_slice).unwrap_or_default();
        let has_tls = owners_behind_tls.contains(owner);
        let mut targets = Vec::new();
        for group in groups {
            let merged = merged(&group.rules);
            for (hosts, rules) in chunks(&group.hosts, &merged) {
                let wanted = match group.sides == Sides::Plain && has_tls {
                    true => format!("{}-http", owner.name),
                    false => owner.name.to_string(),
                };
                let name = if started.insert(owner) { names.take_reserved(&wanted) } else { names.take(&wanted) };
                let key = super::key(&owner.namespace, &name);
                let parents = parents(hosts, group.sides, listeners, &key);
                if parents.is_empty() {
                    continue;
                }
                for (position, rule) in rules.iter().flat_map(|rule| &rule.0) {
                    for host in hosts {
                        let place = (*host, group.sides, owner, rule.matches().to_string());
                        places.insert(place, (key.clone(), *position));
                    }
                }
                written.routes.push(route(&key, owner, hosts, parents, rules));
                targets.push(name);
                if objects.get::<HttpRoute>(&key).is_some() {
                    replaced(&key, losses);
                }
            }
        }
        if let Some(features) = policy {
            let names = names_of_policies.entry(owner.namespace.clone()).or_default();
            written.policies.extend(policies::objects(owner, features, &targets, names));
        }
    }
    hosts.iter().for_each(|host| report_order(host, &places, losses));
    written
}

/// Returns the names of the HTTPPolicies that no earlier migration has written, by namespace.
fn reserved(objects: &Objects) -> BTreeMap<Arc<str>, Names> {
    let mut names = BTreeMap::<Arc<str>, Names>::new();
    let others = objects.all::<HttpPolicy>().filter(|policy| !policy.meta.annotations.contains_key(MIGRATED_FROM));
    others.for_each(|policy| {
        names.entry(policy.meta.key.namespace.clone()).or_default().reserve(&policy.meta.key.name);
    });
    names
}

/// Returns the groups of each migrated object and policy.
fn groups<'h>(hosts: &'h [HostRules]) -> BTreeMap<Part, Vec<Group<'h>>> {
    let mut groups = BTreeMap::<Part, Vec<Group>>::new();
    for HostRules { host, plain, tls } in hosts {
        let (plain, tls) = (by_part(plain), by_part(tls));
        let mut add = |part: &Part, sides: Sides, rules: &[&HostRule]| {
            let of_part = groups.entry(part.clone()).or_default();
            let is_same = |group: &&mut Group| {
                // A route without host names takes all names of its listeners.
                let alone = **host == Host::Any || group.hosts.contains(&&Host::Any);
                group.sides == sides && !alone && group.rules.iter().eq(rules.iter().copied())
            };
            match of_part.iter_mut().find(is_same) {
                Some(group) => group.hosts.push(host),
                None => {
                    let rules = rules.iter().map(|rule| (*rule).clone()).collect();
                    of_part.push(Group { sides, hosts: vec![host], rules });
                }
            }
        };
        for (part, rules) in &plain {
            match tls.get(part) {
                Some(of_tls) if of_tls == rules => add(part, Sides::Both, rules),
                _ => add(part, Sides::Plain, rules),
            }
        }
        for (part, rules) in tls.iter().filter(|(part, rules)| plain.get(*part) != Some(rules)) {
            add(part, Sides::Tls, rules);
        }
    }
    groups
        .values_mut()
        .for_each(|groups| groups.sort_by(|one, other| (one.sides, &one.hosts).cmp(&(other.sides, &other.hosts))));
    groups
}

fn by_part(rules: &[HostRule]) -> BTreeMap<Part, Vec<&HostRule>> {
    let mut of_part = BTreeMap::<Part, Vec<&HostRule>>::new();
    rules.iter().for_each(|rule| of_part.entry((rule.owner.clone(), rule.policy.clone())).or_default().push(rule));
    of_part
}

/// Rules that differ in their matches alone, with their positions, and the other fields.
type Merged<'r> = (Vec<(usize, &'r HostRule)>, &'r Value);

/// Merges consecutive rules that differ in their matches alone.
fn merged(rules: &[HostRule]) -> Vec<Merged<'_>> {
    let mut merged = Vec::<Merged>::new();
    for (position, rule) in rules.iter().enumerate() {
        match merged.last_mut() {
            Some((same, content)) if **content == rule.content && same.len() < MATCHES && may_merge(content) => {
                same.push((position, rule));
            }
            _ => merged.push((vec![(position, rule)], &rule.content)),
        }
    }
    merged
}

/// Returns whether a rule may have several matches. A filter that replaces the matched prefix permits one.
fn may_merge(content: &Value) -> bool {
    let filters = content["filters"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_of_prefix = |filter: &Value| {
        ["urlRewrite", "requestRedirect"].iter().any(|name| filter[*name]["path"]["type"] == "ReplacePrefixMatch")
    };
    !filters.iter().any(is_of_prefix)
}

/// Divides hosts and rules by the limits of one HTTPRoute.
fn chunks<'a, 'h, 'r>(
    hosts: &'a [&'h Host],
    rules: &'a [Merged<'r>],
) -> impl Iterator<Item = (&'a [&'h Host], &'a [Merged<'r>])> {
    hosts.chunks(HOSTS).flat_map(move |hosts| rules.chunks(RULES).map(move |rules| (hosts, rules)))
}

/// Returns the listeners of a group.
fn parents(hosts: &[&Host], sides: Sides, listeners: &HostListeners, key: &ObjectKey) -> Vec<Value> {
    let mut parents = Vec::new();
    if sides != Sides::Tls {
        parents.push(listeners.parent_of_http(&key.namespace));
    }
    if sides != Sides::Plain {
        parents.extend(hosts.iter().filter_map(|host| listeners.parent_of(host, &key.namespace)));
    }
    parents
}

fn route(key: &ObjectKey, owner: &ObjectKey, hosts: &[&Host], parents: Vec<Value>, rules: &[Merged]) -> Value {
    let rule = |(same, content): &Merged| {
        let mut rule = (*content).clone();
        rule["matches"] = same.iter().map(|(_, one)| one.matches()).collect();
        rule
    };
    let mut spec = json!({ "parentRefs": parents, "rules": rules.iter().map(rule).collect::<Vec<_>>() });
    if hosts != [&Host::Any] {
        spec["hostnames"] = hosts.iter().map(|host| json!(host.to_string())).collect();
    }
    object(Kind::HTTP_ROUTE, key, &[(MIGRATED_FROM, &owner.name)], spec)
}

fn replaced(key: &ObjectKey, losses: &mut Losses) {
    let text = FindingText {
        message: "an HTTPRoute of this name exists".to_owned(),
        consequence: "kubectl apply replaces its content",
        remedy: "Compare both with kubectl diff, and rename one of them if it is not from an earlier migration.",
    };
    let rule = Rule::ChangedByMigration;
    losses.add(Kind::HTTP_ROUTE, key, String::new(), (rule, rule.level()), text);
}

/// Reports rules of a host whose order changes. Without regular expressions and other conditions, exact paths and prefixes have the same
/// order in Gateway API.
fn report_order(host: &HostRules, places: &BTreeMap<(&Host, Sides, &ObjectKey, String), Placed>, losses: &mut Losses) {
    for (rules, alone) in [(&host.plain, Sides::Plain), (&host.tls, Sides::Tls)] {
        let is_regex = |one: &HostRule| one.condition.kind == paths::Kind::RegularExpression;
        if !rules.iter().any(|rule| is_regex(rule) || !rule.others.fields.is_empty()) {
            continue;
        }
        let mut at = Vec::<Option<&Placed>>::new();
        for rule in rules {
            let of = |sides| places.get(&(host.host, sides, &rule.owner, rule.matches().to_string()));
            at.push(of(Sides::Both).or_else(|| of(alone)));
        }
        for (index, (rule, own)) in rules.iter().zip(&at).enumerate() {
            let overtaken = rules[..index].iter().zip(&at).find(|(earlier, place)| {
                if rule.others.excludes(&earlier.others) {
                    return false;
                }
                let is_other = rule.owner.namespace != earlier.owner.namespace;
                let is_before = *place < own;
                if rule.condition == earlier.condition {
                    let (rank, of_earlier) = (rule.others.rank(), earlier.others.rank());
                    return rank < of_earlier || rank == of_earlier && (is_other || !is_before);
                }
                // Which of two namespaces is tried first depends on the age of their HTTPRoutes.
                let is_uncertain = is_other && (is_regex(rule) || is_regex(earlier));
                is_uncertain && losses.migrated() == Migrated::Ingresses
                    || rule.condition.overtakes(&earlier.condition, is_before)
            });
            let Some((earlier, _)) = overtaken else { continue };
            let text = FindingText {
                message: format!(
                    "host \"{}\" tries {} before {} of {} {} in Gateway API",
                    host.host,
                    shown(rule),
                    shown(earlier),
                    losses.migrated().kind().as_str(),
                    earlier.owner
                ),
                consequence: "requests that match both reach this backend",
                remedy: match losses.migrated() {
                    Migrated::HttpProxies => "Make the conditions of the routes differ, or keep the HTTPProxy.",
                    _ => "Make the paths of the host differ, or use Prefix and Exact instead of regular expressions.",
                },
            };
            losses.add_changed(&rule.owner, String::new(), text);
        }
    }
}

/// Returns a match for a message.
fn shown(rule: &HostRule) -> String {
    let path = format!("{:?}", rule.condition.value);
    let others = &rule.others.fields;
    if others.is_empty() { path } else { format!("{path} with {}", Value::Object(others.clone())) }
}

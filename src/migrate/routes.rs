//! HTTPRoutes: the rules of each Ingress, divided by hosts that have the same rules on the same listeners.

use std::collections::BTreeMap;
use std::sync::Arc;

use lockgate_route::model::{Host, PathMatch, Route};
use lockgate_route::objects::gateway::HttpRoute;
use lockgate_route::objects::{Ingress, Kind, ObjectKey, Objects};
use serde_json::{Value, json};

use super::listeners::Listeners;
use super::losses::{Losses, Text, ingress_of};
use super::names::Names;
use super::paths::{self, Condition};
use super::rules::Writer;
use super::served::Served;
use super::{Options, object};
use crate::check::Rule as FindingRule;

/// The annotation with the name of the Ingress.
const MIGRATED_FROM: &str = "lockgate.dev/migrated-from";

// Limits of HTTPRoutes. Source: Gateway API v1, `HTTPRouteSpec`: 16 hostnames, 16 rules, and 128 matches.
const HOSTS: usize = 16;
const RULES: usize = 16;
const MATCHES: usize = 8;

/// A rule for one host.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// The Ingress.
    pub ingress: ObjectKey,
    /// The condition on the path.
    pub condition: Condition,
    /// The other fields of the rule.
    pub content: Value,
}

/// The rules of a host, in the order in which they are tried.
pub struct HostRules<'m> {
    /// The host.
    pub host: &'m Host,
    /// The rules for plain HTTP.
    pub plain: Vec<Rule>,
    /// The rules behind TLS.
    pub tls: Vec<Rule>,
}

/// Returns the rules of all hosts.
pub fn hosts<'m>(served: &Served<'m>, writer: &Writer, losses: &mut Losses) -> Vec<HostRules<'m>> {
    let mut hosts = Vec::new();
    for host in served.hosts() {
        let mut rules = |routes: &[&Route]| rules(host, routes, writer, losses);
        let plain = served.plain.get(host).map(|routes| rules(routes)).unwrap_or_default();
        let tls = served.tls.get(host).map(|tls| rules(&tls.routes)).unwrap_or_default();
        hosts.push(HostRules { host, plain, tls });
    }
    hosts
}

fn rules(host: &Host, routes: &[&Route], writer: &Writer, losses: &mut Losses) -> Vec<Rule> {
    let paths: Vec<_> = routes.iter().map(|route| &route.matches.path).collect();
    let mut rules = Vec::new();
    for (route, condition) in routes.iter().zip(paths::conditions(&paths)) {
        let Some(ingress) = ingress_of(&route.origin) else { continue };
        let field = || losses.field(&ingress, host, &route.matches.path);
        if !condition.is_valid() {
            let text = Text {
                message: "the path is longer than HTTPRoutes permit, 1024 characters".to_owned(),
                consequence: "path left out, and its requests may reach a shorter path",
                remedy: "Shorten the path, or keep the Ingress.",
            };
            losses.add_lost(&ingress, field(), text);
            continue;
        }
        if condition.kind == paths::Kind::RegularExpression && !matches!(route.matches.path, PathMatch::Regex(_)) {
            let text = Text {
                message: "PathPrefix and Exact do not express this path beside the others of its host".to_owned(),
                consequence: "it is written as the regular expression that matches the same requests",
                remedy: "Write PathPrefix instead if no request differs, such as /apix for the path /api.",
            };
            losses.add_note(&ingress, format!("{}.path", field()), text);
        }
        let content = writer.rule(&ingress, host, route, losses);
        rules.push(Rule { ingress, condition, content });
    }
    rules
}

/// The listeners of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Sides {
    Both,
    Tls,
    Plain,
}

/// Hosts for which an Ingress has the same rules on the same listeners.
struct Group<'h> {
    sides: Sides,
    hosts: Vec<&'h Host>,
    rules: Vec<Rule>,
}

/// The place of a rule: its HTTPRoute and its position there.
type Placed = (ObjectKey, usize);

/// Returns the HTTPRoutes, from older Ingresses first.
pub fn write(
    hosts: &[HostRules],
    listeners: &Listeners,
    objects: &Objects,
    options: &Options,
    losses: &mut Losses,
) -> Vec<Value> {
    let groups = groups(hosts);
    let mut taken = BTreeMap::<Arc<str>, Names>::new();
    groups.keys().for_each(|ingress| taken.entry(ingress.namespace.clone()).or_default().reserve(&ingress.name));
    let mut ingresses: Vec<&ObjectKey> = groups.keys().collect();
    ingresses.sort_by_cached_key(|key| {
        objects.get::<Ingress>(key).map(|ingress| objects.precedence(Kind::INGRESS, &ingress.meta))
    });
    let (mut written, mut places) = (Vec::new(), BTreeMap::new());
    for ingress in ingresses {
        let names = taken.entry(ingress.namespace.clone()).or_default();
        let mut is_first = true;
        let groups = groups.get(ingress).map(Vec::as_slice).unwrap_or_default();
        let has_tls = groups.iter().any(|group| group.sides != Sides::Plain);
        for group in groups {
            let merged = merged(&group.rules);
            for (hosts, rules) in chunks(&group.hosts, &merged) {
                let wanted = match group.sides == Sides::Plain && has_tls {
                    true => format!("{}-http", ingress.name),
                    false => ingress.name.to_string(),
                };
                let name =
                    if std::mem::take(&mut is_first) { names.take_reserved(&wanted) } else { names.take(&wanted) };
                let key = super::key(&ingress.namespace, &name);
                let parents = parents(hosts, group.sides, listeners, &key, options);
                if parents.is_empty() {
                    continue;
                }
                for (position, condition) in rules.iter().flat_map(|rule| &rule.0) {
                    for host in hosts {
                        places.insert((*host, group.sides, ingress, &condition.value), (key.clone(), *position));
                    }
                }
                written.push(route(&key, ingress, hosts, parents, rules));
                if objects.get::<HttpRoute>(&key).is_some() {
                    replaced(&key, losses);
                }
            }
        }
    }
    hosts.iter().for_each(|host| report_order(host, &places, losses));
    written
}

/// Returns the groups of each Ingress.
fn groups<'h>(hosts: &'h [HostRules]) -> BTreeMap<ObjectKey, Vec<Group<'h>>> {
    let mut groups = BTreeMap::<ObjectKey, Vec<Group>>::new();
    for HostRules { host, plain, tls } in hosts {
        let (plain, tls) = (by_ingress(plain), by_ingress(tls));
        let mut add = |ingress: &ObjectKey, sides: Sides, rules: &[&Rule]| {
            let of_ingress = groups.entry(ingress.clone()).or_default();
            let is_same = |group: &&mut Group| {
                // A route without host names takes all names of its listeners.
                let alone = **host == Host::Any || group.hosts.contains(&&Host::Any);
                group.sides == sides && !alone && group.rules.iter().eq(rules.iter().copied())
            };
            match of_ingress.iter_mut().find(is_same) {
                Some(group) => group.hosts.push(host),
                None => {
                    let rules = rules.iter().map(|rule| (*rule).clone()).collect();
                    of_ingress.push(Group { sides, hosts: vec![host], rules });
                }
            }
        };
        for (ingress, rules) in &plain {
            match tls.get(ingress) {
                Some(of_tls) if of_tls == rules => add(ingress, Sides::Both, rules),
                _ => add(ingress, Sides::Plain, rules),
            }
        }
        for (ingress, rules) in tls.iter().filter(|(ingress, rules)| plain.get(*ingress) != Some(rules)) {
            add(ingress, Sides::Tls, rules);
        }
    }
    groups
        .values_mut()
        .for_each(|groups| groups.sort_by(|one, other| (one.sides, &one.hosts).cmp(&(other.sides, &other.hosts))));
    groups
}

fn by_ingress(rules: &[Rule]) -> BTreeMap<&ObjectKey, Vec<&Rule>> {
    let mut of_ingress = BTreeMap::<&ObjectKey, Vec<&Rule>>::new();
    rules.iter().for_each(|rule| of_ingress.entry(&rule.ingress).or_default().push(rule));
    of_ingress
}

/// Conditions with their positions, and the other fields of their rule.
type Merged<'r> = (Vec<(usize, &'r Condition)>, &'r Value);

/// Merges consecutive rules that differ in their conditions alone.
fn merged(rules: &[Rule]) -> Vec<Merged<'_>> {
    let mut merged = Vec::<Merged>::new();
    for (position, rule) in rules.iter().enumerate() {
        match merged.last_mut() {
            Some((conditions, content)) if **content == rule.content && conditions.len() < MATCHES => {
                conditions.push((position, &rule.condition));
            }
            _ => merged.push((vec![(position, &rule.condition)], &rule.content)),
        }
    }
    merged
}

/// Divides hosts and rules by the limits of one HTTPRoute.
fn chunks<'a, 'h, 'r>(
    hosts: &'a [&'h Host],
    rules: &'a [Merged<'r>],
) -> impl Iterator<Item = (&'a [&'h Host], &'a [Merged<'r>])> {
    hosts.chunks(HOSTS).flat_map(move |hosts| rules.chunks(RULES).map(move |rules| (hosts, rules)))
}

/// Returns the listeners of a group.
fn parents(hosts: &[&Host], sides: Sides, listeners: &Listeners, key: &ObjectKey, options: &Options) -> Vec<Value> {
    let Options { gateway, .. } = options;
    let parent = |set: Option<&str>, section: &str| {
        let mut parent = json!({ "name": set.unwrap_or(&gateway.name), "sectionName": section });
        if set.is_some() {
            parent["kind"] = json!(Kind::LISTENER_SET.as_str());
        }
        if gateway.namespace != key.namespace {
            parent["namespace"] = json!(&*gateway.namespace);
        }
        parent
    };
    let mut parents = Vec::new();
    if sides != Sides::Tls {
        parents.push(parent(None, Listeners::HTTP));
    }
    if sides != Sides::Plain {
        let sections = hosts.iter().filter_map(|host| listeners.section(host));
        parents.extend(sections.map(|(set, section)| parent(set, section)));
    }
    parents
}

fn route(key: &ObjectKey, ingress: &ObjectKey, hosts: &[&Host], parents: Vec<Value>, rules: &[Merged]) -> Value {
    let rule = |(conditions, content): &Merged| {
        let mut rule = (*content).clone();
        let matches =
            conditions.iter().map(|(_, one)| json!({ "path": { "type": one.kind.as_str(), "value": one.value } }));
        rule["matches"] = matches.collect();
        rule
    };
    let mut spec = json!({ "parentRefs": parents, "rules": rules.iter().map(rule).collect::<Vec<_>>() });
    if hosts != [&Host::Any] {
        spec["hostnames"] = hosts.iter().map(|host| json!(host.to_string())).collect();
    }
    object(Kind::HTTP_ROUTE, key, &[(MIGRATED_FROM, &ingress.name)], spec)
}

fn replaced(key: &ObjectKey, losses: &mut Losses) {
    let text = Text {
        message: "an HTTPRoute of this name exists".to_owned(),
        consequence: "kubectl apply replaces its content",
        remedy: "Compare both with kubectl diff, and rename one of them if it is not from an earlier migration.",
    };
    let rule = FindingRule::ChangedByMigration;
    losses.add(Kind::HTTP_ROUTE, key, String::new(), (rule, rule.level()), text);
}

/// Reports rules of a host whose order changes. Only regular expressions change their order: exact paths and prefixes have the
/// same order in Gateway API.
fn report_order(host: &HostRules, places: &BTreeMap<(&Host, Sides, &ObjectKey, &String), Placed>, losses: &mut Losses) {
    for (rules, alone) in [(&host.plain, Sides::Plain), (&host.tls, Sides::Tls)] {
        if rules.iter().all(|rule| rule.condition.kind != paths::Kind::RegularExpression) {
            continue;
        }
        let mut at = Vec::<Option<&Placed>>::new();
        for rule in rules {
            let of = |sides| places.get(&(host.host, sides, &rule.ingress, &rule.condition.value));
            at.push(of(Sides::Both).or_else(|| of(alone)));
        }
        let namespaces = |one: &Rule, other: &Rule| one.ingress.namespace != other.ingress.namespace;
        for (index, (rule, own)) in rules.iter().zip(&at).enumerate() {
            let overtaken = rules[..index].iter().zip(&at).find(|(earlier, place)| {
                let is_regex = |one: &Rule| one.condition.kind == paths::Kind::RegularExpression;
                // Which of two namespaces is tried first depends on the age of their HTTPRoutes.
                let is_uncertain = namespaces(rule, earlier) && (is_regex(rule) || is_regex(earlier));
                is_uncertain || rule.condition.overtakes(&earlier.condition, *place < own)
            });
            let Some((earlier, _)) = overtaken else { continue };
            let text = Text {
                message: format!(
                    "host \"{}\" tries {:?} before {:?} of Ingress {} in Gateway API",
                    host.host, rule.condition.value, earlier.condition.value, earlier.ingress
                ),
                consequence: "requests that match both reach this backend",
                remedy: "Make the paths of the host differ, or use Prefix and Exact instead of regular expressions.",
            };
            losses.add_changed(&rule.ingress, String::new(), text);
        }
    }
}

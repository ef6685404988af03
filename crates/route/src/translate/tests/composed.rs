//! A dialect whose sources consist of several objects: a root defines a host and includes others, which include others.
//!
//! It shows what the core provides to such kinds: verdicts on included objects, fields of any depth, matches with conditions, and hosts
//! that one object defines.

use std::sync::Arc;

use proptest::prelude::*;
use proptest::sample::select;

use super::incremental::{Step, any_object, take};
use crate::model::{Action, Conditions, HeaderMatch, HeaderName, Host, Match, PathMatch, Route, ValueMatch};
use crate::objects::{Kind, KindInfo, Meta, Object, ObjectId, ObjectKey, Objects, Revision, Typed};
use crate::settings::Settings;
use crate::testing::model::Shared as _;
use crate::testing::objects::*;
use crate::translate::dialect::{self, Competition, Dialect, INGRESS, Resolver, Selection, Sharing};
use crate::translate::plain_text::PlainText;
use crate::translate::problem::{Problem, Reason};
use crate::translate::source::{Dependencies, EntryKeyPair, Rule, Shared, Source, TlsEntry, WantedPort};
use crate::translate::unit::{Field, Unit};
use crate::translate::verdict::{Status, Verdict};
use crate::translate::{ChangedInputs, Translator};

static PROXY: KindInfo = KindInfo { name: "Proxy", group: "example.com", plural: "proxies", ..*Kind::INGRESS.info() };

static DIALECTS: [Dialect; 3] = [super::verdicts::DIALECTS[0], DIALECT, dialect::DIALECTS[1]];

const DIALECT: Dialect = Dialect {
    kind: Proxy::KIND,
    selection: Selection::Class { named: |_| None },
    parse: |object, resolver| parse(object.get().ok_or_else(Dependencies::default)?, resolver),
    sharing: Sharing::Alone,
    competition: Competition { guards_prefixes: false, ..INGRESS.competition },
    conflicts: Some(|_, found| found.iter().map(|conflict| conflict.problem.verdict("Valid")).collect()),
    hosts: |_| Vec::new(),
    key_pairs: |_| Vec::new(),
};

/// A set of routes. With a host, it is a root.
#[derive(Debug, Clone, PartialEq)]
struct Proxy {
    meta: Meta,
    host: Option<&'static str>,
    /// The name of the Secret of the host.
    secret: Option<&'static str>,
    /// The names of the included objects of the same namespace, each with a prefix.
    includes: Vec<(&'static str, &'static str)>,
    /// The paths, each with the name of a header that requests must have, and a Service.
    routes: Vec<(&'static str, Option<&'static str>, &'static str)>,
}

impl Typed for Proxy {
    const KIND: Kind = Kind::new(&PROXY);

    fn metadata(&self) -> &Meta {
        &self.meta
    }

    fn metadata_mut(&mut self) -> &mut Meta {
        &mut self.meta
    }
}

/// The settings: objects without a class are served.
fn classless() -> Settings {
    let mut settings = Settings::default();
    settings.ingress.classless = true;
    settings
}

fn proxy(name: &str) -> Proxy {
    Proxy { meta: meta(name), host: None, secret: None, includes: Vec::new(), routes: Vec::new() }
}

impl Proxy {
    fn host(mut self, host: &'static str) -> Self {
        self.host = Some(host);
        self
    }

    fn secret(mut self, secret: &'static str) -> Self {
        self.secret = Some(secret);
        self
    }

    fn include(mut self, name: &'static str, prefix: &'static str) -> Self {
        self.includes.push((name, prefix));
        self
    }

    fn route(mut self, path: &'static str, header: Option<&'static str>, service: &'static str) -> Self {
        self.routes.push((path, header, service));
        self
    }
}

impl From<Proxy> for Object {
    fn from(proxy: Proxy) -> Self {
        Object::new(proxy)
    }
}

/// The largest depth of includes.
const DEPTH: usize = 3;

/// The state of parsing one root.
struct Tree<'r> {
    resolver: Resolver<'r>,
    units: Vec<Unit>,
    verdicts: Vec<Verdict>,
    problems: Vec<Problem>,
}

fn parse(proxy: &Proxy, resolver: Resolver) -> Result<Source, Dependencies> {
    let origin = proxy.meta.object_ref(Proxy::KIND);
    let precedence = resolver.context.objects.precedence(Proxy::KIND, &proxy.meta);
    let source = Source::new(precedence, origin.clone(), Revision::new(&proxy.meta, &proxy.host));
    let Some(host) = proxy.host else {
        // Only a root that includes it can know more.
        let orphaned = Verdict::new(origin, "Valid", Status::False, "Orphaned");
        return Ok(Source { verdicts: [orphaned].into(), ..source });
    };
    let mut tree = Tree { resolver, units: Vec::new(), verdicts: Vec::new(), problems: Vec::new() };
    tree.add(proxy, "", &[]);
    let mut entries = Vec::new();
    if let Some(name) = proxy.secret {
        let (field, key) = (Field::new("spec.secret", &[]), ObjectKey { name: name.into(), ..proxy.meta.key.clone() });
        let (material, _) = EntryKeyPair::read(&origin, &field, key, &mut tree.resolver);
        entries.push(TlsEntry {
            field,
            hosts: vec![Host::Exact(host.into())],
            hostless: false,
            ignores_names: false,
            material,
        });
    }
    let rule = Rule { field: Field::new("spec.host", &[]), host: Host::Exact(host.into()), units: tree.units.into() };
    Ok(Source {
        asks: true,
        shared: Shared::new(vec![rule], entries),
        dependencies: tree.resolver.into_dependencies(),
        problems: tree.problems.into_iter().map(Arc::new).collect(),
        verdicts: tree.verdicts.into(),
        ..source
    })
}

impl Tree<'_> {
    /// Adds the routes of a proxy, and of those that it includes. `at` are the indexes of the includes above it.
    fn add(&mut self, proxy: &Proxy, prefix: &str, at: &[usize]) {
        let origin = proxy.meta.object_ref(Proxy::KIND);
        self.verdicts.push(Verdict::new(origin.clone(), "Valid", Status::True, "Valid"));
        for (index, (path, header, service)) in proxy.routes.iter().enumerate() {
            let cluster = self.resolver.cluster(ObjectKey::new("shop", service), WantedPort::Number(80), None);
            let action = cluster.map_or(Action::respond(503), |(cluster, _)| Action::forward(cluster));
            let headers = header.iter().map(|name| HeaderMatch {
                name: HeaderName::parse(name).unwrap(),
                value: ValueMatch::Present,
                inverted: false,
                missing_is_empty: false,
            });
            let conditions = Conditions { method: None, headers: headers.collect(), query: Vec::new(), share: None };
            let path = PathMatch::Prefix(format!("{prefix}{path}").into());
            let route = Route {
                matches: Match::new(path, conditions),
                ..Route::new(PathMatch::root(), action, origin.clone())
            };
            let place: Vec<usize> = at.iter().copied().chain([index]).collect();
            let field = Field::new(FIELDS[at.len()], &place);
            let (route, rest, plain_text) = (Arc::new(route), None, PlainText::Serve);
            self.units.push(Unit { field, rule: None, cost: Default::default(), route, rest, plain_text, own: None });
        }
        for (index, (name, below)) in proxy.includes.iter().enumerate() {
            let key = ObjectKey { namespace: proxy.meta.key.namespace.clone(), name: (*name).into() };
            let included = self.resolver.included(&Proxy::KIND.id(key)).and_then(Object::get::<Proxy>);
            match included.filter(|included| included.host.is_none() && at.len() < DEPTH) {
                Some(included) => {
                    let at: Vec<usize> = at.iter().copied().chain([index]).collect();
                    self.add(included, &format!("{prefix}{below}"), &at);
                }
                None => self.problems.push(Problem {
                    object: origin.clone(),
                    field: format!("spec.includes[{index}]"),
                    reason: Reason::UnsupportedBackend,
                    message: format!("{name:?} cannot be included").into(),
                    consequence: "left out".to_owned(),
                }),
            }
        }
    }
}

/// The field of a route at each depth.
const FIELDS: [&str; DEPTH + 1] = [
    "spec.routes[#]",
    "spec.includes[#].routes[#]",
    "spec.includes[#].includes[#].routes[#]",
    "spec.includes[#].includes[#].includes[#].routes[#]",
];

/// A translator of these dialects beside the objects.
struct World {
    objects: Objects,
    translator: Translator,
}

impl World {
    fn new(of: &[Object]) -> Self {
        let mut world = Self { objects: objects(&[class("ours").into()]), translator: Translator::new(&DIALECTS) };
        for object in of {
            world.objects.apply(object.clone());
        }
        world.translator.update(&world.objects, &classless(), &ChangedInputs::everything());
        world
    }

    /// Takes a step, and compares the result with a translation from scratch. Returns the number of changed hosts.
    fn take(&mut self, step: Step) -> usize {
        let (mut settings, mut changed) = (classless(), ChangedInputs::default());
        take(step, &mut self.objects, &mut settings, &mut changed);
        let update = self.translator.update(&self.objects, &settings, &changed);
        let mut anew = Translator::new(&DIALECTS);
        anew.update(&self.objects, &settings, &ChangedInputs::everything());
        assert_eq!(self.translator.model(), anew.model());
        assert_eq!(self.translator.problems(), anew.problems());
        assert_eq!(self.translator.verdicts(), anew.verdicts());
        update.touched.hosts.values().map(|hosts| hosts.len()).sum()
    }

    fn apply(&mut self, object: impl Into<Object>) -> usize {
        self.take(Step::Apply(object.into()))
    }

    fn delete(&mut self, name: &str) -> usize {
        self.take(Step::Delete(Proxy::KIND, meta(name).key))
    }

    /// Returns the reason of the condition of a proxy.
    fn reason(&self, name: &str) -> &'static str {
        let id = ObjectId { kind: Proxy::KIND, key: meta(name).key };
        self.translator.verdicts().get(&id).map_or("none", |verdicts| verdicts[0].reason)
    }

    /// Returns the routes of a host in their order: the path, the number of headers, and the object.
    fn routes(&self, host: &str) -> Vec<String> {
        let found = self.translator.model().http().get(&Host::Exact(host.into())).cloned();
        let routes = found.iter().flat_map(|host| &host.routes);
        let text = |route: &Arc<Route>| {
            let (PathMatch::Prefix(path)
            | PathMatch::SeparatedPrefix(path)
            | PathMatch::Exact(path)
            | PathMatch::Regex(path)) = &route.matches.path;
            let headers = route.matches.conditions().map_or(0, |conditions| conditions.headers.len());
            format!("{path} {headers} {}", route.origin.name)
        };
        routes.map(text).collect()
    }
}

#[test]
fn a_root_includes_objects_that_have_verdicts_of_their_own() {
    let root = || proxy("root").host("x.test").route("/", None, "a").include("team", "/team");
    let team = || proxy("team").route("/one", None, "a").include("deep", "/deep");
    let deep = || proxy("deep").route("/two", None, "a");
    let mut world = World::new(&[service("a").port("http", 80).into(), team().into(), deep().into()]);
    assert_eq!(["team", "deep", "root"].map(|name| world.reason(name)), ["Orphaned", "Orphaned", "none"]);
    assert_eq!(world.apply(root()), 1);
    assert_eq!(["team", "deep", "root"].map(|name| world.reason(name)), ["Valid"; 3]);
    assert_eq!(world.routes("x.test"), ["/team/deep/two 0 deep", "/team/one 0 team", "/ 0 root"]);
    assert_eq!(world.apply(deep().route("/three", None, "a")), 1, "a change of an included object changes the host");
    assert_eq!(world.routes("x.test").len(), 4);
    world.delete("team");
    assert_eq!(["team", "deep", "root"].map(|name| world.reason(name)), ["none", "Orphaned", "Valid"]);
    let problems: Vec<String> = world.translator.problems().iter().map(|problem| problem.field.clone()).collect();
    assert_eq!(problems, ["spec.includes[0]"]);
    world.apply(team());
    world.delete("root");
    assert_eq!(["team", "deep"].map(|name| world.reason(name)), ["Orphaned"; 2]);
    assert!(world.routes("x.test").is_empty());
}

#[test]
fn a_root_that_only_includes_others_is_served_by_their_routes() {
    let root = proxy("root").host("x.test").include("team", "");
    let mut world = World::new(&[root.into(), proxy("team").route("/", None, "a").into()]);
    let id = |name| ObjectId { kind: Proxy::KIND, key: meta(name).key };
    assert!(!world.translator.has_lost(&id("root")) && !world.translator.has_lost(&id("team")));
    let reads = |world: &World, name| world.translator.inputs(&id(name)).any(|input| input.kind() == Kind::SERVICE);
    assert!(reads(&world, "root") && reads(&world, "team"), "the root reads the Services of the included object");
    world.apply(ingress("other/other").created(-1).host("x.test").path("ImplementationSpecific", "/", "a:80"));
    assert!(world.translator.has_lost(&id("root")), "an older object of another namespace owns the host");
}

#[test]
fn an_object_without_a_class_is_served_if_the_settings_say_so() {
    let mut world = World::new(&[proxy("root").host("a.test").route("/", None, "a").into()]);
    assert_eq!(world.reason("root"), "Valid");
    world.translator.update(&world.objects, &Settings::default(), &ChangedInputs::everything());
    assert_eq!(world.reason("root"), "none");
    world.translator.update(&world.objects, &classless(), &ChangedInputs::everything());
    assert_eq!(world.reason("root"), "Valid");
}

#[test]
fn a_missing_certificate_is_a_verdict() {
    let secured = proxy("secured").host("x.test").secret("gone").route("/", None, "a");
    let mut world = World::new(&[secured.into()]);
    assert_eq!(world.reason("secured"), "SecretNotValid");
    world.apply(secret("gone", &["x.test"]));
    assert_eq!(world.reason("secured"), "Valid");
}

#[test]
fn two_roots_include_one_object() {
    let root = |name: &str, host| proxy(name).host(host).include("team", "");
    let team = proxy("team").route("/one", None, "a");
    let mut world = World::new(&[root("x", "x.test").into(), root("y", "y.test").into(), team.clone().into()]);
    assert_eq!(world.reason("team"), "Valid");
    world.delete("x");
    assert_eq!(world.reason("team"), "Valid", "the other root includes it");
    world.delete("y");
    assert_eq!(world.reason("team"), "Orphaned");
}

#[test]
fn more_conditions_precede_fewer_whatever_the_age_of_the_objects() {
    let with_header = ["/a", "/b"].map(|path| (path, Some("x-canary")));
    let start = proxy("new").host("x.test").route("/b", None, "a");
    let new = with_header.iter().fold(start, |proxy, (path, header)| proxy.route(path, *header, "a"));
    let old = ingress("old").host("x.test").path("ImplementationSpecific", "/a", "a:80");
    let world = World::new(&[old.into(), new.into()]);
    assert_eq!(world.routes("x.test"), ["/b 1 new", "/b 0 new", "/a 1 new", "/a 0 old"]);
}

#[test]
fn the_oldest_of_several_objects_that_define_a_host_serves_it() {
    let root = |name: &str, created| {
        let meta = Meta { created, ..meta(name) };
        Proxy { meta, ..proxy(name).host("x.test").route("/", None, "a") }
    };
    let mut world = World::new(&[root("two", 1).into()]);
    world.apply(root("one", 2));
    assert_eq!(["one", "two"].map(|name| world.reason(name)), ["DuplicateVhost", "Valid"]);
    assert_eq!(world.routes("x.test"), ["/ 0 two"]);
    let problems: Vec<String> = world.translator.problems().iter().map(ToString::to_string).collect();
    let expected = "spec.host: host \"x.test\" is defined by Proxy shop/two, which takes precedence";
    assert!(problems.iter().any(|text| text.contains(expected)), "{problems:?}");
    let older = ingress("shared").created(-1).host("x.test").path("Prefix", "/shared", "a:80");
    world.apply(older.path("ImplementationSpecific", "/", "a:80"));
    assert_eq!(world.routes("x.test"), ["/shared 0 shared", "/ 0 two"], "kinds that merge are served behind it");
    world.delete("two");
    assert_eq!(world.reason("one"), "Valid");
    assert_eq!(world.routes("x.test"), ["/shared 0 shared", "/ 0 one"]);
}

fn any_proxy() -> impl Strategy<Value = Object> {
    let host = select(vec![None, None, Some("x.com"), Some("y.x.com")]);
    let include = (select(vec!["one", "two", "three", "gone"]), select(vec!["", "/a", "/b"]));
    let header = select(vec![None, Some("x-one")]);
    let route = (select(vec!["/", "/a", "/b"]), header, select(vec!["a", "b", "gone"]));
    let (includes, routes) = (prop::collection::vec(include, 0..3), prop::collection::vec(route, 0..3));
    (select(vec!["one", "two", "other/three", "other/one"]), 1i64..4, host, includes, routes).prop_map(
        |(name, created, host, includes, routes)| {
            let meta = Meta { created, ..meta(name) };
            Proxy { meta, host, secret: None, includes, routes }.into()
        },
    )
}

fn any_step() -> impl Strategy<Value = Step> {
    let object = || prop_oneof![any_proxy(), any_object()];
    prop_oneof![
        3 => object().prop_map(Step::Apply),
        1 => object().prop_map(|object| Step::Delete(object.kind(), object.meta().key.clone())),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn incremental_changes_of_mixed_kinds_equal_one_translation(
        first in prop::collection::vec(prop_oneof![any_proxy(), any_object()], 0..10),
        steps in prop::collection::vec(any_step(), 1..30),
    ) {
        let mut world = World::new(&first);
        for step in steps {
            world.take(step);
        }
    }
}

//! Random sets of HTTPProxies.
//!
//! The objects of a set contain placeholders instead of names that differ between controllers: `@a` and `@b` are its namespaces, `@s` is
//! the suffix of its hosts, and `@c` is the class. A value `{"$isolated": V, …}` is a fault: in the twin of the set, `V` stands in its
//! place, which is the effect of the fault according to the deviations. `null` removes it.

mod access;
mod actions;
mod conditions;
mod faults;
mod scripts;

use fuzzing::Random;
use serde_json::{Map, Value, json};

pub use access::COOKIES;
pub use actions::SERVICES;
pub use conditions::{HEADERS, PARAMETERS, PATHS, VALUES};
pub use faults::Fault;
pub use scripts::ORIGINS;

/// The key of the value that stands in the place of a fault in the twin.
const ISOLATED: &str = "$isolated";

/// An HTTPProxy with placeholders.
#[derive(Debug, Clone)]
pub struct Proxy {
    /// `@a` or `@b`.
    pub namespace: &'static str,
    /// The name.
    pub name: String,
    /// The specification.
    pub spec: Value,
    /// Where it exists.
    pub presence: Presence,
}

/// Where an object exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// In the set and in its twin.
    Both,
    /// Not in the twin.
    Set,
    /// Only in the twin.
    Twin,
}

/// A set of HTTPProxies.
#[derive(Debug)]
pub struct Set {
    /// Its number.
    pub number: u64,
    /// The objects, in the order of their creation.
    pub proxies: Vec<Proxy>,
    /// The hosts of the roots: `h0.@s`, `*.w1.@s`.
    pub hosts: Vec<String>,
    /// Its fault.
    pub fault: Option<Fault>,
}

/// The state of generating a set.
struct Generator<'r> {
    random: &'r mut Random,
    proxies: Vec<Proxy>,
}

impl Set {
    /// Generates the set with a number.
    pub fn generate(number: u64, random: &mut Random) -> Self {
        let roots = random.within(1..=3);
        let children = random.within(0..=5);
        let mut generator = Generator { random, proxies: Vec::new() };
        let mut hosts = Vec::new();
        for index in 0..roots {
            let host = if generator.random.one_in(5) { format!("*.w{index}.@s") } else { format!("h{index}.@s") };
            let proxy = generator.root(index, &host, children);
            hosts.push(host);
            generator.proxies.push(proxy);
        }
        for index in 0..children {
            let proxy = generator.child(index, children);
            generator.proxies.push(proxy);
        }
        let fault = generator.random.one_in(3).then(|| faults::add(&mut generator));
        Self { number, proxies: generator.proxies, hosts, fault: fault.flatten() }
    }
}

impl Set {
    /// Returns the object of an include.
    pub fn included(&self, include: &Value) -> Option<&Proxy> {
        let is_included = |other: &&Proxy| include["name"] == other.name && include["namespace"] == other.namespace;
        self.proxies.iter().find(is_included)
    }
}

impl Generator<'_> {
    fn root(&mut self, index: usize, host: &str, children: usize) -> Proxy {
        let mut virtual_host = json!({ "fqdn": host });
        if self.random.one_in(2) {
            virtual_host["tls"] = json!({ "secretName": "cert" });
        }
        if self.random.one_in(3) {
            virtual_host["corsPolicy"] = self.scripts();
        }
        if self.random.one_in(6) {
            self.addresses(&mut virtual_host);
        }
        let includes = self.includes(0, children, 1);
        let least = usize::from(includes.is_empty());
        let mut spec = json!({ "virtualhost": virtual_host });
        insert(&mut spec, "includes", includes);
        let count = self.random.within(least..=4);
        let routes: Vec<Value> = (0..count).map(|_| self.route()).collect();
        insert(&mut spec, "routes", routes);
        Proxy { namespace: "@a", name: format!("r{index}"), spec, presence: Presence::Both }
    }

    fn child(&mut self, index: usize, children: usize) -> Proxy {
        let mut spec = json!({});
        let includes = self.includes(index + 1, children, index + 2);
        insert(&mut spec, "includes", includes);
        let count = self.random.within(0..=3);
        let routes: Vec<Value> = (0..count).map(|_| self.route()).collect();
        insert(&mut spec, "routes", routes);
        Proxy { namespace: namespace(index), name: format!("c{index}"), spec, presence: Presence::Both }
    }

    /// Includes of children from `first` on, so that there are no cycles. Objects of one level have conditions on headers of their own.
    fn includes(&mut self, first: usize, children: usize, level: usize) -> Vec<Value> {
        let count = if first < children { self.random.within(0..=3.min(children - first)) } else { 0 };
        let mut includes: Vec<Value> = Vec::new();
        for _ in 0..count {
            let child = self.random.within(first..=children - 1);
            let mut include = json!({ "name": format!("c{child}"), "namespace": namespace(child) });
            insert(&mut include, "conditions", self.include_conditions(level));
            // Equal conditions are a fault.
            if includes.iter().all(|other| other.get("conditions") != include.get("conditions")) {
                includes.push(include);
            }
        }
        includes
    }

    fn route(&mut self) -> Value {
        let mut route = json!({});
        let conditions = self.route_conditions();
        let is_prefix = !conditions.iter().any(|one| one.get("exact").is_some() || one.get("regex").is_some());
        insert(&mut route, "conditions", conditions);
        self.action(&mut route, is_prefix);
        if self.random.one_in(4) {
            route["permitInsecure"] = json!(true);
        }
        route
    }
}

/// The namespace of a child.
fn namespace(index: usize) -> &'static str {
    ["@a", "@b"][index % 2]
}

/// Sets a list unless it is empty.
fn insert(object: &mut Value, field: &str, list: Vec<Value>) {
    if !list.is_empty() {
        object[field] = list.into();
    }
}

impl Proxy {
    /// Returns the object with placeholders, as it is or in the twin.
    pub fn object(&self, is_twin: bool) -> Option<Value> {
        let is_present = match self.presence {
            Presence::Both => true,
            Presence::Set => !is_twin,
            Presence::Twin => is_twin,
        };
        if !is_present {
            return None;
        }
        let mut spec = resolved(&self.spec, is_twin)?;
        spec["ingressClassName"] = json!("@c");
        Some(json!({
            "apiVersion": "projectcontour.io/v1",
            "kind": "HTTPProxy",
            "metadata": { "name": self.name, "namespace": self.namespace },
            "spec": spec,
        }))
    }
}

/// Returns a value without the marks of faults. None: the twin does not have it.
fn resolved(value: &Value, is_twin: bool) -> Option<Value> {
    match value {
        Value::Object(fields) => match fields.get(ISOLATED) {
            Some(isolated) if is_twin => (!isolated.is_null()).then(|| isolated.clone()),
            _ => {
                let kept = fields.iter().filter(|(name, _)| *name != ISOLATED);
                let fields = kept.filter_map(|(name, value)| Some((name.clone(), resolved(value, is_twin)?)));
                Some(Value::Object(fields.collect::<Map<_, _>>()))
            }
        },
        Value::Array(list) => Some(list.iter().filter_map(|value| resolved(value, is_twin)).collect()),
        other => Some(other.clone()),
    }
}

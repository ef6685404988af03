//! Faults of objects: each has more effect, or another one, at Contour than here.

use serde_json::{Value, json};

use super::{Generator, ISOLATED, Presence, Proxy};

/// A fault, and its effect here, which the twin has at Contour. Each has a row in the table "Deviations from Contour with the same
/// object" of `docs/migration/contour.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// Conditions that are not valid: only their route is left out.
    Conditions,
    /// No action or several: the route answers 503.
    ActionCount,
    /// A second root with the host: it is not served, and the first one is.
    DuplicateHost,
    /// A duration that is not valid: it is left out.
    Duration,
    /// A header policy that is not valid: the change of this header is left out.
    HeaderPolicy,
    /// Two equal replacements of a prefix: the route answers 503.
    Replacement,
    /// An exact path before other conditions: it is exact.
    ExactPath,
    /// An include of an object that does not exist: its conditions answer 502.
    MissingInclude,
    /// An include of a root: its conditions answer 502.
    IncludedRoot,
    /// An include of an object above: its conditions answer 502.
    Cycle,
    /// A second include with the same conditions: it is left out.
    DuplicateInclude,
    /// A missing Secret: the host has no TLS, and plain HTTP redirects.
    MissingSecret,
}

/// All faults.
const ALL: [Fault; 12] = [
    Fault::Conditions,
    Fault::ActionCount,
    Fault::DuplicateHost,
    Fault::Duration,
    Fault::HeaderPolicy,
    Fault::Replacement,
    Fault::ExactPath,
    Fault::MissingInclude,
    Fault::IncludedRoot,
    Fault::Cycle,
    Fault::DuplicateInclude,
    Fault::MissingSecret,
];

/// Adds a fault to the set. Returns `None` if the set has no place for it.
pub fn add(generator: &mut Generator) -> Option<Fault> {
    let fault = *generator.random.choose(&ALL);
    match fault {
        Fault::DuplicateHost => duplicate_host(generator),
        Fault::MissingSecret => missing_secret(generator),
        Fault::MissingInclude | Fault::IncludedRoot | Fault::Cycle => include(generator, fault),
        Fault::DuplicateInclude => duplicate_include(generator),
        _ => route(generator, fault),
    }
    .map(|()| fault)
}

fn duplicate_host(generator: &mut Generator) -> Option<()> {
    let fqdn = generator.proxies.first()?.spec["virtualhost"]["fqdn"].clone();
    let routes = json!([{ "services": [{ "name": "s2", "port": 80 }] }]);
    let spec = json!({ "virtualhost": { "fqdn": fqdn }, "routes": routes });
    generator.proxies.push(Proxy { namespace: "@b", name: "z".into(), spec, presence: Presence::Set });
    Some(())
}

fn missing_secret(generator: &mut Generator) -> Option<()> {
    let tls = json!({ "secretName": "missing", ISOLATED: { "secretName": "cert" } });
    generator.proxies.first_mut()?.spec["virtualhost"]["tls"] = tls;
    Some(())
}

/// Adds an include that answers 502 on its conditions.
fn include(generator: &mut Generator, fault: Fault) -> Option<()> {
    let at = generator.random.below(generator.proxies.len());
    let conditions = generator.include_conditions(9);
    let name = match fault {
        Fault::MissingInclude => "missing",
        Fault::IncludedRoot => "r0",
        _ => &generator.proxies[at].name,
    };
    let is_above = fault == Fault::Cycle;
    let namespace = if is_above { generator.proxies[at].namespace } else { "@a" };
    let mut include = json!({ "name": name, "namespace": namespace });
    super::insert(&mut include, "conditions", conditions);
    // Equal conditions are another fault.
    let spec = &mut generator.proxies[at].spec;
    let others = spec["includes"].as_array().cloned().unwrap_or_default();
    if others.iter().any(|other| other.get("conditions") == include.get("conditions")) {
        return None;
    }
    let mut isolated = include.clone();
    isolated["name"] = "answer".into();
    isolated["namespace"] = "@a".into();
    include[ISOLATED] = isolated;
    spec["includes"] = others.into_iter().chain([include]).collect();
    let answer = json!({ "routes": [{ "directResponsePolicy": { "statusCode": 502 }, "permitInsecure": false }] });
    generator.proxies.push(Proxy { namespace: "@a", name: "answer".into(), spec: answer, presence: Presence::Twin });
    Some(())
}

fn duplicate_include(generator: &mut Generator) -> Option<()> {
    let proxies = generator.proxies.iter_mut().filter_map(|proxy| proxy.spec["includes"].as_array_mut());
    let includes = proxies.into_iter().next()?;
    let mut second = includes.first().filter(|first| first.get("conditions").is_some())?.clone();
    let is_plain = second["conditions"].as_array().is_some_and(|all| all.iter().all(|one| one["prefix"] == "/"));
    second[ISOLATED] = Value::Null;
    (!is_plain).then(|| includes.push(second))
}

/// Adds a fault to a route with a Service.
fn route(generator: &mut Generator, fault: Fault) -> Option<()> {
    let places: Vec<(usize, usize)> = (0..generator.proxies.len())
        .flat_map(|proxy| (0..routes(&generator.proxies[proxy].spec).len()).map(move |route| (proxy, route)))
        .filter(|(proxy, route)| routes(&generator.proxies[*proxy].spec)[*route].get("services").is_some())
        .collect();
    if places.is_empty() {
        return None;
    }
    let (proxy, route) = *generator.random.choose(&places);
    let route = &mut generator.proxies[proxy].spec["routes"][route];
    let valid = route.clone();
    let mut conditions = route["conditions"].as_array().cloned().unwrap_or_default();
    let header = |value: &str| json!({ "header": { "name": "x-c", "exact": value } });
    match fault {
        Fault::Conditions => {
            conditions.extend([header("one"), header("two")]);
            route["conditions"] = conditions.into();
            route[ISOLATED] = Value::Null;
        }
        Fault::ActionCount => {
            route["directResponsePolicy"] = json!({ "statusCode": 200 });
            route[ISOLATED] = closed(&valid);
        }
        Fault::Duration => {
            let mut policy = valid.get("timeoutPolicy").cloned().unwrap_or_else(|| json!({}));
            policy["response"] = "h".into();
            route["timeoutPolicy"] = policy;
            route[ISOLATED] = valid.clone();
            match valid.get("timeoutPolicy").and_then(|policy| policy.get("idle")) {
                Some(idle) => route[ISOLATED]["timeoutPolicy"] = json!({ "idle": idle }),
                None => route[ISOLATED] = without(&valid, &["timeoutPolicy"]),
            }
        }
        Fault::HeaderPolicy => {
            let mut policy = valid.get("responseHeadersPolicy").cloned().unwrap_or_else(|| json!({}));
            let mut set = policy["set"].as_array().cloned().unwrap_or_default();
            set.push(json!({ "name": "Host", "value": "a" }));
            policy["set"] = set.into();
            route["responseHeadersPolicy"] = policy;
            route[ISOLATED] = valid;
        }
        Fault::Replacement => {
            let entry = |to: &str| json!({ "prefix": "/a", "replacement": to });
            route["pathRewritePolicy"] = json!({ "replacePrefix": [entry("/x"), entry("/y")] });
            route[ISOLATED] = closed(&valid);
        }
        Fault::ExactPath => {
            let exact = json!({ "exact": "/a" });
            let mut isolated = without(&valid, &["pathRewritePolicy"]);
            isolated["conditions"] = json!([header("one"), exact]);
            *route = isolated.clone();
            route["conditions"] = json!([exact, header("one")]);
            route[ISOLATED] = isolated;
        }
        _ => return None,
    }
    Some(())
}

/// Returns a route that answers 503.
fn closed(route: &Value) -> Value {
    let policies = ["services", "requestHeadersPolicy", "pathRewritePolicy", "timeoutPolicy", "retryPolicy"];
    let mut closed = without(route, &policies);
    closed["directResponsePolicy"] = json!({ "statusCode": 503 });
    closed
}

/// Returns a route without some fields.
fn without(route: &Value, fields: &[&str]) -> Value {
    let mut route = route.clone();
    for field in fields {
        route.as_object_mut().expect("a route").remove(*field);
    }
    route
}

fn routes(spec: &Value) -> &[Value] {
    spec["routes"].as_array().map(Vec::as_slice).unwrap_or_default()
}

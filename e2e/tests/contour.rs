//! HTTPProxies at Contour and at Lockgate: random sets have the same status, and random requests to both Envoys the same answers.
//!
//! Each set is created once for each controller, with other namespaces, hosts, and classes. A set with a fault is created for Contour
//! again without it, as its twin: where Contour's behavior harms, the effect of a fault here is that of its twin at Contour. Any other
//! difference is a row of "Deviations from Contour with the same object" in `docs/migration/contour.md`, with a predicate in
//! `deviations`, or fails the test.
//!
//! `SETS=500 SEED=7` sets the number of sets and the seed. `FIRST=17 SETS=1` repeats one set. `SHOW=20` prints more differences.

mod api;
mod compare;
mod deviations;
mod generator;
mod requests;
mod site;
mod statuses;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use bytes::Bytes;
use fuzzing::Random;
use hyper::Method;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use api::Api;
use compare::{Difference, Outcome};
use generator::{Proxy, Set};
use site::{SLOTS, Side, Site};

/// The number of sets whose requests are sent at the same time.
const AT_A_TIME: usize = 4;

fn variable(name: &str, default: u64) -> u64 {
    match std::env::var(name).unwrap_or_default().as_str() {
        "" => default,
        // `make test SEED=random`.
        "random" => SystemTime::UNIX_EPOCH.elapsed().map_or(default, |time| time.as_secs()),
        value => value.parse().unwrap_or_else(|_| panic!("{name}={value} is not a number")),
    }
}

/// Returns the random source of a set, which does not depend on other sets.
fn random(seed: u64, number: u64) -> Random {
    Random::new(seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(number << 20))
}

#[tokio::test(flavor = "multi_thread")]
async fn random_sets_have_the_answers_and_the_status_of_contour() {
    let (seed, first, count) = (variable("SEED", 1), variable("FIRST", 0), variable("SETS", 20));
    println!("SEED={seed} FIRST={first} SETS={count} repeats this comparison");
    let site = Arc::new(Site::open().await);
    let (mut differences, mut counts, start) = (Vec::new(), BTreeMap::new(), Instant::now());
    let numbers: Vec<u64> = (first..first + count).collect();
    for portion in numbers.chunks(SLOTS as usize) {
        let sets: Vec<Arc<Set>> =
            portion.iter().map(|number| Arc::new(Set::generate(*number, &mut random(seed, *number)))).collect();
        create(&site, &sets).await;
        site.wait_served(portion[0]).await;
        differences.extend(statuses::compare(&site, &sets, &mut counts).await);
        let mut outcomes = JoinSet::new();
        let permits = Arc::new(Semaphore::new(AT_A_TIME));
        for set in &sets {
            let (site, set, permits) = (site.clone(), set.clone(), permits.clone());
            outcomes.spawn(async move {
                let _permit = permits.acquire().await;
                let mut random = random(seed, set.number);
                random.bits();
                compare::answers(&site, &set, &mut random).await
            });
        }
        for Outcome { counts: of_set, differences: found } in outcomes.join_all().await {
            differences.extend(found);
            for (name, count) in of_set {
                *counts.entry(name).or_default() += count;
            }
        }
        remove(&site, portion).await;
    }
    println!("{count} sets in {:.0} s", start.elapsed().as_secs_f64());
    counts.iter().for_each(|(name, count)| println!("{count:6} {name}"));
    report(seed, &differences);
}

/// Prints some differences, and fails if there are any.
fn report(seed: u64, differences: &[Difference]) {
    for Difference { set, text } in differences.iter().take(variable("SHOW", 3) as usize) {
        println!(
            "\n=== a difference of set {}: SEED={seed} FIRST={} SETS=1 repeats it\n{text}",
            set.number, set.number
        );
        println!("--- the set; @a and @b are its namespaces, and @s is the suffix of its hosts\n{}", yaml(set));
    }
    assert!(differences.is_empty(), "{} differences", differences.len());
}

/// Returns the objects of a set, as one document of YAML for each, in JSON.
fn yaml(set: &Set) -> String {
    let text = |proxy: &Proxy| proxy.object(false).map(|object| object.to_string());
    set.proxies.iter().filter_map(text).collect::<Vec<_>>().join("\n---\n")
}

/// Creates the objects of sets at all sides, and one with the host `canary.@s` after all others.
async fn create(site: &Arc<Site>, sets: &[Arc<Set>]) {
    let mut created = JoinSet::new();
    for set in sets {
        let (site, set) = (site.clone(), set.clone());
        created.spawn(async move {
            let mut api = site.api();
            for side in Side::ALL {
                if side == Side::Twin && set.fault.is_none() {
                    continue;
                }
                let hosts: Vec<String> = set.hosts.iter().map(|host| side.fill(set.number, host)).collect();
                let canary = side.fill(set.number, "canary.@s");
                let hosts: Vec<&str> = hosts.iter().map(String::as_str).chain([&*canary]).collect();
                site.certify(&mut api, side, set.number, &hosts).await;
                for proxy in &set.proxies {
                    if let Some(object) = proxy.object(side == Side::Twin) {
                        create_one(&mut api, side, set.number, &object).await;
                    }
                }
            }
        });
    }
    created.join_all().await;
    let mut api = site.api();
    for side in [Side::Contour, Side::Lockgate] {
        let canary = json!({
            "apiVersion": "projectcontour.io/v1",
            "kind": "HTTPProxy",
            "metadata": { "name": "canary", "namespace": "@a" },
            "spec": {
                "ingressClassName": "@c",
                "virtualhost": { "fqdn": "canary.@s", "tls": { "secretName": "cert" } },
                "routes": [{ "services": [{ "name": "s0", "port": 80 }] }],
            },
        });
        create_one(&mut api, side, sets[0].number, &canary).await;
    }
}

async fn create_one(api: &mut Api, side: Side, number: u64, object: &Value) {
    let object: Value = serde_json::from_str(&side.fill(number, &object.to_string())).expect("JSON");
    let namespace = object["metadata"]["namespace"].as_str().expect("a namespace");
    api.create(&format!("/apis/projectcontour.io/v1/namespaces/{namespace}/httpproxies"), &object).await;
}

/// Deletes the HTTPProxies of sets.
async fn remove(site: &Site, numbers: &[u64]) {
    let mut api = site.api();
    for number in numbers {
        for (side, which) in Side::ALL.into_iter().flat_map(|side| ['a', 'b'].map(|which| (side, which))) {
            let namespace = side.namespace(*number, which);
            let path = format!("/apis/projectcontour.io/v1/namespaces/{namespace}/httpproxies");
            let answer = api.send(Method::DELETE, &path, Bytes::new()).await;
            assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        }
    }
}

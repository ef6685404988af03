//! The status that both controllers write.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::Method;
use serde_json::Value;

use super::compare::Difference;
use super::generator::{Proxy, Set};
use super::site::{Side, Site};

/// How long the statuses of a portion may differ.
const SETTLED: Duration = Duration::from_secs(5);

/// `currentStatus` and the types and reasons of all errors. Warnings are not compared.
pub type State = (String, BTreeSet<String>);

/// Compares the statuses of sets.
pub async fn compare(site: &Site, sets: &[Arc<Set>], counts: &mut BTreeMap<String, u64>) -> Vec<Difference> {
    let start = Instant::now();
    loop {
        let states = states(site).await;
        let (mut differences, mut by_row) = (Vec::new(), BTreeMap::new());
        for set in sets {
            for proxy in &set.proxies {
                if let Some(text) = differs(&states, set, proxy, &mut by_row) {
                    differences.push(Difference { set: set.clone(), text });
                }
            }
        }
        if differences.is_empty() || start.elapsed() > SETTLED {
            for (row, count) in by_row {
                *counts.entry(row).or_default() += count;
            }
            return differences;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Returns the states of all objects, by namespace and name.
async fn states(site: &Site) -> HashMap<(String, String), State> {
    let path = "/apis/projectcontour.io/v1/httpproxies";
    let answer = site.api().send(Method::GET, path, Bytes::new()).await;
    let list: Value = serde_json::from_slice(&answer.body).expect("a list");
    let items = list["items"].as_array().cloned().unwrap_or_default();
    items.iter().map(|item| (key(item), state(item))).collect()
}

fn key(item: &Value) -> (String, String) {
    let text = |field: &str| item["metadata"][field].as_str().unwrap_or_default().to_owned();
    (text("namespace"), text("name"))
}

fn state(item: &Value) -> State {
    let status = &item["status"];
    let conditions = status["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let valid = conditions.iter().find(|condition| condition["type"] == "Valid");
    let errors = valid.and_then(|valid| valid["errors"].as_array()).cloned().unwrap_or_default();
    let text = |error: &Value, field: &str| error[field].as_str().unwrap_or_default().to_owned();
    let errors = errors.iter().map(|error| format!("{}/{}", text(error, "type"), text(error, "reason")));
    (status["currentStatus"].as_str().unwrap_or_default().to_owned(), errors.collect())
}

fn differs(
    states: &HashMap<(String, String), State>,
    set: &Set,
    proxy: &Proxy,
    counts: &mut BTreeMap<String, u64>,
) -> Option<String> {
    let of = |side: Side| states.get(&(side.fill(set.number, proxy.namespace), proxy.name.clone()));
    let [contour, lockgate] = [of(Side::Contour)?, of(Side::Lockgate)?];
    *counts.entry("statuses".into()).or_default() += 1;
    if contour == lockgate {
        return None;
    }
    if let Some(row) = super::deviations::row_of_status(set, contour, lockgate) {
        *counts.entry(format!("status: {row}")).or_default() += 1;
        return None;
    }
    Some(format!(
        "the status of {}/{}\n--- Contour\n{contour:?}\n--- Lockgate\n{lockgate:?}",
        proxy.namespace, proxy.name
    ))
}

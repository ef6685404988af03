//! The fields of a BackendPolicy.

use lockgate_route::model::{
    Algorithm, BackendFeatures, HashOn, HashPart, HealthCheck, LoadBalancing, Probe, ProbeMethod, SlowStart,
};
use serde_json::{Map, Value, json};

use super::super::losses::Losses;
use super::super::rules::{RulePlace, duration};

/// The maximum number of hashed parts of a BackendPolicy.
const PARTS: usize = 4;

/// Returns the features that HTTPProxies have, and reports those that a BackendPolicy does not express.
pub fn written(features: &BackendFeatures, place: RulePlace, losses: &mut Losses) -> Map<String, Value> {
    let mut spec = Map::new();
    if let Some(balancing) = &features.load_balancing {
        match load_balancing(balancing) {
            Ok(balancing) => drop(spec.insert("loadBalancing".to_owned(), balancing)),
            Err(message) => {
                let remedy = "Hash at most four parts, each of which decides alone.";
                let texts = [message, "the endpoints receive requests in turn", remedy];
                place.report_change(losses, "loadBalancerPolicy", texts);
            }
        }
    }
    if let Some(check) = &features.health_check {
        match health_check(check) {
            Some(check) => drop(spec.insert("healthCheck".to_owned(), check)),
            None => {
                let texts = [
                    "a BackendPolicy checks the pods at a port of the pods, not at a port of the Service",
                    "endpoints are not checked",
                    "Add healthCheck with the port of the pods to the BackendPolicy.",
                ];
                place.report_change(losses, "services", texts);
            }
        }
    }
    if let Some(time) = features.idle_timeout {
        spec.insert("idleTimeout".to_owned(), json!(duration(Some(time))));
    }
    spec
}

fn load_balancing(balancing: &LoadBalancing) -> Result<Value, &'static str> {
    let LoadBalancing { algorithm, slow_start, hash_on } = balancing;
    let algorithm = match algorithm {
        Algorithm::RoundRobin => "RoundRobin",
        Algorithm::LeastRequest => "LeastRequest",
        Algorithm::Random => "Random",
        Algorithm::RingHash => "RingHash",
        Algorithm::Maglev => "Maglev",
    };
    let mut spec = json!({ "algorithm": algorithm });
    if let Some(SlowStart { window, min_weight_percent, aggression_thousandths }) = slow_start {
        if *aggression_thousandths != SlowStart::LINEAR {
            return Err("a BackendPolicy has no aggression of the slow start");
        }
        spec["slowStart"] = json!({ "window": duration(Some(*window)), "minWeightPercent": min_weight_percent });
    }
    if hash_on.len() > PARTS {
        return Err("a BackendPolicy hashes at most four parts of a request");
    }
    // The part in the last place ends the hash in any case.
    if hash_on.iter().rev().skip(1).any(|part| !part.is_terminal) {
        return Err("a BackendPolicy does not combine the hashes of several parts");
    }
    let parts: Vec<Value> = hash_on.iter().map(part).collect();
    if !parts.is_empty() {
        spec["hashOn"] = json!(parts);
    }
    Ok(spec)
}

fn part(part: &HashPart) -> Value {
    match &part.on {
        HashOn::Header(name) => json!({ "type": "Header", "name": name.as_str() }),
        HashOn::Cookie { name, path, lifetime } => {
            let mut cookie = json!({ "type": "Cookie", "name": name.to_string(), "path": &**path });
            if let Some(lifetime) = lifetime {
                // A cookie without a lifetime ends with the session of the browser.
                cookie["lifetime"] = json!(duration(Some(*lifetime)));
            }
            cookie
        }
        HashOn::SourceAddress => json!({ "type": "SourceAddress" }),
        HashOn::QueryParameter(name) => json!({ "type": "QueryParameter", "name": &**name }),
        HashOn::Path => json!({ "type": "Path" }),
    }
}

fn health_check(check: &HealthCheck) -> Option<Value> {
    let HealthCheck {
        probe,
        port,
        service_port,
        interval,
        timeout,
        jitter_percent,
        healthy_threshold,
        unhealthy_threshold,
    } = check;
    if service_port.is_some() {
        return None;
    }
    let mut spec = json!({
        "interval": duration(Some(*interval)),
        "timeout": duration(Some(*timeout)),
        "jitterPercent": jitter_percent,
        "healthyThreshold": healthy_threshold,
        "unhealthyThreshold": unhealthy_threshold,
    });
    match probe {
        Probe::Http { host, path, method, statuses } => {
            spec["http"] = json!({ "path": &**path });
            if !host.is_empty() {
                spec["http"]["host"] = json!(&**host);
            }
            if *method == ProbeMethod::Head {
                spec["http"]["method"] = json!("HEAD");
            }
            let ranges = statuses.iter().map(|(first, last)| match first == last {
                true => first.to_string(),
                false => format!("{first}-{last}"),
            });
            spec["http"]["expectedStatuses"] = ranges.map(Value::String).collect();
        }
        Probe::Grpc { service } => spec["grpc"] = json!({ "service": &**service }),
        Probe::Tcp => spec["tcp"] = json!({}),
    }
    if let Some(port) = port {
        spec["port"] = json!(port);
    }
    Some(spec)
}

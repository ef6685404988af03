//! The answers of both Envoys to the same requests.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fuzzing::Random;

use super::deviations;
use super::generator::Set;
use super::requests::Sent;
use super::site::{Side, Site};

/// The number of requests to each set.
const REQUESTS: usize = 50;
/// The number of repetitions of a request that finds all backends of a route with weights.
const REPETITIONS: usize = 16;
/// How long the first answers that differ may differ: Contour's Envoy adopts changes of several types one after the other.
const SETTLED: Duration = Duration::from_secs(4);

/// A difference that is no deviation.
pub struct Difference {
    /// The set.
    pub set: Arc<Set>,
    /// The request or the object, and both sides.
    pub text: String,
}

/// The result of the requests to a set.
#[derive(Default)]
pub struct Outcome {
    /// The number of requests, and of the deviations by row.
    pub counts: BTreeMap<String, u64>,
    /// All other differences.
    pub differences: Vec<Difference>,
}

impl Outcome {
    fn count(&mut self, what: &str) {
        *self.counts.entry(what.to_owned()).or_default() += 1;
    }
}

/// Sends requests to both Envoys.
pub async fn answers(site: &Site, set: &Arc<Set>, random: &mut Random) -> Outcome {
    let mut outcome = Outcome::default();
    for _ in 0..REQUESTS {
        let sent = Sent::random(set, random);
        outcome.count("requests");
        let twin = if set.fault.is_some() { Side::Twin } else { Side::Contour };
        if let Some(text) = differs(site, set, &sent, twin, &mut outcome).await {
            let text = format!("{sent}\n{text}");
            outcome.differences.push(Difference { set: set.clone(), text });
        }
        let Some(fault) = set.fault else { continue };
        let [theirs, ours] = [sent.send(site, set, Side::Contour).await, sent.send(site, set, Side::Lockgate).await];
        if theirs != ours {
            outcome.count(&format!("answers of Contour with the fault {fault:?} that differ"));
        }
    }
    outcome
}

/// Returns both answers if they differ.
async fn differs(site: &Site, set: &Set, sent: &Sent, theirs: Side, outcome: &mut Outcome) -> Option<String> {
    let start = Instant::now();
    loop {
        let [contour, lockgate] = [sent.send(site, set, theirs).await, sent.send(site, set, Side::Lockgate).await];
        if contour == lockgate {
            return None;
        }
        if let Some(rows) = deviations::rows(set, sent, &contour, &lockgate) {
            rows.into_iter().for_each(|row| outcome.count(row));
            return None;
        }
        // A route with weights has several answers.
        let mut all = [BTreeSet::from([contour]), BTreeSet::from([lockgate])];
        for _ in 0..REPETITIONS {
            all[0].insert(sent.send(site, set, theirs).await);
            all[1].insert(sent.send(site, set, Side::Lockgate).await);
        }
        let is_explained = |one: &String, others: &BTreeSet<String>, is_contour: bool| {
            others.iter().any(|other| {
                let (contour, lockgate) = if is_contour { (one, other) } else { (other, one) };
                one == other || deviations::rows(set, sent, contour, lockgate).is_some()
            })
        };
        let [theirs_of_all, ours_of_all] = &all;
        let is_equal = theirs_of_all.iter().all(|one| is_explained(one, ours_of_all, true))
            && ours_of_all.iter().all(|one| is_explained(one, theirs_of_all, false));
        if is_equal {
            outcome.count("answers by weight");
            return None;
        }
        if start.elapsed() > SETTLED || !outcome.differences.is_empty() {
            let lines = |answers: &BTreeSet<String>| answers.iter().cloned().collect::<Vec<_>>().join("\n... or\n");
            return Some(format!("--- {theirs:?}\n{}\n--- Lockgate\n{}", lines(&all[0]), lines(&all[1])));
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

//! The weights of a route change from 90 to 10 into 10 to 90, and back.

use e2e::Mode;
use e2e::load::Plan;
use e2e::{Load, wait_everywhere};

use super::site::{Site, assert_undisturbed, route};

const CHANGES: usize = 10;
const CANARY: &str = "canary.test";
/// Enough requests for a share of 90 % to be between 85 % and 95 % (six standard deviations).
const REQUESTS: u64 = 1500;

async fn weights(mode: Mode) {
    let site = Site::open(mode).await;
    let [a, b] = &site.backends;
    let weigh = |weights: [u32; 2]| {
        let services = [("a", weights[0]), ("b", weights[1])];
        site.manifests.write("canary.yaml", &route("canary", &["one"], CANARY, &services));
    };
    let target = site.target(0, CANARY);
    weigh([100, 0]);
    wait_everywhere("the route", async || target.backend("/").await.as_deref() == Some("a")).await;
    let canary = Load::start(Plan { rate: 1000, connections: 10, ..Plan::new(target, "/") }).await;
    for i in 0..=CHANGES {
        let weights = if i % 2 == 0 { [90, 10] } else { [10, 90] };
        let share = f64::from(weights[1]) / 100.0;
        weigh(weights);
        let (mut last, mut found) = ((a.requests(), b.requests()), 0.0);
        e2e::wait_until("the distribution", async || {
            canary.answers(REQUESTS).await;
            let now = (a.requests(), b.requests());
            let to_b = (now.1 - last.1) as f64;
            found = to_b / (to_b + (now.0 - last.0) as f64);
            last = now;
            (found - share).abs() < 0.05
        })
        .await;
        println!("    weights {weights:?}, {mode:?}: {:.1} % to the second backend", found * 100.0);
    }
    assert_undisturbed(&format!("{CHANGES} changes of weights, {mode:?}"), canary).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn weights_change_delta() {
    weights(Mode::Delta).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn weights_change_sotw() {
    weights(Mode::Sotw).await;
}

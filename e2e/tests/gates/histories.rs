//! Histories of many changes on a real Envoy under load: moves to clusters that are fast, slow, or rejected, rejected routes,
//! changed clusters, and kills of the controller. No request may fail, and the last change must be served.
//!
//! Each history follows from its seed, which is printed.

use std::fmt::Write as _;
use std::time::Duration;

use e2e::load::Plan;
use e2e::{Fetch, Load, Lockgate, wait_until};
use serde_json::{Value, json};

use super::world::{Form, World, all_answered};

/// The number of steps of a history.
const STEPS: usize = 14;
const WARM_UP: Duration = Duration::from_millis(1500);

/// A cluster as it is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Fast,
    Slow,
    Bad,
}

/// A step of a history.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// The route moves to a new cluster, and the cluster that it leaves is removed.
    Move(Kind),
    /// The route moves to a new cluster in routes that Envoy rejects.
    MoveByBrokenRoutes,
    /// The settings of the cluster change.
    Change,
    /// The controller is killed; the route moves while it is down; the controller starts again.
    KillAndMove(Kind),
    /// The controller is killed and starts again.
    Kill,
    /// The load receives this many answers.
    Pause(u64),
}

/// A random number generator: xorshift64.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }

    fn kind(&mut self) -> Kind {
        [Kind::Fast, Kind::Slow, Kind::Bad][self.below(3) as usize]
    }

    fn step(&mut self) -> Step {
        match self.below(12) {
            0..5 => Step::Move(self.kind()),
            5 => Step::MoveByBrokenRoutes,
            6 => Step::Change,
            7 => Step::KillAndMove(self.kind()),
            8 => Step::Kill,
            _ => Step::Pause([20, 200, 1000, 2500][self.below(4) as usize]),
        }
    }
}

/// The state of a history.
struct History {
    world: World,
    lockgate: Lockgate,
    /// The number of clusters so far. The route uses the last one.
    clusters: usize,
    kind: Kind,
    changes: usize,
    broken: bool,
    log: String,
}

impl History {
    fn name(&self) -> String {
        format!("c{}", self.clusters)
    }

    fn cluster(&self) -> [Value; 2] {
        let name = self.name();
        let [mut cluster, endpoints] = match self.kind {
            Kind::Fast => self.world.cluster(&name),
            Kind::Slow => self.world.slow(&name, WARM_UP),
            Kind::Bad => self.world.bad(&name),
        };
        if self.changes > 0 {
            cluster["connect_timeout"] = json!(format!("{}s", self.changes + 1));
        }
        [cluster, endpoints]
    }

    fn publish(&self) {
        let clusters = [self.cluster()];
        match self.broken {
            false => self.world.publish(&self.name(), &clusters),
            true => self.world.publish_broken_routes(&self.name(), &clusters),
        }
    }

    fn advance(&mut self, kind: Kind, broken: bool) {
        self.clusters += 1;
        (self.kind, self.broken, self.changes) = (kind, broken, 0);
        self.publish();
    }

    async fn take(&mut self, step: Step, load: &Load) {
        let _ = write!(self.log, " {step:?}");
        match step {
            Step::Move(kind) => self.advance(kind, false),
            Step::MoveByBrokenRoutes => self.advance(Kind::Fast, true),
            Step::Change => {
                self.changes += 1;
                self.publish();
            }
            Step::KillAndMove(kind) => {
                self.lockgate.kill();
                load.answers(50).await;
                self.advance(kind, false);
                self.restart().await;
            }
            Step::Kill => {
                self.lockgate.kill();
                load.answers(50).await;
                self.restart().await;
            }
            Step::Pause(answers) => load.answers(answers).await,
        }
    }

    async fn restart(&mut self) {
        self.lockgate.restart();
        self.lockgate.wait_ready().await;
    }
}

/// Performs these steps. Then the route moves to a last cluster.
async fn history(fetch: Fetch, form: Form, what: &str, steps: impl IntoIterator<Item = Step>) {
    let world = World::of(fetch, form).await;
    let lockgate = world.controller().await;
    let envoy = world.envoy(&lockgate).await;
    let load = Load::start(Plan::new(world.target(), "/")).await;
    let (kind, log) = (Kind::Fast, String::new());
    let mut history = History { world, lockgate, clusters: 0, kind, changes: 0, broken: false, log };
    for step in steps {
        history.take(step, &load).await;
    }
    history.take(Step::Move(Kind::Slow), &load).await;
    let last = history.name();
    wait_until(&format!("a route to {last} after{}", history.log), async || {
        envoy.get("/config_dump?resource=dynamic_route_configs").await.text().contains(&format!("\"{last}\""))
            && envoy.stat("cluster_manager.warming_clusters").await == 0
    })
    .await;
    load.answers(1000).await;
    let report = load.stop().await;
    if report.failed() > 0 {
        println!("{}", history.lockgate.log());
    }
    all_answered(&report, &format!("{what}:{}", history.log), &history.world);
}

async fn random(fetch: Fetch, form: Form, seeds: &[u64]) {
    let given = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok());
    for seed in given.map_or_else(|| seeds.to_vec(), |seed| vec![seed]) {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        random.below(1);
        let steps: Vec<Step> = (0..STEPS).map(|_| random.step()).collect();
        history(fetch, form, &format!("seed {seed}"), steps).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn random_histories_of_routes_delta() {
    random(Fetch::AdsDelta, Form::Rds, &[1, 2]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn random_histories_of_virtual_hosts() {
    random(Fetch::AdsDelta, Form::Vhds, &[5, 6]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn random_histories_of_scopes_delta() {
    random(Fetch::AdsDelta, Form::Srds, &[7, 8]).await;
}

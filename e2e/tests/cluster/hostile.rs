//! A victim under load while a tenant, a pod, and a client of the xDS port attack it, one attack after the other. The
//! victim loses no request, and its changes are still served. The tenant finds the reason of each refusal on its own
//! objects.
//!
//! `tests/isolation/` tests each attack separately, including limits and settings. This spec runs all attacks against
//! one installation of the chart, with the permissions of a tenant. Then it restarts Envoys and controllers with all
//! objects of the attackers.

mod gateway;
mod objects;
mod tenant;
mod victim;
mod wire;

use std::future::Future;
use std::time::{Duration, Instant};

use e2e::Lab;

use tenant::{Leaving, Tenant};
use victim::{HOSTS, Host, INHERITED, Loads, RELEASE, SHARED, Victim};

/// The time limit for serving a change of the victim at every Envoy, on a busy machine.
const PROMPT: Duration = Duration::from_secs(15);

/// An installation under attack.
struct Siege<'a> {
    victim: &'a Victim<'a>,
    /// The hosts that the victim serves.
    hosts: Vec<Host>,
    loads: Loads,
}

impl Siege<'_> {
    /// Runs an attack, and asserts that the victim is not affected: every request is answered correctly, and a new host
    /// with a new certificate is served. The result of the attack, such as open connections, is kept until then.
    async fn withstand<T>(&mut self, attack: &str, run: impl Future<Output = T>) -> T {
        println!("{attack}:");
        let start = Instant::now();
        let held = run.await;
        let attacked = start.elapsed();
        let change = self.victim.change().await;
        self.victim.assert_served(&self.hosts).await;
        let seconds = [attacked, change].map(|time| time.as_secs_f64());
        println!("    attack {:.1} s; a new host of the victim is served after {:.1} s", seconds[0], seconds[1]);
        // The next load starts before this one ends, so the victim is always under load.
        let next = self.victim.load(&self.hosts).await;
        std::mem::replace(&mut self.loads, next).assert_answered(attack).await;
        assert!(change < PROMPT, "{attack}: a change took {change:?}");
        held
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_victim_under_load_notices_no_attack() {
    let start = Instant::now();
    let lab = Lab::alone().await;
    let leaving = Leaving::new(&lab).await;
    let tenant = Tenant::new(&lab).await;
    let victim = Victim::new(&lab).await;
    let hosts = [&HOSTS[..], &[SHARED]].concat();
    let loads = victim.load(&hosts).await;
    let mut siege = Siege { victim: &victim, hosts, loads };

    siege.withstand("no attack", async {}).await;
    siege.withstand("objects that are not UTF-8", objects::undecodable(&tenant)).await;
    siege.withstand("key pairs that Envoy rejects", objects::key_pairs(&tenant)).await;
    siege.withstand("hosts, paths, and certificates of the victim", objects::takeovers(&tenant)).await;
    siege.withstand("an older Ingress that is edited", objects::older(&tenant)).await;
    siege.withstand("a namespace that terminates", leaving.terminate(&victim)).await;
    siege.hosts.push(INHERITED);
    siege.withstand("Services that lead inward", objects::internal_targets(&tenant, &victim)).await;
    siege.withstand("backends that lead to the Envoys", objects::loops(&tenant, &victim)).await;
    siege.withstand("routes that change where a message ends", gateway::framing(&tenant, &victim)).await;
    siege.withstand("expensive tokens and large bodies", gateway::costs(&tenant, &victim)).await;
    siege.withstand("edits that would restart a limit", gateway::edits(&tenant, &victim)).await;
    siege.withstand("hosts and bodies that evade a check", wire::evasions(&victim)).await;
    siege.withstand("requests to the port for statistics", wire::statistics(&victim)).await;
    siege.withstand("headers and escaped slashes", wire::requests(&victim)).await;
    siege.withstand("regular expressions", objects::regexes(&tenant, &victim)).await;
    siege.withstand("debug pages", wire::debug_pages(&victim)).await;
    siege.withstand("a certificate without a role", wire::without_role(&victim)).await;
    let held = siege.withstand("connections that stall", wire::stalled(&victim)).await;
    siege.withstand("objects with thousands of problems", objects::floods(&tenant, &victim)).await;
    victim.assert_nothing_rejected().await;
    victim.assert_nothing_restarted().await;

    // An Envoy and a controller start with all objects of the attackers.
    let controllers = format!("deployment/{}", victim.lockgate.name());
    let envoys = format!("{controllers}-envoy");
    siege.withstand("a new Envoy", victim.kubectl(&["scale", &envoys, "--replicas=3"])).await;
    siege.withstand("new controllers", victim.kubectl(&["rollout", "restart", &controllers])).await;
    siege.withstand("a new Envoy of new controllers", victim.kubectl(&["scale", &envoys, "--replicas=4"])).await;
    drop(held);
    victim.assert_nothing_rejected().await;
    victim.assert_not_warned().await;
    siege.loads.assert_answered("the end").await;
    println!("all in {:.0} s", start.elapsed().as_secs_f64());

    leaving.release().await;
    lab.helm(&["uninstall", RELEASE, "--namespace", RELEASE, "--wait"]).await;
    lab.kubectl(&["delete", "namespace", RELEASE, "--wait=false"], "").await;
}

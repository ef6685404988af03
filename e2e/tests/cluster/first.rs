//! The first request.

use std::time::Instant;

use e2e::Lab;
use e2e::lab::echo;

/// Formats an Ingress for a host with the path `/` to port `http` of a Service.
pub fn ingress(name: &str, host: &str, service: &str) -> String {
    format!(
        "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {{ name: {name} }}\nspec:\n  ingressClassName: lockgate\n  \
         rules:\n    - host: {host}\n      http:\n        paths: [{{ path: /, pathType: Prefix, backend: {{ service: {{ name: \
         {service}, port: {{ name: http }} }} }} }}]\n"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ingress_is_served_at_the_load_balancers_address() {
    let lab = Lab::shared().await;
    let start = Instant::now();
    let lockgate = lab.lockgate().await;
    println!("Lockgate and Envoy are ready after {:.1} s", start.elapsed().as_secs_f64());
    let shop = lab.namespace("first").await;
    shop.apply(&echo("echo").yaml()).await;
    shop.endpoints("echo", 1).await;
    let start = Instant::now();
    shop.apply(&ingress("echo", "first.test", "echo")).await;
    let target = lockgate.http("first.test");
    let ok = async || target.get("/").await.ok().filter(|answer| answer.status == 200);
    let (answer, _) = lab.until("the first 200", ok).await;
    println!("first 200 after the Ingress: {:.0} ms", start.elapsed().as_secs_f64() * 1000.0);
    let echoed = e2e::lab::echo::Echoed::of(&answer).expect("an echo server's answer");
    assert_eq!(echoed.service, "echo");
    assert_eq!(echoed.pod, shop.pods("app=echo").await[0].name);
}

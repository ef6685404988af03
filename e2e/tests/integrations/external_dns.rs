//! external-dns with its provider in memory, which logs each change of a record.

use std::net::IpAddr;

use e2e::lab::echo;
use e2e::{Lab, Target};

use super::{Page, lockgate};

/// The flags that the lab needs: records in memory, and changes at once.
const FLAGS: [&str; 4] = [
    "--set=provider.name=inmemory",
    "--set=registry=noop",
    "--set=triggerLoopOnEvent=true",
    "--set=extraArgs={--inmemory-zone=example.com,--min-event-sync-interval=1s}",
];
const NAMESPACE: &str = "external-dns";

/// Installs external-dns with the values of the page.
async fn install(lab: &Lab, page: &Page) {
    lab.apply(&format!("apiVersion: v1\nkind: Namespace\nmetadata: {{ name: {NAMESPACE} }}\n")).await;
    let (chart, values) =
        (e2e::lab::program("external-dns-chart").display().to_string(), page.values("helm install external-dns "));
    let mut args = vec!["upgrade", "--install", "external-dns", &chart, "--namespace", NAMESPACE, "--wait"];
    args.extend(values.iter().map(String::as_str).chain(FLAGS));
    lab.helm(&args).await;
}

/// Returns the changes of a host so far: `CREATE 10.245.0.1`.
async fn changes(lab: &Lab, host: &str) -> Vec<String> {
    let pod = lab.pods(NAMESPACE, "app.kubernetes.io/name=external-dns").await.pop().expect("a pod");
    let log = lab.logs(NAMESPACE, &pod.name, "external-dns").await;
    // For example `CREATE: dns.example.com 0 IN A  10.245.0.1 []`.
    let change = |line: &str| {
        let (before, record) = line.split_once(&format!(": {host} "))?;
        let action = before.rsplit(['"', ' ', '=']).next()?.to_owned();
        let target = record.split_once(" IN A ")?.1.split_whitespace().next()?.to_owned();
        Some(format!("{action} {target}"))
    };
    log.lines().filter_map(change).collect()
}

/// Waits until the changes of a host are these.
async fn has_changed(lab: &Lab, host: &str, expected: &[String]) {
    let mut last = Vec::new();
    let same = async || {
        last = changes(lab, host).await;
        (last == expected).then_some(())
    };
    if tokio::time::timeout(e2e::PATIENCE, lab.until(host, same)).await.is_err() {
        panic!("{host}: {last:?} instead of {expected:?}");
    }
}

/// Waits for the record of a host. Clients that follow the record at once are served by the host.
async fn is_created(lab: &Lab, host: &str, address: IpAddr) {
    has_changed(lab, host, &[format!("CREATE {address}")]).await;
    let answer = Target::http(80, host).at(address).get("/").await.expect("an answer");
    assert_eq!(answer.status, 200, "{host}: {}", answer.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn records_follow_the_status_of_ingresses_and_gateways() {
    let lab = Lab::alone().await;
    let lockgate = lockgate(&lab).await;
    let page = Page::read("docs/tasks/external-dns.md");
    install(&lab, &page).await;
    let space = lab.namespace("dns").await;
    space.apply(&echo("web").port(80).yaml()).await;
    space.endpoints("web", 1).await;

    // The namespaces of other specs may still have the host of the page.
    let gateway = page.block("kind: Gateway\n").replace("shop.example.com", "route.example.com");
    let ingress = page.block("kind: Ingress\n");
    // Two Ingresses: the first one moves to another class, and the second one is deleted.
    let second = ingress.replace("name: dns", "name: second").replace("dns.example.com", "second.example.com");
    space.apply(&format!("{ingress}---\n{second}---\n{gateway}")).await;
    is_created(&lab, "dns.example.com", lockgate.address).await;
    is_created(&lab, "second.example.com", lockgate.address).await;
    let own = lab.address(&space.name, "public-lockgate").await;
    assert_ne!(own, lockgate.address);
    is_created(&lab, "route.example.com", own).await;

    let class = r#"{"spec": {"ingressClassName": "another"}}"#;
    space.kubectl(&["patch", "ingress", "dns", "--type=merge", "--patch", class], "").await;
    space.kubectl(&["delete", "ingress", "second"], "").await;
    space.kubectl(&["delete", "httproute", "shop"], "").await;
    let shared = lockgate.address;
    for (host, address) in [("dns.example.com", shared), ("second.example.com", shared), ("route.example.com", own)] {
        has_changed(&lab, host, &[format!("CREATE {address}"), format!("DELETE {address}")]).await;
    }
}

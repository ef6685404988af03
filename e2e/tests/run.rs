//! `make run`: one command starts all programs, and Ctrl-C stops them.

use std::path::Path;

use e2e::process::{Process, repository};
use e2e::{Target, lockgate, ports, wait_until};

/// Starts the script of `make run` with separate ports. The ports of the backends are those in
/// `examples/services.yaml`.
fn start(http: u16, https: u16, log: &Path) -> Process {
    // Programs in the background ignore Ctrl-C, and a shell cannot revert that.
    let mut args = vec!["--default-signal=INT".to_owned(), format!("HTTP={http}"), format!("HTTPS={https}")];
    args.extend(["XDS", "ADMIN", "STATS", "ENVOY_ADMIN"].map(|name| format!("{name}={}", ports::free())));
    // Cargo would rebuild inside of a test, because the environment variables differ.
    args.push(format!("LOCKGATE={}", lockgate::binary().display()));
    args.push(repository().join("scripts/run.sh").display().to_string());
    Process::start("run.sh", Path::new("env"), &args, log)
}

#[tokio::test(flavor = "multi_thread")]
async fn it_serves_and_leaves_nothing_behind() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (http, https) = (ports::free(), ports::free());
    let mut run = start(http, https, &directory.path().join("log"));
    wait_until("the text that says what to try", async || {
        run.assert_running();
        run.log().contains("Ctrl-C ends everything")
    })
    .await;
    assert_eq!(Target::http(http, "shop.localhost").backend("/").await.as_deref(), Some("shop"));
    assert_eq!(Target::http(http, "shop.localhost").backend("/cart").await.as_deref(), Some("cart"));
    assert_eq!(Target::http(http, "localhost").backend("/").await.as_deref(), Some("welcome"));
    for step in 1..=4 {
        assert!(run.log().contains(&format!("] {step}/4 ")), "step {step} is not shown: {}", run.log());
    }
    // The log of the controller is in the same directory.
    wait_until("the controller's log", async || run.log().contains("INFO")).await;

    // A second run reports the port in use.
    let mut second = start(http, https, &directory.path().join("second"));
    assert!(!second.ended().await.success());
    assert!(second.log().contains(&format!("port {http} is in use")), "{}", second.log());

    run.signal("INT");
    let status = run.ended().await;
    assert!(status.success(), "{status}: {}", run.tail());
    for port in [http, https, 9101] {
        assert!(Target::http(port, "localhost").connect().await.is_err(), "something still listens on port {port}");
    }
}

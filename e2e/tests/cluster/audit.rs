//! Checks the audit log of the API server. `scripts/e2e.sh` runs this spec after all others.

use e2e::Lab;

/// During all specs, Lockgate has sent no request that it has no permission for.
#[tokio::test(flavor = "multi_thread")]
async fn the_controller_was_never_refused() {
    let lab = Lab::alone().await;
    let served = lab.requests().iter().filter(|request| request.is_from_lockgate() && request.status == 200).count();
    assert!(served > 0, "the controller has asked for nothing at all");
    let refused: Vec<String> = lab.refused().iter().map(ToString::to_string).collect();
    println!("{served} requests of the controllers served, {} refused", refused.len());
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}

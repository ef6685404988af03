//! Run by `scripts/e2e.sh` after all other specs.

use e2e::Lab;
use e2e::lab::audit::Request;

/// Whatever Lockgate did in all the specs, it asked for nothing that it may not do.
#[tokio::test(flavor = "multi_thread")]
async fn the_controller_was_never_refused() {
    let lab = Lab::alone().await;
    let own = |request: &Request| request.user.contains(":lockgate");
    let served = lab.requests().into_iter().filter(|request| own(request) && request.status == 200).count();
    assert!(served > 0, "the controller has asked for nothing at all");
    let refused: Vec<String> = lab.refused().iter().filter(|request| own(request)).map(ToString::to_string).collect();
    println!("{served} requests of the controllers served, {} refused", refused.len());
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}

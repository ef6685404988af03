//! Channels within the process.

use tokio::sync::watch;

/// Sends `now` if it differs from the current value. Returns whether it differs.
pub fn send_if_changed<T: PartialEq>(sender: &watch::Sender<T>, now: T) -> bool {
    sender.send_if_modified(|current| {
        let changed = *current != now;
        *current = now;
        changed
    })
}

/// Waits for a change, or forever if the sender is gone.
pub async fn changed<T>(receiver: &mut watch::Receiver<T>) {
    if receiver.changed().await.is_err() {
        std::future::pending().await
    }
}

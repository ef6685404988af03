//! A load balancer for TCP connections. Like kube-proxy, it chooses the target when a connection is opened.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// A port that forwards to others, in turn.
pub struct Relay {
    /// The port.
    pub port: u16,
    targets: Arc<Mutex<Vec<SocketAddr>>>,
    released: watch::Sender<bool>,
    cuts: watch::Sender<()>,
    task: JoinHandle<()>,
}

impl Relay {
    /// Starts a relay to these local ports.
    pub async fn start(targets: &[u16]) -> Self {
        Self::start_until(targets, b"").await
    }

    /// Starts a relay that holds the responses of a server from `marker` on, until [`Relay::release`].
    ///
    /// # Panics
    /// If no port is free.
    pub async fn start_until(targets: &[u16], marker: &'static [u8]) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port for a relay");
        let port = listener.local_addr().expect("the address of a relay").port();
        let targets = Arc::new(Mutex::new(local(targets)));
        let (released, hold) = watch::channel(marker.is_empty());
        let cuts = watch::Sender::default();
        let task = tokio::spawn(accept(listener, targets.clone(), marker, hold, cuts.subscribe()));
        Self { port, targets, released, cuts, task }
    }

    /// Sets the targets of new connections. Open connections stay.
    pub fn set_targets(&self, targets: &[u16]) {
        self.set_remote_targets(local(targets));
    }

    /// Sets targets on other machines.
    pub fn set_remote_targets(&self, targets: Vec<SocketAddr>) {
        *self.targets.lock().unwrap() = targets;
    }

    /// Closes all open connections.
    pub fn cut(&self) {
        self.cuts.send_replace(());
    }

    /// Forwards all data, including held responses.
    pub fn release(&self) {
        self.released.send_replace(true);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn local(ports: &[u16]) -> Vec<SocketAddr> {
    ports.iter().map(|port| (Ipv4Addr::LOCALHOST, *port).into()).collect()
}

async fn accept(
    listener: TcpListener,
    targets: Arc<Mutex<Vec<SocketAddr>>>,
    marker: &'static [u8],
    released: watch::Receiver<bool>,
    cuts: watch::Receiver<()>,
) {
    let mut connections = JoinSet::new();
    for turn in 0.. {
        let Ok((client, _)) = listener.accept().await else { continue };
        let target = {
            let targets = targets.lock().unwrap();
            targets.get(turn % targets.len().max(1)).copied()
        };
        let (released, mut cuts) = (released.clone(), cuts.clone());
        cuts.mark_unchanged();
        connections.spawn(async move {
            // Without a reachable target, the connection of the client is closed.
            let Some(target) = target else { return };
            let Ok(server) = TcpStream::connect(target).await else { return };
            let _ = (client.set_nodelay(true), server.set_nodelay(true), server.set_zero_linger());
            let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
            // A reset is forwarded to the other side.
            let both = async {
                tokio::try_join!(
                    forward(from_client, to_server, b"", released.clone()),
                    forward(from_server, to_client, marker, released)
                )
            };
            tokio::select! {
                _ = both => {}
                _ = cuts.changed() => {}
            }
        });
        while connections.try_join_next().is_some() {}
    }
}

/// Forwards the data of one side, and its end.
async fn forward(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    marker: &[u8],
    mut released: watch::Receiver<bool>,
) -> std::io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let length = from.read(&mut buffer).await?;
        if length == 0 {
            return to.shutdown().await;
        }
        let data = &buffer[..length];
        if !marker.is_empty() && data.windows(marker.len()).any(|part| part == marker) {
            let _ = released.wait_for(|released| *released).await;
        }
        to.write_all(data).await?;
    }
}

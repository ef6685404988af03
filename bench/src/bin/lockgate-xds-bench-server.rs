//! The server under test: the library's store and xDS server, without anything Kubernetes, driven by a control
//! connection. Prints both addresses and ends with that connection.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;

use anyhow::Context;
use bench::control::{self, Command, Usage};
use bench::resources::{self, Kind};
use lockgate_xds::server::{self, Access, Stores};
use lockgate_xds::snapshot::{Resource, ResourceType, Store, Update};
use tokio::sync::watch;

fn main() -> anyhow::Result<()> {
    let store = Arc::new(Store::default());
    let runtime = tokio::runtime::Runtime::new().context("cannot start a runtime")?;
    let (_stop, stopping) = watch::channel(false);
    let service = Arc::new(server::Service::new(Stores::one(store.clone()), stopping));
    let listener = runtime.block_on(server::listen((Ipv4Addr::LOCALHOST, 0).into()))?;
    let xds_address = listener.local_addr()?;
    let control = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    println!("{xds_address} {}", control.local_addr()?);
    runtime.spawn(async move {
        if let Err(error) = server::serve(listener, Access::PlainFromLoopback, service).await {
            eprintln!("the xDS server ended: {error}");
        }
    });
    let (connection, _) = control.accept()?;
    let mut driver = Driver { store, markers: [Vec::new(), Vec::new()] };
    control::serve(connection, |commands| driver.act(commands))
}

struct Driver {
    store: Arc<Store>,
    /// The marker of every resource, by type.
    markers: [Vec<u64>; 2],
}

impl Driver {
    fn act(&mut self, commands: &[Command]) -> anyhow::Result<String> {
        let mut update = Update::default();
        for command in commands {
            match *command {
                Command::Set(kind, first, count, marker) => {
                    let markers = &mut self.markers[kind as usize];
                    markers.resize(markers.len().max(first + count), 0);
                    markers[first..first + count].fill(marker);
                    update.set.extend((first..first + count).map(|index| resource(kind, index, marker)));
                }
                Command::Noop(kind, times) => {
                    let marker = self.markers[kind as usize].first().copied().unwrap_or_default();
                    for _ in 0..times {
                        let same = vec![resource(kind, 0, marker)];
                        self.store.update(Update { set: same, ..Update::default() });
                    }
                }
                Command::Remove(kind, first, count) => {
                    let names =
                        (first..first + count).map(|index| (resource_type(kind), resources::name(index).into()));
                    update.remove.extend(names);
                }
                Command::Stats => return Ok(Usage::own()?.to_string()),
                Command::Settle => {}
            }
        }
        if !update.set.is_empty() || !update.remove.is_empty() {
            self.store.update(update);
        }
        Ok(String::new())
    }
}

fn resource_type(kind: Kind) -> ResourceType {
    match kind {
        Kind::Eds => ResourceType::ENDPOINTS,
        Kind::Cds => ResourceType::CLUSTER,
    }
}

fn resource(kind: Kind, index: usize, marker: u64) -> Resource {
    let name = resources::name(index);
    match kind {
        Kind::Eds => Resource::new(&name, &resources::load_assignment(index, marker), Vec::new()),
        Kind::Cds => Resource::new(&name, &resources::cluster(index, marker), Vec::new()),
    }
}

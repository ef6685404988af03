//! The selection of endpoints for connections, by the address of the client.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};

use e2e::manifests::{documents, gateway};
use e2e::server::ANY_PORT;
use e2e::{Envoy, Lockgate, Manifests, Mode, Source, ports, wait_everywhere, wait_until};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket};

use super::site::policy;

/// Endpoints of the Service.
const ENDPOINTS: u8 = 4;
/// Clients, each with an address of its own.
const CLIENTS: u8 = 12;

/// Returns the address of a client.
fn client(number: u8) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::new(127, 0, 1, number), 0))
}

/// Returns the endpoint that serves a connection of a client.
async fn connection(number: u8, port: u16) -> Option<u8> {
    let socket = TcpSocket::new_v4().ok()?;
    socket.bind(client(number)).ok()?;
    let mut stream = socket.connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await.ok()?;
    stream.read_u8().await.ok()
}

/// Starts an endpoint that sends its number to each connection, and returns its port.
async fn endpoint(number: u8) -> u16 {
    let listener = TcpListener::bind(ANY_PORT).await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.write_u8(number).await;
        }
    });
    port
}

/// Formats the Gateway with this port, the route, and the Service.
fn objects(port: u16) -> String {
    format!(
        "{}---
apiVersion: gateway.networking.k8s.io/v1
kind: TCPRoute
metadata: {{ name: shop, namespace: default }}
spec:
  parentRefs: [{{ name: public }}]
  rules: [{{ backendRefs: [{{ name: shop, port: 80 }}] }}]
---
apiVersion: v1
kind: Service
metadata: {{ name: shop, namespace: default }}
spec: {{ ports: [{{ name: tcp, port: 80 }}] }}
",
        gateway(port, "TCP")
    )
}

/// Formats the EndpointSlice of an endpoint.
fn slice(number: u8, port: u16) -> String {
    format!(
        "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {{ name: shop-{number}, namespace: default, labels: {{ \
         kubernetes.io/service-name: shop }} }}\naddressType: IPv4\nports: [{{ name: tcp, port: {port} }}]\n\
         endpoints: [{{ addresses: [127.0.0.1] }}]\n"
    )
}

/// Returns the endpoints that serve several connections of a client.
async fn endpoints(number: u8, port: u16) -> BTreeSet<u8> {
    let mut found = BTreeSet::new();
    for _ in 0..8 {
        found.extend(connection(number, port).await);
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_of_one_address_lead_to_one_endpoint() {
    let (manifests, port) = (Manifests::new(), ports::free());
    let mut all = vec![objects(port)];
    for number in 0..ENDPOINTS {
        all.push(slice(number, endpoint(number).await));
    }
    manifests.write("base.yaml", &documents(&all));
    let lockgate = Lockgate::start(&Source::Manifests(manifests.path().into()), &[]).await;
    let _envoy = Envoy::start(&lockgate, Mode::Delta).await;
    wait_until("endpoints by turns", async || endpoints(0, port).await.len() > 1).await;

    for algorithm in ["RingHash", "Maglev"] {
        let hash = format!("loadBalancing: {{ algorithm: {algorithm}, hashOn: [{{ type: SourceAddress }}] }}");
        manifests.write("policy.yaml", &policy(&hash));
        wait_everywhere("the same endpoint", async || endpoints(0, port).await.len() == 1).await;
        let mut all = BTreeSet::new();
        for number in 0..CLIENTS {
            let found = endpoints(number, port).await;
            assert_eq!(found.len(), 1, "{algorithm}, {number}: {found:?}");
            all.extend(found);
        }
        assert!(all.len() > 1, "{algorithm}: {all:?}");
        manifests.remove("policy.yaml");
        wait_until("endpoints by turns again", async || endpoints(0, port).await.len() > 1).await;
    }
}

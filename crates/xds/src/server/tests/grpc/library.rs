//! The features of custom servers: hooks, and groups of nodes.

use std::sync::Mutex;

use envoy_types::pb::envoy::config::core::v3 as core_v3;
use envoy_types::pb::google::protobuf::{Struct, Value, value};

use super::*;
use crate::protocol::{Node, Notice, RejectionScope, Request, Response};
use crate::server::{Observer, Service, Stores, StreamInfo, listen, serve};
use crate::snapshot::{Groups, ResourceType};

/// Records every call of a hook.
#[derive(Default)]
struct Diary {
    lines: Mutex<Vec<String>>,
    closed: tokio::sync::watch::Sender<usize>,
}

impl Diary {
    fn write(&self, stream: &StreamInfo, line: String) {
        self.lines.lock().unwrap().push(format!("{} {line}", stream.id));
    }
}

impl Observer for Diary {
    fn opened(&self, stream: &StreamInfo) {
        self.write(stream, format!("opened {}", stream.variant.as_str()));
    }

    fn introduced(&self, stream: &StreamInfo, node: &Node) {
        self.write(stream, format!("introduced {}", node.id));
    }

    fn received(&self, stream: &StreamInfo, node: &Node, request: &Request) {
        let kind = ResourceType::of_url(&request.type_url).unwrap().short_name();
        let Request { subscribe, nonce, error, .. } = request;
        self.write(stream, format!("received {} {kind} {subscribe:?} {nonce:?} {error:?}", node.id));
    }

    fn sent(&self, stream: &StreamInfo, node: &Node, response: &Response, bytes: usize) {
        assert!(bytes > 0);
        let names: Vec<_> = response.resources.iter().map(|resource| &**resource.name()).collect();
        self.write(stream, format!("sent {} {names:?} {:?}", node.id, response.nonce));
    }

    fn noticed(&self, stream: &StreamInfo, node: &Node, notice: &Notice) {
        let what = match notice {
            Notice::Acked { nonce, .. } => format!("ACK {nonce:?}"),
            Notice::Rejected(rejection) => match &rejection.scope {
                RejectionScope::Response { nonce, .. } => format!("NACK {nonce:?} {}", rejection.message),
                RejectionScope::Resource { .. } => format!("without {}", rejection.suspects[0].name()),
            },
            Notice::Unanswered { nonce, .. } => format!("silence {nonce:?}"),
            Notice::OldError { nonce, .. } => format!("old error {nonce:?}"),
            Notice::Recovered { name, .. } => format!("with {name} again"),
        };
        self.write(stream, format!("{} {what}", node.id));
    }

    fn closed(&self, stream: &StreamInfo, node: Option<&Node>, reason: &str) {
        self.write(stream, format!("closed {} {reason}", node.map_or("", |node| &node.id)));
        self.closed.send_modify(|closed| *closed += 1);
    }
}

/// A custom server.
struct Mine {
    address: std::net::SocketAddr,
    diary: Arc<Diary>,
    _stop: tokio::sync::watch::Sender<bool>,
}

impl Mine {
    async fn start(stores: Stores) -> Self {
        let listener = listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopping) = tokio::sync::watch::channel(false);
        let diary = Arc::new(Diary::default());
        let service = Service::new(stores, stopping).with_observer(diary.clone());
        tokio::spawn(serve(listener, Access::PlainFromLoopback, Arc::new(service)));
        Self { address, diary, _stop: stop }
    }

    fn channel(&self) -> tonic::transport::Channel {
        tonic::transport::Endpoint::from_shared(format!("http://{}", self.address)).unwrap().connect_lazy()
    }

    async fn delta(&self) -> Delta {
        Delta::open(&mut AdsClient::new(self.channel())).await.unwrap()
    }

    /// Opens a stream of a client in the node cluster `cluster` that has requested the resources of type `kind`.
    async fn asking(&self, cluster: &str, kind: ResourceType) -> Delta {
        let client = self.delta().await;
        client.send(of_cluster(cluster, differ(kind, &["*"]))).await;
        client
    }
}

fn of_cluster(cluster: &str, mut request: DeltaDiscoveryRequest) -> DeltaDiscoveryRequest {
    request.node = Some(core_v3::Node { id: "one".into(), cluster: cluster.into(), ..Default::default() });
    request
}

/// Returns the names of the resources in the next response, and sends the ACK.
async fn names(client: &mut Delta) -> Vec<String> {
    let response = client.next().await;
    client.ack(&response).await;
    response.resources.into_iter().map(|resource| resource.name).collect()
}

#[tokio::test]
async fn hooks_are_called_in_the_order_of_events() {
    let store = Arc::new(Store::default());
    let server = Mine::start(Stores::one(store.clone())).await;
    let mut client = server.delta().await;
    client.send(differ(CLUSTER, &["a"])).await;
    store.replace(vec![cluster("a")]);
    let first = client.next().await;
    client.ack(&first).await;
    store.update(Update::setting(vec![cluster_at("a", 1)]));
    let second = client.next().await;
    client.nack(&second, "too short").await;
    client.requests = None;
    client.end().await.unwrap();

    // A request without a stream: request and response have the same ID.
    let mut unary =
        service_v3::cluster::v3::cluster_discovery_service_client::ClusterDiscoveryServiceClient::new(server.channel());
    soon(unary.fetch_clusters(ask(CLUSTER, &["a"]))).await.unwrap();
    // Refused clients are observed too.
    let mut none = server.delta().await;
    none.send(DeltaDiscoveryRequest { node: None, ..differ(CLUSTER, &[]) }).await;
    none.end().await.unwrap_err();
    soon(server.diary.closed.subscribe().wait_for(|closed| *closed == 2)).await.unwrap();

    let (one, two) = (&first.nonce, &second.nonce);
    let expected = [
        "1 opened delta".to_owned(),
        "1 introduced one".to_owned(),
        r#"1 received one Cluster ["a"] "" None"#.to_owned(),
        format!(r#"1 sent one ["a"] "{one}""#),
        format!(r#"1 received one Cluster [] "{one}" None"#),
        format!(r#"1 one ACK "{one}""#),
        format!(r#"1 sent one ["a"] "{two}""#),
        format!(r#"1 received one Cluster [] "{two}" Some("too short")"#),
        format!(r#"1 one NACK "{two}" too short"#),
        "1 one without a".to_owned(),
        "1 closed one the client closed it".to_owned(),
        r#"2 received one Cluster ["a"] "" None"#.to_owned(),
        r#"2 sent one ["a"] "1""#.to_owned(),
        "3 opened delta".to_owned(),
        "3 closed  a request was refused".to_owned(),
    ];
    assert_eq!(server.diary.lines.lock().unwrap()[..], expected);
}

#[tokio::test]
async fn groups_of_nodes_are_served_differently() {
    let groups = Arc::new(Groups::default());
    let chosen = groups.clone();
    let server = Mine::start(Stores::by_node(move |node| chosen.store(&node.cluster))).await;
    groups.update("inner", Update::setting(vec![listener("in", "r")]));
    groups.update("outer", Update::setting(vec![listener("out", "r")]));
    let mut inner = server.asking("inner", LISTENER).await;
    let mut outer = server.asking("outer", LISTENER).await;
    assert_eq!((names(&mut inner).await, names(&mut outer).await), (vec!["in".to_owned()], vec!["out".to_owned()]));

    // Both groups receive common resources. Group-specific resources reach only their group.
    groups.update_common(Update::setting(vec![listener("both", "r")]));
    assert_eq!((names(&mut inner).await, names(&mut outer).await), (vec!["both".to_owned()], vec!["both".to_owned()]));
    groups.update("inner", Update::setting(vec![listener_at("both", "r", "its own")]));
    assert_eq!(names(&mut inner).await, ["both"]);
    assert!(outer.is_silent().await);
    groups.update_common(Update::setting(vec![listener_at("both", "r", "everybody's")]));
    assert_eq!(names(&mut outer).await, ["both"]);
    assert!(inner.is_silent().await, "its own covers the common one");
    groups.update::<Resource>("inner", Update::removing(vec![(LISTENER, "both".into())]));
    assert_eq!(names(&mut inner).await, ["both"], "the common one again");

    // A client without a group is refused until the group exists.
    let mut other = server.asking("other", LISTENER).await;
    let status = other.end().await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
    assert!(status.message().contains("\"other\""), "{status}");
    groups.update("other", Update::setting(vec![listener("else", "r")]));
    assert_eq!(names(&mut server.asking("other", LISTENER).await).await.len(), 2);

    // The group is removed: its clients reconnect and are refused.
    groups.remove("inner");
    inner.end().await.unwrap();
    assert_eq!(server.asking("inner", LISTENER).await.end().await.unwrap_err().code(), Code::NotFound);
    assert!(outer.is_silent().await);
}

#[tokio::test]
async fn groups_by_metadata_with_common_resources_for_others() {
    let groups = Arc::new(Groups::default());
    let chosen = groups.clone();
    let server = Mine::start(Stores::by_node(move |node| {
        let fleet = node.metadata.get("fleet").and_then(|fleet| fleet.as_str());
        Some(fleet.and_then(|fleet| chosen.store(fleet)).unwrap_or_else(|| chosen.common()))
    }))
    .await;
    let of_fleet = |fleet: &str| {
        let text = Value { kind: Some(value::Kind::StringValue(fleet.to_owned())) };
        let metadata = Struct { fields: [("fleet".to_owned(), text)].into() };
        let node = core_v3::Node { id: "one".into(), metadata: Some(metadata), ..Default::default() };
        DeltaDiscoveryRequest { node: Some(node), ..differ(CLUSTER, &["*"]) }
    };
    groups.update("canary", Update::setting(vec![cluster("new")]));
    // Without common resources, a client without a group waits.
    let (mut plain, mut canary) = (server.delta().await, server.delta().await);
    plain.send(of_fleet("unheard of")).await;
    canary.send(of_fleet("canary")).await;
    assert_eq!(names(&mut canary).await, ["new"]);
    assert!(plain.is_silent().await);
    groups.replace_common(vec![cluster("old")]);
    assert_eq!((names(&mut plain).await, names(&mut canary).await), (vec!["old".to_owned()], vec!["old".to_owned()]));
}

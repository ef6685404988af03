//! A12: the end of connections, and their maximum number.

use std::sync::atomic::Ordering;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tonic::Code;

use super::lab::*;
use super::raw::{Raw, STREAM, status_of};
use crate::protocol::tests::harness::*;
use crate::server::Limits;
use crate::snapshot::Update;

/// Limits that no test reaches.
fn limits() -> Limits {
    Limits { connection_age: None, ..Limits::default() }
}

#[tokio::test]
async fn a12_an_old_connection_closes_gracefully_and_the_client_reconnects() {
    let server = Server::within(Limits { connection_age: Some(ms(200)), ..limits() }, [endpoints("e")]).await;
    let mut client = AdsClient::new(server.channel());
    let mut versions = Default::default();
    for round in 0..3 {
        let mut stream = Delta::open(&mut client).await.unwrap();
        let mut request = differ(ENDPOINTS, &["e"]);
        request.initial_resource_versions = std::mem::take(&mut versions);
        stream.send(request).await;
        if round == 0 {
            let response = stream.next().await;
            versions.insert("e".to_owned(), response.resources[0].version.clone());
            stream.ack(&response).await;
        } else {
            versions.insert("e".to_owned(), server.resource(ENDPOINTS, "e").version().to_string());
            assert!(soon(stream.responses.message()).await.unwrap().is_none(), "nothing is sent again");
        }
        assert_eq!(stream.end().await.map_err(|status| status.code()), Ok(()), "it ends in good order");
        server.recorder.closed(round + 1).await;
    }
    let reasons = server.recorder.reasons.lock().unwrap().clone();
    assert!(reasons.iter().all(|reason| reason == "its connection is to be closed"), "{reasons:?}");
}

#[tokio::test]
async fn a12_a_client_that_stays_is_disconnected_after_the_grace_period() {
    let limits = Limits { connection_age: Some(ms(50)), grace: ms(100), ..limits() };
    let server = Server::within(limits, [endpoints("e")]).await;
    let mut client = Raw::connect(server.address).await;
    // A request whose body never arrives, so it does not end.
    client.open(1, "/v3/discovery:endpoints").await;
    assert_eq!(client.until_closed().await, Some(0), "it was told before");
}

#[tokio::test]
async fn a_silent_connection_is_closed() {
    let server =
        Server::within(Limits { first_request: ms(100), admission: ms(100), ..limits() }, [endpoints("e")]).await;
    for said in [&b""[..], b"PRI * HTTP/2.0\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"POST /v3/dis", b"\x16\x03\x01"]
    {
        let mut socket = TcpStream::connect(server.address).await.unwrap();
        socket.write_all(said).await.unwrap();
        let mut answer = Vec::new();
        // Closed gracefully or by a reset.
        let _ = soon(socket.read_to_end(&mut answer)).await;
    }
}

#[tokio::test]
async fn an_idle_connection_is_closed() {
    let server = Server::within(Limits { idle: ms(100), ..limits() }, [endpoints("e")]).await;
    let mut client = server.sotw().await;
    client.send(ask(ENDPOINTS, &["e"])).await;
    let response = client.next().await;
    client.ack(&response, &["e"]).await;
    let mut other = Raw::connect(server.address).await;
    other.open(1, "/nothing").await;
    assert_eq!(other.until_closed().await, Some(0));
    // A stream without changes for longer than the idle timeout counts as activity.
    server.store.update(Update { set: vec![endpoints_at("e", 1)], remove: Vec::new() });
    assert_eq!(client.next().await.resources.len(), 1);
}

#[tokio::test]
async fn one_address_cannot_use_all_connections() {
    let server = Server::within(Limits { connections: 4, ..limits() }, [endpoints("e")]).await;
    let _held = [server.delta().await, server.delta().await];
    let status = Sotw::open(&mut AdsClient::new(server.channel())).await.err().unwrap();
    let told = (status.code(), status.message());
    assert_eq!(told, (Code::ResourceExhausted, "too many connections from this address"));
    let other = TcpSocket::new_v4().unwrap();
    other.bind("127.0.0.2:0".parse().unwrap()).unwrap();
    let socket = other.connect(server.address).await.unwrap();
    let request = http::Request::post("/v3/discovery:endpoints").body(r#"{"resource_names": ["e"]}"#.to_owned());
    assert_eq!(exchange(socket, request.unwrap()).await.status(), 200);
}

#[tokio::test]
async fn streams_over_the_limit_get_a_reason() {
    let server = Server::within(Limits { streams: 2, ..limits() }, [endpoints("e")]).await;
    let mut client = AdsClient::new(server.channel());
    let first = Sotw::open(&mut client).await.unwrap();
    let mut second = Delta::open(&mut client).await.unwrap();
    let status = Sotw::open(&mut client).await.err().unwrap();
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    assert_eq!(status.message(), "too many streams are open on this server");
    assert_eq!(server.recorder.streams_refused.load(Ordering::SeqCst), 1);
    drop(first);
    server.recorder.closed(1).await;
    let third = async {
        loop {
            if let Ok(stream) = Sotw::open(&mut client).await {
                return stream;
            }
        }
    };
    let mut third = soon(third).await;
    third.send(ask(ENDPOINTS, &["e"])).await;
    assert_eq!(third.next().await.resources.len(), 1);
    second.send(differ(ENDPOINTS, &["e"])).await;
    assert_eq!(second.next().await.resources.len(), 1);
}

#[tokio::test]
async fn a_method_that_does_not_exist_is_unimplemented() {
    let server = Server::start([]).await;
    let status = status_of(server.address, "/envoy.service.discovery.v3.NoSuch/Method", Vec::new()).await;
    assert_eq!(status.code(), Code::Unimplemented, "{status:?}");
    assert_eq!(status.message(), "there is no /envoy.service.discovery.v3.NoSuch/Method");
}

/// The connection stays open, but the client neither reads nor writes.
#[tokio::test]
async fn a_client_that_disappears_is_detected() {
    let limits = Limits { keepalive: ms(50), keepalive_timeout: ms(100), ..limits() };
    let server = Server::within(limits, [endpoints("e")]).await;
    let mut client = Raw::connect(server.address).await;
    client.open(1, STREAM).await;
    client.send(1, &ask(ENDPOINTS, &["e"])).await;
    client.until(|client| client.streams.get(&1).is_some_and(|stream| !stream.data.is_empty())).await;
    server.recorder.closed(1).await;
    drop(client);
}

#[tokio::test]
async fn excess_streams_of_a_connection_are_refused_and_the_others_continue() {
    let server = Server::within(Limits { streams_per_connection: 2, ..limits() }, [endpoints("e")]).await;
    let mut client = Raw::connect(server.address).await;
    client.until(|client| client.max_concurrent_streams == Some(2)).await;
    for stream in [1, 3, 5, 7] {
        client.open(stream, STREAM).await;
    }
    const REFUSED_STREAM: Option<u32> = Some(7);
    let reset = |client: &Raw, stream| client.streams.get(&stream).and_then(|stream| stream.reset);
    client.until(|client| [5, 7].map(|stream| reset(client, stream)) == [REFUSED_STREAM; 2]).await;
    client.send(3, &ask(ENDPOINTS, &["e"])).await;
    client.until(|client| client.streams.get(&3).is_some_and(|stream| !stream.data.is_empty())).await;
    assert_eq!(reset(&client, 1), None);
}

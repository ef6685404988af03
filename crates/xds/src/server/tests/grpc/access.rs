//! A15: access control.

use std::path::Path;
use std::sync::Arc;

use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::{self, RootCertStore};
use tonic::Code;
use tonic::transport::{Channel, Endpoint, Uri};

use super::lab::*;
use crate::identity::{Pattern, Policy};
use crate::protocol::tests::harness::*;
use crate::server::serve::admit;
use crate::server::{Access, Limits, Refused, Secured, ServerError, Tls, tls_config, tls_config_of};
use crate::snapshot::Store;

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Authority {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// A certificate and its key, PEM.
fn issued(authority: &Authority, name: &str) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    (params.signed_by(&key, authority).unwrap().pem(), key.serialize_pem())
}

fn write_server_files(directory: &Path, authority: &Authority) {
    let (certificate, key) = issued(authority, "localhost");
    std::fs::write(directory.join("tls.crt"), certificate).unwrap();
    std::fs::write(directory.join("tls.key"), key).unwrap();
    std::fs::write(directory.join("ca.crt"), authority.pem()).unwrap();
}

/// Returns the configuration of a client that trusts `authority`, with or without a client certificate, and speaks
/// `protocol`.
fn connector(authority: &Authority, own: Option<(String, String)>, protocol: &str) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.pem().as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match own {
        None => config.with_no_client_auth(),
        Some((certificate, key)) => {
            let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
            config.with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap()).unwrap()
        }
    };
    config.alpn_protocols = vec![protocol.into()];
    TlsConnector::from(Arc::new(config))
}

fn channel(server: &Server, authority: &Authority, own: Option<(String, String)>) -> Channel {
    let (connector, address) = (connector(authority, own, "h2"), server.address);
    let connect = tower::service_fn(move |_: Uri| {
        let connector = connector.clone();
        async move {
            let socket = TcpStream::connect(address).await?;
            let stream = connector.connect(ServerName::try_from("localhost").unwrap(), socket).await?;
            Ok::<_, std::io::Error>(TokioIo::new(stream))
        }
    });
    Endpoint::from_static("http://localhost").connect_with_connector_lazy(connect)
}

/// Accepts `envoy` as an Envoy, `member` as an Envoy with a part of the resources, `client` as a gRPC client, and
/// `replica` as a replica.
fn accepting(config: Arc<rustls::ServerConfig>) -> Secured {
    let names = |name| vec![Pattern::parse(name).unwrap()];
    let (envoys, members) = (names("envoy"), names("member"));
    let policy = Policy { envoys, members, grpc: names("client"), replicas: names("replica") };
    Secured { config, policy: Arc::new(policy) }
}

async fn secured(authority: &Authority) -> Server {
    let directory = tempfile::tempdir().unwrap();
    write_server_files(directory.path(), authority);
    let store = Arc::new(Store::default());
    store.replace(vec![secret("s")]);
    let access = Access::Tls(accepting(tls_config(directory.path()).unwrap()).into());
    Server::over(store, "127.0.0.1:0".parse().unwrap(), access).await
}

#[tokio::test]
async fn a15_a_client_with_a_valid_certificate_receives_secrets() {
    let authority = authority();
    let server = secured(&authority).await;
    let own = issued(&authority, "envoy");
    let mut client = Sotw::open(&mut AdsClient::new(channel(&server, &authority, Some(own)))).await.unwrap();
    client.send(ask(SECRET, &["s"])).await;
    assert_eq!(client.next().await.resources.len(), 1);
}

/// Returns the access of a server with a certificate of the authority.
fn config_of(authority: &Authority) -> Secured {
    let (certificate, key) = issued(authority, "localhost");
    accepting(tls_config_of(certificate.as_bytes(), key.as_bytes(), authority.pem().as_bytes()).unwrap())
}

#[tokio::test]
async fn a15_new_certificates_apply_to_new_connections_and_open_streams_continue() {
    let (first, second) = (authority(), authority());
    let (configs, config) = tokio::sync::watch::channel(None);
    let store = Arc::new(Store::default());
    store.replace(vec![secret("s")]);
    let access = Access::Tls(Tls::from(config));
    let server = Server::over(store.clone(), "127.0.0.1:0".parse().unwrap(), access).await;

    // Clients wait until there is a certificate.
    let mut waiting = AdsClient::new(channel(&server, &first, Some(issued(&first, "envoy"))));
    let opening = tokio::spawn(async move { Sotw::open(&mut waiting).await.unwrap() });
    configs.send_replace(Some(config_of(&first)));
    let mut early = opening.await.unwrap();
    early.send(ask(SECRET, &["s", "t"])).await;
    assert_eq!(early.next().await.resources.len(), 1);

    configs.send_replace(Some(config_of(&second)));
    let refused = Sotw::open(&mut AdsClient::new(channel(&server, &first, Some(issued(&first, "envoy"))))).await;
    assert!(refused.is_err(), "a client that trusts and shows what is no longer good");
    let own = issued(&second, "envoy");
    let mut late = Sotw::open(&mut AdsClient::new(channel(&server, &second, Some(own)))).await.unwrap();
    late.send(ask(SECRET, &["s"])).await;
    assert_eq!(late.next().await.resources.len(), 1);

    // The stream from before the change is still served.
    store.replace(vec![secret("s"), secret("t")]);
    assert_eq!(early.next().await.resources.len(), 1);
}

/// A client with session resumption, like Envoy.
#[tokio::test]
async fn a15_a_tls_session_is_not_resumed() {
    let authority = authority();
    let server = secured(&authority).await;
    let connector = connector(&authority, Some(issued(&authority, "envoy")), "http/1.1");
    for _ in 0..2 {
        let socket = TcpStream::connect(server.address).await.unwrap();
        let stream = connector.connect(ServerName::try_from("localhost").unwrap(), socket).await.unwrap();
        assert_eq!(stream.get_ref().1.handshake_kind(), Some(rustls::HandshakeKind::Full));
        let request = http::Request::post("/v3/discovery:secrets").body(r#"{"resource_names": ["s"]}"#.to_owned());
        // Session tickets arrive with the first answer.
        let answer = exchange(stream, request.unwrap()).await;
        assert_eq!(answer.status(), 200);
    }
}

#[tokio::test]
async fn a15_an_envoy_with_a_part_of_the_resources_receives_secrets_but_no_status_of_others() {
    let authority = authority();
    let server = secured(&authority).await;
    let answers = async |name: &str| {
        let own = || Some(issued(&authority, name));
        let secrets = rest(&server, &authority, own(), "secrets").await;
        (secrets, rest(&server, &authority, own(), "client_status").await)
    };
    assert_eq!(answers("envoy").await, (Some(200), Some(200)));
    assert_eq!(answers("member").await, (Some(200), Some(403)));
}

#[tokio::test]
async fn a15_a_client_without_a_certificate_is_refused() {
    let authority = authority();
    let server = secured(&authority).await;
    let mut ads = AdsClient::new(channel(&server, &authority, None));
    assert!(Sotw::open(&mut ads).await.is_err());
    assert!(Delta::open(&mut ads).await.is_err());
    assert!(rest(&server, &authority, None, "secrets").await.is_none());
    assert!(server.registry.is_empty());
    assert_eq!(server.recorder.refused(Refused::NoCertificate), 3);
}

/// Returns the REST status for a client with this certificate. `None`: there is no connection.
async fn rest(server: &Server, authority: &Authority, own: Option<(String, String)>, what: &str) -> Option<u16> {
    let socket = TcpStream::connect(server.address).await.unwrap();
    let connector = connector(authority, own, "http/1.1");
    let stream = connector.connect(ServerName::try_from("localhost").unwrap(), socket).await.ok()?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.ok()?;
    tokio::spawn(connection);
    let body = if what == "client_status" { "{}" } else { r#"{"resource_names": ["s"]}"# };
    let request = http::Request::post(format!("/v3/discovery:{what}")).header("host", "localhost");
    let answer = soon(sender.send_request(request.body(body.to_owned()).unwrap())).await.ok()?;
    Some(answer.status().as_u16())
}

#[tokio::test]
async fn a15_each_role_receives_its_resources() {
    let authority = authority();
    let server = secured(&authority).await;
    for (name, secrets, clusters, status) in
        [("envoy", 200, 200, 200), ("client", 403, 200, 403), ("replica", 403, 403, 403), ("other", 403, 403, 403)]
    {
        let asked = async |what| rest(&server, &authority, Some(issued(&authority, name)), what).await;
        let answers = [asked("secrets").await, asked("clusters").await, asked("client_status").await];
        assert_eq!(answers, [Some(secrets), Some(clusters), Some(status)], "{name}");

        let mut ads = AdsClient::new(channel(&server, &authority, Some(issued(&authority, name))));
        let denied = |status: tonic::Status| {
            assert_eq!(status.code(), Code::PermissionDenied, "{name}: {status}");
        };
        match (Sotw::open(&mut ads).await, clusters) {
            (Err(status), 403) => denied(status),
            (Ok(mut client), 200) => {
                client.send(ask(SECRET, &["s"])).await;
                match secrets {
                    200 => assert_eq!(client.next().await.resources.len(), 1),
                    _ => denied(client.end().await.unwrap_err()),
                }
            }
            (opened, _) => panic!("{name}: {:?}", opened.err()),
        }
    }
    assert_eq!(server.recorder.refused(Refused::Name), 4, "the connections of the other");
}

#[tokio::test]
async fn a15_a_certificate_of_another_authority_is_refused() {
    let (ours, theirs) = (authority(), authority());
    let server = secured(&ours).await;
    let own = issued(&theirs, "envoy");
    let refused = Sotw::open(&mut AdsClient::new(channel(&server, &ours, Some(own)))).await;
    assert!(refused.is_err());
    assert!(server.registry.is_empty());
}

#[tokio::test]
async fn a15_plain_text_is_refused_on_a_tls_port() {
    let server = secured(&authority()).await;
    assert!(Sotw::open(&mut AdsClient::new(server.channel())).await.is_err());
}

#[tokio::test]
async fn a15_plain_text_is_limited_to_loopback() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    // A client is identified by its first request.
    tokio::spawn(async move {
        loop {
            let _ = listener.accept().await.unwrap().0.write_all(b"PRI").await;
        }
    });
    for (from, access, admitted) in [
        ("127.0.0.1:1", Access::PlainFromLoopback, true),
        ("[::1]:1", Access::PlainFromLoopback, true),
        ("[::ffff:127.0.0.1]:1", Access::PlainFromLoopback, true),
        ("192.0.2.1:1", Access::PlainFromLoopback, false),
        ("[::ffff:192.0.2.1]:1", Access::PlainFromLoopback, false),
        ("[2001:db8::1]:1", Access::PlainFromLoopback, false),
        ("192.0.2.1:1", Access::PlainFromEverywhere, true),
    ] {
        let socket = TcpStream::connect(address).await.unwrap();
        let result = admit(socket, from.parse().unwrap(), access).await;
        assert_eq!(result.is_ok(), admitted, "{from}");
    }
}

#[test]
fn a15_errors_name_invalid_files() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let message = || tls_config(at).map(|_| ()).unwrap_err().to_string();
    assert!(message().contains("tls.key"), "{}", message());
    write_server_files(at, &authority());
    assert!(tls_config(at).is_ok());
    std::fs::write(at.join("ca.crt"), "nothing").unwrap();
    assert!(message().contains("ca.crt: it contains no certificate"), "{}", message());
    write_server_files(at, &authority());
    std::fs::write(at.join("tls.key"), KeyPair::generate().unwrap().serialize_pem()).unwrap();
    assert!(message().contains("tls.crt"), "a key of another certificate: {}", message());
    assert!(matches!(tls_config(at), Err(ServerError::Tls { .. })));
}

#[tokio::test]
async fn a15_the_status_of_clients_requires_a_role() {
    use envoy_types::pb::envoy::service::status::v3::ClientStatusRequest;
    use envoy_types::pb::envoy::service::status::v3::client_status_discovery_service_client::ClientStatusDiscoveryServiceClient;
    let authority = authority();
    let server = secured(&authority).await;
    for (name, expected) in [("client", Some(Code::PermissionDenied)), ("envoy", None)] {
        let own = Some(issued(&authority, name));
        let mut client = ClientStatusDiscoveryServiceClient::new(channel(&server, &authority, own));
        let answer = soon(client.fetch_client_status(ClientStatusRequest::default())).await;
        assert_eq!(answer.err().map(|status| status.code()), expected);
    }
}

/// A stalled client does not occupy the place of others.
#[tokio::test]
async fn a15_unidentified_clients_do_not_use_places() {
    let authority = authority();
    let directory = tempfile::tempdir().unwrap();
    write_server_files(directory.path(), &authority);
    let store = Arc::new(Store::default());
    store.replace(vec![secret("s")]);
    let access = Access::Tls(accepting(tls_config(directory.path()).unwrap()).into());
    let limits = Limits { connections: 4, arriving: 8, admission: ms(500), ..Limits::default() };
    let server = Server::launch(store, "127.0.0.1:0".parse().unwrap(), access, limits).await;
    let (mut silent, started) = (Vec::new(), std::time::Instant::now());
    for said in [&b""[..], b"\x16", b"\x16\x03\x01\x02\x00\x01"].into_iter().cycle().take(30) {
        let mut socket = TcpStream::connect(server.address).await.unwrap();
        socket.write_all(said).await.unwrap();
        silent.push(socket);
    }
    let own = issued(&authority, "envoy");
    let mut client = Sotw::open(&mut AdsClient::new(channel(&server, &authority, Some(own)))).await.unwrap();
    client.send(ask(SECRET, &["s"])).await;
    assert_eq!(client.next().await.resources.len(), 1);
    for mut socket in silent {
        let _ = soon(socket.read_to_end(&mut Vec::new())).await;
    }
    println!("the last silent client was disconnected after {:?}", started.elapsed());
    assert_eq!(server.recorder.refused(Refused::Evicted) + server.recorder.refused(Refused::Timeout), 30);
}

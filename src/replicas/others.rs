//! Queries of the other replicas.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use http::{HeaderValue, Request, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::sync::watch;
use tokio_rustls::TlsConnector;

use super::answer::{HOLD, PATH};
use super::{Reached, WantedObject};

/// The connect timeout. A slower replica counts as absent.
const CONNECT: Duration = Duration::from_secs(2);
/// The address of replicas whose addresses are unknown.
const UNKNOWN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
/// The maximum size of an answer.
const LARGEST_ANSWER: usize = 16 << 20;

/// The transport to the other replicas.
#[derive(Debug, Clone)]
pub enum Connector {
    /// In clear text.
    Plain,
    /// TLS with the newest client configuration. Without a configuration, there are no connections.
    Tls(watch::Receiver<Option<Client>>),
}

/// A TLS client: its configuration, and the required name in the peer's certificate.
pub type Client = (Arc<ClientConfig>, ServerName<'static>);

/// The other replicas, addressed by a name that resolves to all of them.
#[derive(Debug, Clone)]
pub struct OtherReplicas {
    /// `host:port`: a headless Service.
    pub address: String,
    /// The addresses of this replica, which it does not ask.
    pub own: Vec<IpAddr>,
    /// The transport.
    pub connector: Connector,
}

impl OtherReplicas {
    /// Asks each other replica. A replica delays its answer until the acceptance changes. An unreachable replica yields an error.
    pub async fn ask(&self, wanted: &[WantedObject]) -> Vec<(SocketAddr, Result<Reached, String>)> {
        let question = match question(wanted) {
            Ok(question) => Bytes::from(question),
            Err(error) => return vec![(UNKNOWN, Err(error.to_string()))],
        };
        let request = || Request::post(PATH).header(header::CONTENT_TYPE, "application/json").body(question.clone());
        let check = |reached: Reached| match reached.accepted.len() == wanted.len() {
            true => Ok(reached),
            false => Err("it answers something else".to_owned()),
        };
        let answers = self.ask_all(request).await.into_iter();
        answers.map(|(address, answer)| (address, answer.and_then(check))).collect()
    }

    /// Sends the same question to each other replica, and parses the answers as JSON.
    pub(super) async fn ask_all<A: DeserializeOwned>(
        &self,
        request: impl Fn() -> http::Result<Request<Bytes>>,
    ) -> Vec<(SocketAddr, Result<A, String>)> {
        let addresses = match lookup_host(&self.address).await {
            Ok(addresses) => addresses,
            // There may be other replicas, but their addresses are unknown.
            Err(error) => return vec![(UNKNOWN, Err(format!("{}: {error}", self.address)))],
        };
        let mut addresses: Vec<SocketAddr> =
            addresses.filter(|address| !self.own.contains(&address.ip().to_canonical())).collect();
        addresses.sort();
        addresses.dedup();
        let ask = |address| {
            let request = request();
            async move { (address, self.ask_one(address, request).await) }
        };
        join_all(addresses.into_iter().map(ask)).await
    }

    async fn ask_one<A: DeserializeOwned>(
        &self,
        address: SocketAddr,
        request: http::Result<Request<Bytes>>,
    ) -> Result<A, String> {
        let mut request = request.map_err(|error| error.to_string())?;
        let host = HeaderValue::from_str(&self.address).map_err(|error| error.to_string())?;
        request.headers_mut().insert(header::HOST, host);
        let ask = async {
            let socket = tokio::time::timeout(CONNECT, TcpStream::connect(address)).await;
            let socket = socket.map_err(|_| "it does not answer".to_owned())?.map_err(|error| error.to_string())?;
            match &self.connector {
                Connector::Plain => exchange(socket, request).await,
                Connector::Tls(client) => {
                    let client = client.borrow().clone();
                    let (config, name) = client.ok_or("this replica has no certificate yet")?;
                    let socket = TlsConnector::from(config).connect(name, socket).await;
                    exchange(socket.map_err(|error| format!("TLS: {error}"))?, request).await
                }
            }
        };
        let answer = tokio::time::timeout(CONNECT + HOLD * 2, ask).await;
        answer.map_err(|_| "it does not answer".to_owned())?
    }
}

/// An object in a question, in a form that earlier versions support.
#[derive(Serialize)]
struct Compatible<'a> {
    #[serde(flatten)]
    wanted: &'a WantedObject,
    /// Earlier versions compare generations and do not know revisions. None of their Envoys has accepted the maximum generation.
    generation: i64,
}

/// Returns the question as JSON.
pub(super) fn question(wanted: &[WantedObject]) -> serde_json::Result<Vec<u8>> {
    let question = wanted.iter().map(|wanted| Compatible { wanted, generation: i64::MAX });
    serde_json::to_vec(&question.collect::<Vec<_>>())
}

/// Sends the question on a connection.
async fn exchange<A: DeserializeOwned>(
    io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Bytes>,
) -> Result<A, String> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(io)).await.map_err(|error| error.to_string())?;
    let request = request.map(Full::new);
    let answer = async {
        let answer = sender.send_request(request).await.map_err(|error| error.to_string())?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), LARGEST_ANSWER).collect().await;
        let body = body.map_err(|error| error.to_string())?.to_bytes();
        if !status.is_success() {
            return Err(format!("{status}: {}", String::from_utf8_lossy(&body).trim()));
        }
        serde_json::from_slice(&body).map_err(|error| error.to_string())
    };
    // The connection ends with the question, with or without an error.
    tokio::select! {
        answer = answer => answer,
        ended = async { connection.await.err() } => {
            Err(ended.map_or_else(|| "the replica closed the connection".to_owned(), |error| error.to_string()))
        }
    }
}

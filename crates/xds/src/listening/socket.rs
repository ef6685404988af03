//! Sockets of servers, and the addresses of their clients.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use rustix::io::Errno;
use tokio::net::{TcpListener, TcpSocket, TcpStream};

/// The default length of the queue of connections to accept.
pub const BACKLOG: u32 = 1024;

/// Listens on `address`. `[::]` also accepts IPv4 clients, and only these if the machine has no IPv6.
pub fn listen(address: SocketAddr, backlog: u32) -> io::Result<TcpListener> {
    with_fallback(address, |address| bind(address, backlog))
}

/// Returns the canonical address of a client. A socket for both families reports an IPv4 client as `::ffff:10.0.0.1`.
pub fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Waits for the first bytes, or the end, of an accepted connection. Memory that is allocated afterward is not used by silent
/// connections.
pub async fn first_bytes(socket: &TcpStream) -> io::Result<()> {
    // `TcpStream::readable` returns at once: tokio assumes that an accepted socket is readable.
    socket.peek(&mut [0]).await.map(drop)
}

fn bind(address: SocketAddr, backlog: u32) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    if is_every_address_of_ipv6(address) {
        // The default depends on the sysctl `net.ipv6.bindv6only`.
        rustix::net::sockopt::set_ipv6_v6only(&socket, false)?;
    }
    socket.bind(address)?;
    socket.listen(backlog)
}

/// Binds `0.0.0.0` instead of `[::]` if IPv6 is not available: the kernel lacks it, or a sandbox forbids it.
fn with_fallback<T>(address: SocketAddr, bind: impl Fn(SocketAddr) -> io::Result<T>) -> io::Result<T> {
    let bound = bind(address);
    let without_ipv6 = |error: &io::Error| {
        let known = [Errno::AFNOSUPPORT, Errno::ADDRNOTAVAIL].map(Errno::raw_os_error);
        error.raw_os_error().is_some_and(|code| known.contains(&code))
    };
    match bound {
        Err(error) if is_every_address_of_ipv6(address) && without_ipv6(&error) => {
            let ipv4 = SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port()));
            tracing::info!(%error, "no IPv6 on this machine: listening on {ipv4} instead of {address}");
            bind(ipv4)
        }
        bound => bound,
    }
}

fn is_every_address_of_ipv6(address: SocketAddr) -> bool {
    matches!(address.ip(), IpAddr::V6(ip) if ip.is_unspecified())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::cell::RefCell;

    use std::time::Duration;

    use futures::FutureExt;
    use tokio::io::AsyncWriteExt;

    use super::*;

    #[tokio::test]
    async fn one_socket_accepts_both_families_and_reports_canonical_addresses() {
        let listener = listen("[::]:0".parse().unwrap(), 16).unwrap();
        let port = listener.local_addr().unwrap().port();
        for own in ["127.0.0.1", "::1"] {
            let own: IpAddr = own.parse().unwrap();
            let _client = TcpStream::connect((own, port)).await.unwrap();
            let (_, peer) = listener.accept().await.unwrap();
            assert_eq!(canonical(peer).ip(), own);
        }
    }

    #[tokio::test]
    async fn a_silent_connection_has_no_first_bytes() {
        let listener = listen("127.0.0.1:0".parse().unwrap(), 16).unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (socket, _) = listener.accept().await.unwrap();
        assert!(first_bytes(&socket).now_or_never().is_none());
        client.write_all(b"hello").await.unwrap();
        tokio::time::timeout(Duration::from_secs(20), first_bytes(&socket)).await.unwrap().unwrap();
    }

    #[test]
    fn without_ipv6_every_address_is_an_ipv4_address() {
        let tried = |address: &str, error: Errno| {
            let asked = RefCell::new(Vec::new());
            let bound = with_fallback(address.parse().unwrap(), |address| {
                asked.borrow_mut().push(address.to_string());
                if address.is_ipv6() { Err(error.into()) } else { Ok(()) }
            });
            (bound.is_ok(), asked.take())
        };
        for error in [Errno::AFNOSUPPORT, Errno::ADDRNOTAVAIL] {
            assert_eq!(tried("[::]:80", error), (true, vec!["[::]:80".to_owned(), "0.0.0.0:80".to_owned()]));
            assert_eq!(tried("[::1]:80", error), (false, vec!["[::1]:80".to_owned()]));
        }
        assert_eq!(tried("[::]:80", Errno::ADDRINUSE), (false, vec!["[::]:80".to_owned()]));
        assert_eq!(tried("0.0.0.0:80", Errno::ADDRINUSE), (true, vec!["0.0.0.0:80".to_owned()]));
    }
}

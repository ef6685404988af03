//! Free TCP ports and the address of this machine.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr, TcpListener, UdpSocket};
use std::sync::Mutex;

static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// Returns a free port that this process has not returned before. It is below the range of ephemeral ports, so that no
/// outgoing connection takes it.
///
/// # Panics
/// If no port is free.
pub fn free() -> u16 {
    const FIRST: u16 = 12_000;
    const COUNT: u16 = 20_000;
    let mut given = GIVEN.lock().unwrap();
    let start = (std::process::id() * 61 % u32::from(COUNT)) as u16;
    let port = (0..COUNT)
        .map(|i| FIRST + (start + i) % COUNT)
        .find(|port| !given.contains(port) && TcpListener::bind((Ipv6Addr::UNSPECIFIED, *port)).is_ok())
        .expect("a free port");
    given.insert(port);
    port
}

/// Returns the source address of outgoing connections, or `None` if the machine has only loopback addresses. It sends
/// nothing.
pub fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    socket.local_addr().ok().map(|address| address.ip()).filter(|address| !address.is_loopback())
}

//! Free TCP ports and the address of this machine.

use std::collections::BTreeSet;
use std::net::{IpAddr, UdpSocket};
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
    let taken = listening();
    let port = (0..COUNT)
        .map(|i| FIRST + (start + i) % COUNT)
        .find(|port| !given.contains(port) && !taken.contains(port))
        .expect("a free port");
    given.insert(port);
    port
}

/// Returns the ports at which this machine listens. Binding a port to try it would refuse it to the Envoy of another test, which may be about
/// to listen at a port that its controller has chosen.
fn listening() -> BTreeSet<u16> {
    /// The state `TCP_LISTEN`.
    const LISTEN: &str = "0A";
    let mut ports = BTreeSet::new();
    for file in ["/proc/net/tcp", "/proc/net/tcp6"] {
        for line in std::fs::read_to_string(file).unwrap_or_default().lines() {
            let mut fields = line.split_whitespace().skip(1);
            let (local, state) = (fields.next(), fields.nth(1));
            let port = local.and_then(|local| local.rsplit_once(':')).map(|(_, port)| u16::from_str_radix(port, 16));
            ports.extend(port.and_then(Result::ok).filter(|_| state == Some(LISTEN)));
        }
    }
    ports
}

/// Returns the source address of outgoing connections, or `None` if the machine has only loopback addresses. It sends
/// nothing.
pub fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    socket.local_addr().ok().map(|address| address.ip()).filter(|address| !address.is_loopback())
}

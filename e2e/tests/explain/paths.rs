//! The form of paths.

use e2e::client::raw;

use super::site::{Sent, Site};

#[tokio::test(flavor = "multi_thread")]
async fn paths_have_the_form_that_envoy_gives_them() {
    let site = Site::start_with_host().await;
    // All bytes that a path can contain, plain and escaped. Spaces and control characters would end the request line.
    let plain = (0x21..0x7f_u8).map(char::from).filter(|one| !"?#".contains(*one)).map(String::from);
    let escaped = (0..=0xff_u8).flat_map(|byte| [format!("%{byte:02X}"), format!("%{byte:02x}")]);
    let dots = ["/.", "/..", "/./x", "/../x", "/%2e%2E/x", "/a%2e/b", "/.../x", "//x//", "/a/%2e", "%", "%4", "%4g"]
        .map(String::from);
    let mut faults = Vec::new();
    for part in plain.chain(escaped).chain(dots) {
        let path = format!("/a{part}b/c{part}");
        let head = format!("GET {path} HTTP/1.1\r\nhost: a.test\r\nconnection: close\r\n\r\n");
        let bytes =
            raw(site.lockgate.http, head.as_bytes(), |read| read.windows(4).any(|end| end == b"\r\n\r\n")).await;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let status: u64 = text.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default();
        let field = |name: &str| {
            let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            found.unwrap_or_default().to_owned()
        };
        let request = Sent::get(site.lockgate.http, "a.test", &path);
        let report = site.explain(&request).await;
        let explained = &report["answers"][0];
        let (action, expected) = (&explained["action"], explained["status"].as_u64());
        let is_same = match status {
            200 => *action == "forward" && explained["path"] == field("x-path").as_str(),
            307 => {
                expected == Some(307)
                    && explained["result"]
                        .as_str()
                        .unwrap_or_default()
                        .contains(&field("location").replace("http://a.test", ""))
            }
            status => expected == Some(status),
        };
        if !is_same {
            let shown = [field("x-path"), field("location")].concat();
            faults.push(format!(
                "{path}: Envoy {status} {shown}, explained {expected:?} {} {}",
                explained["path"], explained["result"]
            ));
        }
    }
    assert!(faults.is_empty(), "{} paths differ:\n{}", faults.len(), faults.join("\n"));
}

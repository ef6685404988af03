//! Unusual requests: each row of the table in docs/requests.md with a real Envoy.

use e2e::client::raw;
use e2e::manifests::ingress;

use super::site::{By, HOST, Site};

/// Formats an Ingress with a forbidden path `/admin`: its Service has no endpoints, so it answers 503.
fn closed() -> String {
    let service = "apiVersion: v1\nkind: Service\nmetadata: { name: nobody, namespace: default }\nspec:\n  ports: [{ name: \
                   http, port: 80 }]\n";
    let closed = ingress("closed", HOST, "nobody", None).replace("path: /\n", "path: /admin\n");
    format!("{service}---\n{closed}")
}

/// Returns the answer to a raw HTTP/1.1 request: the status, `location`, and the request that the backend received, if
/// any.
async fn ask(site: &Site, request: &str) -> (String, String, String) {
    let bytes = raw(site.lockgate.http, request.as_bytes(), |_| false).await;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let head = text.split("\r\n\r\n").next().unwrap_or_default().to_owned();
    let status = head.split(' ').nth(1).unwrap_or("closed").to_owned();
    let location = head.lines().find_map(|line| line.strip_prefix("location: ")).unwrap_or_default().to_owned();
    let asked = |line: &&str| line.ends_with(" HTTP/1.1") && !line.starts_with("HTTP/");
    let asked = text.lines().find(asked).map(|line| line.trim_end_matches(" HTTP/1.1").to_owned()).unwrap_or_default();
    (status, location, asked)
}

/// Formats a `GET` request for `path`.
fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_escaped_slash_opens_no_closed_path() {
    for (setting, escaped, backslash) in [
        ("", ("307", "/admin", ""), ("307", "/admin", "")),
        ("http: { escapedSlashes: unescape_and_forward }\n", ("503", "", ""), ("503", "", "")),
        ("http: { escapedSlashes: reject }\n", ("400", "", ""), ("400", "", "")),
        ("http: { escapedSlashes: keep }\n", ("200", "", "GET /x/..%2Fadmin"), ("200", "", "GET /x/..%5Cadmin")),
    ] {
        let site = Site::with_objects(setting, &[closed()]).await;
        assert_eq!(site.get(By::Http, "/admin", &[]).await.status, 503, "the path is closed");
        for (path, (status, location, asked)) in [("/x/..%2Fadmin", escaped), ("/x/..%5Cadmin", backslash)] {
            let answer = ask(&site, &get(path)).await;
            // Envoy writes the complete URL.
            let answer = (answer.0.as_str(), answer.1.trim_start_matches(&format!("http://{HOST}")), answer.2.as_str());
            assert_eq!(answer, (status, location, asked), "{setting}{path}");
        }
        for by in [By::Http2, By::Https] {
            assert_eq!(site.get(by, "/x/..%2Fadmin", &[]).await.status.to_string(), escaped.0, "{setting}{by:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unusual_requests_are_treated_as_the_table_says() {
    let site = Site::with_objects("", &[closed()]).await;
    let with = |request: &str| format!("{request}\r\nConnection: close\r\n\r\n");
    let host = format!("Host: {HOST}");
    let long = "x".repeat(70 * 1024);
    // The request, the status, and the request that the backend received, if any.
    let rows: &[(&str, String, &str, &str)] = &[
        ("double slashes", get("//a///b"), "200", "GET /a/b"),
        ("double slashes before a closed path", get("//admin"), "503", ""),
        ("dot segments", get("/a/./b/../c"), "200", "GET /a/c"),
        ("dot segments to a closed path", get("/x/../admin"), "503", ""),
        ("dot segments above the root", get("/../../admin"), "503", ""),
        ("escaped dots", get("/x/%2e%2E/admin"), "503", ""),
        ("an escaped slash", get("/a%2Fb"), "307", ""),
        ("an escaped backslash", get("/a%5cb"), "307", ""),
        ("a backslash", get("/x\\..\\admin"), "503", ""),
        ("a slash escaped twice", get("/a%252Fb"), "200", "GET /a%252Fb"),
        ("an escaped zero byte", get("/a%00b"), "400", ""),
        ("an escaped letter", get("/%61dmin"), "503", ""),
        ("path parameters", get("/x;y/admin"), "200", "GET /x;y/admin"),
        ("path parameters behind dots", get("/x/..;y/admin"), "503", ""),
        ("a fragment", get("/a#b"), "400", ""),
        ("another case", get("/ADMIN"), "200", "GET /ADMIN"),
        ("a query with dots", get("/a?x=/../admin"), "200", "GET /a?x=/../admin"),
        ("a path without slash", get("admin"), "400", ""),
        ("an absolute URL", with(&format!("GET http://{HOST}/admin HTTP/1.1\r\n{host}")), "503", ""),
        ("an absolute URL of another host", with(&format!("GET http://other.test/ HTTP/1.1\r\n{host}")), "404", ""),
        ("a host with port", with(&format!("GET /a HTTP/1.1\r\nHost: {HOST}:8080")), "200", "GET /a"),
        ("a host in upper case", with("GET /a HTTP/1.1\r\nHost: SHOP.Test"), "200", "GET /a"),
        ("a host with a dot", with(&format!("GET /a HTTP/1.1\r\nHost: {HOST}.")), "200", "GET /a"),
        ("no host", with("GET /a HTTP/1.1"), "400", ""),
        ("an empty host", with("GET /a HTTP/1.1\r\nHost:"), "404", ""),
        ("two hosts", with(&format!("GET /a HTTP/1.1\r\n{host}\r\nHost: other.test")), "404", ""),
        ("a host with user", with(&format!("GET /a HTTP/1.1\r\nHost: me@{HOST}")), "403", ""),
        ("a host behind a user", with(&format!("GET /a HTTP/1.1\r\nHost: {HOST}:x@evil.test")), "403", ""),
        ("a host as a port", with(&format!("GET /a HTTP/1.1\r\nHost: {HOST}:evil.test")), "403", ""),
        ("an empty port", with(&format!("GET /a HTTP/1.1\r\nHost: {HOST}:")), "200", "GET /a"),
        ("an IPv6 address", with("GET /a HTTP/1.1\r\nHost: [2001:db8::1]:8080"), "404", ""),
        ("HTTP/1.0 without host", "GET /a HTTP/1.0\r\n\r\n".to_owned(), "404", ""),
        ("CONNECT", with(&format!("CONNECT {HOST}:443 HTTP/1.1\r\n{host}")), "404", ""),
        ("TRACE", with(&format!("TRACE /a HTTP/1.1\r\n{host}")), "200", "TRACE /a"),
        ("an unknown method", with(&format!("BREW /a HTTP/1.1\r\n{host}")), "400", ""),
        (
            "length and chunks",
            with(&format!("POST /a HTTP/1.1\r\n{host}\r\nContent-Length: 3\r\nTransfer-Encoding: chunked")),
            "400",
            "",
        ),
        (
            "two lengths",
            with(&format!("POST /a HTTP/1.1\r\n{host}\r\nContent-Length: 0\r\nContent-Length: 3")),
            "400",
            "",
        ),
        ("a length with sign", with(&format!("POST /a HTTP/1.1\r\n{host}\r\nContent-Length: +3")), "400", ""),
        (
            "another transfer encoding",
            with(&format!("POST /a HTTP/1.1\r\n{host}\r\nTransfer-Encoding: gzip, chunked")),
            "501",
            "",
        ),
        ("an upgrade that is not known", with(&format!("GET /a HTTP/1.1\r\n{host}\r\nUpgrade: mine")), "200", "GET /a"),
        ("a header over two lines", with(&format!("GET /a HTTP/1.1\r\n{host}\r\nA: b\r\n c")), "200", "GET /a"),
        ("a space before the colon", with(&format!("GET /a HTTP/1.1\r\n{host}\r\nA : b")), "400", ""),
        ("a header of 70 KiB", with(&format!("GET /a HTTP/1.1\r\n{host}\r\nA: {long}")), "431", ""),
        ("a path of 70 KiB", get(&format!("/{long}")), "431", ""),
        ("101 headers", with(&format!("GET /a HTTP/1.1\r\n{host}\r\n{}A: b", "A: b\r\n".repeat(100))), "431", ""),
    ];
    let mut wrong = Vec::new();
    for (what, request, status, asked) in rows {
        let answer = ask(&site, request).await;
        if (answer.0.as_str(), answer.2.as_str()) != (*status, *asked) {
            wrong.push(format!("{what}: {status} {asked:?} expected, was {answer:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

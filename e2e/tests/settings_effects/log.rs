//! The access log of Envoy.

use super::Site;

/// Parses the JSON object in a line.
fn object(line: &str) -> serde_json::Value {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_of_text_names_the_object_behind_the_route() {
    let site = Site::with("").await;
    site.plain().get("/cart?user=1").await.expect("an answer");
    let line = site.logged(&["/cart?user=1"]).await;
    assert!(line.contains(r#""GET /cart?user=1 HTTP/1.1" 200 "#), "{line}");
    assert!(line.ends_with("via_upstream Ingress/default/shop"), "{line}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_may_have_a_format_of_its_own() {
    let site = Site::with("accessLog: { text: \"mine %REQ_WITHOUT_QUERY(:PATH)% %RESPONSE_CODE% 100%%\" }\n").await;
    site.plain().get("/cart?token=secret").await.expect("an answer");
    assert_eq!(site.logged(&["mine"]).await, "mine /cart 200 100%");
    assert!(!site.envoy.log().contains("token=secret"));
}

#[tokio::test(flavor = "multi_thread")]
async fn json_has_the_fields_that_dashboards_know() {
    let site = Site::with("accessLog: { format: json }\n").await;
    site.tls().get("/cart").await.expect("an answer");
    let line = object(&site.logged(&["{", "/cart"]).await);
    for (field, value) in
        [("authority", "shop.test"), ("method", "GET"), ("path", "/cart"), ("requested_server_name", "shop.test")]
    {
        assert_eq!(line[field], value, "{line}");
    }
    assert_eq!((&line["response_code"], &line["object_name"]), (&200.into(), &"shop".into()), "{line}");
    assert!(line.get("x_forwarded_for").is_some() && line.get("user_agent").is_none(), "{line}");
}

#[tokio::test(flavor = "multi_thread")]
async fn json_has_the_fields_that_are_asked_for() {
    let site = Site::with(
        "accessLog:\n  format: json\n  jsonFields: [path, contour_config_name, tls_ja4_fingerprint, \
         'agent=%REQ(USER-AGENT)%', 'bare=%REQ_WITHOUT_QUERY(:PATH)%']\ntls: { fingerprints: { ja3: true, ja4: true } }\n",
    )
    .await;
    site.tls().field("user-agent", "test").get("/cart?a=b").await.expect("an answer");
    let line = object(&site.logged(&["{", "/cart"]).await);
    assert_eq!(line["path"], "/cart?a=b");
    assert_eq!(
        (&line["agent"], &line["bare"], &line["contour_config_name"]),
        (&"test".into(), &"/cart".into(), &"shop".into())
    );
    // Source: JA4, "TLS client fingerprint": protocol, version, SNI by domain name, …
    let ja4 = line["tls_ja4_fingerprint"].as_str().unwrap_or_default();
    assert!(ja4.starts_with("t13d") && ja4.matches('_').count() == 2, "{line}");
    assert_eq!(line.as_object().map(serde_json::Map::len), Some(5), "{line}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_level_leaves_out_what_went_well() {
    for (level, least) in [("error", 300), ("critical", 500)] {
        let site = Site::with(&format!("accessLog: {{ level: {level} }}\n")).await;
        for status in [200, 302, 404, 500] {
            site.plain().get(&format!("/{status}?status={status}")).await.expect("an answer");
        }
        site.logged(&["GET /500"]).await;
        for status in [200, 302, 404] {
            let logged = site.envoy.log().contains(&format!("GET /{status}"));
            assert_eq!(logged, status >= least, "{level}, {status}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn there_may_be_no_log() {
    let site = Site::with("accessLog: { format: off }\n").await;
    site.plain().get("/cart").await.expect("an answer");
    // The log is enabled again. Earlier requests are not logged.
    site.config.write("lockgate.yaml", "accessLog: { text: \"now %REQ(:PATH)%\" }\n");
    e2e::wait_until("a log again", async || {
        site.plain().get("/again").await.expect("an answer");
        site.envoy.log().contains("now /again")
    })
    .await;
    assert!(!site.envoy.log().contains("/cart"));
}

#[tokio::test(flavor = "multi_thread")]
async fn each_listener_may_log_to_a_file_of_its_own() {
    let site = Site::with("").await;
    let file = site.config.file("http.log");
    site.config.write("lockgate.yaml", &format!("accessLog: {{ httpFile: {} }}\n", file.display()));
    let logged = || std::fs::read_to_string(&file).unwrap_or_default();
    e2e::wait_until("a line in the file", async || {
        site.plain().get("/plain").await.expect("an answer");
        logged().contains("GET /plain HTTP/1.1")
    })
    .await;
    site.tls().get("/secure").await.expect("an answer");
    site.logged(&["/secure"]).await;
    assert!(!logged().contains("/secure"));
}

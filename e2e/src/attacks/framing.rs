//! Filters of routes that would change where a message ends, or control Envoy.

/// Returns filters that are not valid, for rules and for backends.
pub fn filters() -> Vec<String> {
    let mut filters = vec![
        "{ type: URLRewrite, urlRewrite: { path: { type: ReplaceFullPath, replaceFullPath: '/ HTTP/1.1' } } }".to_owned(),
        "{ type: URLRewrite, urlRewrite: { path: { type: ReplacePrefixMatch, replacePrefixMatch: 'http://b.test/' } } }"
            .to_owned(),
    ];
    for (kind, key) in [("Request", "request"), ("Response", "response")] {
        for name in ["Content-Length", "transfer-encoding", "Connection", "x-envoy-max-retries"] {
            for change in [
                format!("set: [{{ name: {name}, value: '0' }}]"),
                format!("add: [{{ name: {name}, value: '0' }}]"),
                format!("remove: [{name}]"),
            ] {
                filters.push(format!("{{ type: {kind}HeaderModifier, {key}HeaderModifier: {{ {change} }} }}"));
            }
        }
    }
    filters
}

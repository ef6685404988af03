//! Snippets of nginx configuration, and whether they may restrict access.

/// Directives that neither restrict access nor answer requests. All other directives may do so.
const HARMLESS: &[&str] = &[
    "access_log",
    "add_header",
    "add_trailer",
    "charset",
    "chunked_transfer_encoding",
    "etag",
    "expires",
    "if_modified_since",
    "large_client_header_buffers",
    "lingering_close",
    "lingering_timeout",
    "log_not_found",
    "log_subrequest",
    "more_clear_headers",
    "more_clear_input_headers",
    "more_set_headers",
    "more_set_input_headers",
    "output_buffers",
    "rewrite_log",
    "send_timeout",
    "set",
    "tcp_nodelay",
    "tcp_nopush",
    "underscores_in_headers",
];

/// Prefixes of further harmless directives.
const HARMLESS_BEGINNINGS: &[&str] = &[
    "brotli",
    "client_body_",
    "client_header_",
    "client_max_body_size",
    "gzip",
    "http2_",
    "keepalive_",
    "opentelemetry",
    "opentracing",
    "proxy_",
    "sub_filter",
    "zipkin",
];

/// Returns whether a snippet has a directive that is not known to be harmless. A block counts as such a directive.
pub fn restricts(snippet: &str) -> bool {
    statements(snippet).iter().any(|statement| {
        let directive = statement.split_whitespace().next().unwrap_or_default();
        let known = HARMLESS.contains(&directive);
        !directive.is_empty() && !known && !HARMLESS_BEGINNINGS.iter().any(|start| directive.starts_with(start))
    })
}

/// Returns the statements, split like in nginx: at `;`, `{`, and `}` outside of quotation marks and comments.
fn statements(snippet: &str) -> Vec<String> {
    let mut statements = vec![String::new()];
    let (mut quote, mut previous) = (None, ' ');
    let mut characters = snippet.chars();
    while let Some(c) = characters.next() {
        let starts_word = previous.is_whitespace() || matches!(previous, ';' | '{' | '}');
        previous = c;
        match (c, quote) {
            ('\\', _) => drop(characters.next()),
            ('#', None) if starts_word => {
                // A comment extends to the end of the line.
                let _ = characters.find(|c| *c == '\n');
                previous = '\n';
            }
            ('"' | '\'', None) if starts_word => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            (';' | '{' | '}', None) => statements.push(String::new()),
            _ => {}
        }
        let ends = matches!((c, quote), (';' | '{' | '}' | '#', None));
        if let (false, Some(last)) = (ends, statements.last_mut()) {
            last.push(c);
        }
    }
    statements
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snippet_restricts_access_unless_every_directive_is_harmless() {
        for harmless in [
            "",
            "more_set_headers \"X-Frame-Options: DENY\";",
            "# deny all;\nadd_header X-A 'deny all; return 403' always;\n  proxy_set_header X-B $host;",
            "proxy_read_timeout 300s; client_max_body_size 10m;gzip on;",
            "add_header X-A \"a\\\"; deny all\";",
        ] {
            assert!(!restricts(harmless), "{harmless}");
        }
        for restricting in [
            "deny all;",
            "proxy_read_timeout 3s;deny 10.0.0.0/8;",
            "more_set_headers 'A: b';\n  auth_basic \"x\";",
            "if ($http_x != 'secret') { return 403; }",
            "location /admin { deny all; }",
            "add_header X-A b#c;\ndeny all;",
            "add_header X-A it's; deny all; # '",
            "\"deny\" all;",
            "access_by_lua_block { ngx.exit(403) }",
            "satisfy any",
            "some_new_directive on;",
        ] {
            assert!(restricts(restricting), "{restricting}");
        }
    }
}

//! nginx as a reverse proxy, for the cost of a request.

use std::fmt::Write;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::Path;

use e2e::ports;
use e2e::process::Process;

use super::names::{address, host};

/// A running nginx: one process, without a master.
pub struct Nginx {
    /// The process.
    pub process: Process,
    /// The port.
    pub port: u16,
    _directory: tempfile::TempDir,
}

impl Nginx {
    /// Starts an nginx with `size` unused hosts, and with `hosts` that lead to `backend`. TLS is used if there is a
    /// certificate and a key.
    ///
    /// # Errors
    /// The files cannot be written.
    pub fn start(
        program: &Path,
        size: usize,
        hosts: Range<usize>,
        backend: SocketAddr,
        pair: Option<&(String, String)>,
    ) -> anyhow::Result<Self> {
        let directory = tempfile::Builder::new().prefix("bench-nginx-").tempdir()?;
        let place = directory.path().display();
        let port = ports::free();
        if let Some((certificate, key)) = pair {
            std::fs::write(directory.path().join("tls.crt"), certificate)?;
            std::fs::write(directory.path().join("tls.key"), key)?;
        }
        let tls = if pair.is_some() {
            format!("ssl_certificate {place}/tls.crt; ssl_certificate_key {place}/tls.key;")
        } else {
            String::new()
        };
        let listen = if pair.is_some() { format!("{port} ssl") } else { port.to_string() };
        let mut text = format!(
            "daemon off; master_process off; worker_processes 1; pid {place}/pid; error_log stderr;\n\
             events {{ worker_connections 1024; }}\n\
             http {{\n  access_log {place}/access.log; server_names_hash_max_size 262144; server_names_hash_bucket_size 128;\n  \
             client_body_temp_path {place}/body; proxy_temp_path {place}/proxy; fastcgi_temp_path {place}/fastcgi;\n  \
             uwsgi_temp_path {place}/uwsgi; scgi_temp_path {place}/scgi;\n  \
             keepalive_requests 1000000; keepalive_timeout 600s; proxy_http_version 1.1; proxy_set_header Connection \"\";\n  \
             proxy_set_header Host $host; {tls}\n  \
             upstream backend {{ server {backend}; keepalive 32; keepalive_requests 1000000; keepalive_timeout 600s; }}\n"
        );
        let mut server = |index, upstream: &str| {
            let host = host(index);
            writeln!(
                text,
                "  server {{ listen 127.0.0.1:{listen}; server_name {host}; location / {{ proxy_pass http://{upstream}; }} }}"
            )
        };
        for index in 0..size {
            server(index, &format!("{}:8080", address(index, 0)))?;
        }
        for index in hosts {
            server(index, "backend")?;
        }
        text.push_str("}\n");
        let file = directory.path().join("nginx.conf");
        std::fs::write(&file, text)?;
        let (prefix, file) = (place.to_string(), file.display().to_string());
        let args = ["-p", &prefix, "-c", &file, "-e", "stderr"];
        let process = Process::start("nginx", program, &args, &directory.path().join("nginx.log"));
        Ok(Self { process, port, _directory: directory })
    }
}

//! HTTP filters that compress responses.

use std::collections::HashMap;

use envoy_types::pb::envoy::config::core::v3 as core_v3;
use envoy_types::pb::envoy::extensions::compression::brotli::compressor::v3 as brotli_v3;
use envoy_types::pb::envoy::extensions::compression::gzip::compressor::v3 as gzip_v3;
use envoy_types::pb::envoy::extensions::compression::zstd::compressor::v3 as zstd_v3;
use envoy_types::pb::envoy::extensions::filters::http::compressor::v3 as compressor_v3;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3 as hcm_v3;
use envoy_types::pb::envoy::r#type::matcher::v3 as matcher_v3;
use envoy_types::pb::google::protobuf as google;

use super::{delegate, wire};
use crate::settings::{Compression, CompressionAlgorithm};

/// Builds a filter for each algorithm. The client's `accept-encoding` selects the algorithm; the first filter wins if
/// several are equally acceptable.
///
/// A response is not compressed if it is already compressed, small, or marked `cache-control: no-transform`.
/// Compression removes a strong `etag`, because the bytes differ from the identified bytes.
pub fn filters(compression: &Compression) -> Vec<hcm_v3::HttpFilter> {
    let enabled = &compression.algorithms;
    let filter = |one: &CompressionAlgorithm| hcm_v3::HttpFilter {
        name: name(*one),
        config_type: Some(hcm_v3::http_filter::ConfigType::TypedConfig(wire::any(&config(
            *one,
            Some(one) == enabled.first(),
            compression,
        )))),
        ..Default::default()
    };
    enabled.iter().map(filter).collect()
}

/// Builds the filters of a route with these algorithms, except for those of the settings.
pub fn of_route(wanted: &[CompressionAlgorithm], compression: &Compression) -> Vec<core_v3::TypedExtensionConfig> {
    let others = CompressionAlgorithm::ALL.into_iter();
    let others = others.filter(|one| wanted.contains(one) && !compression.algorithms.contains(one));
    others.map(|one| delegate::part(&name(one), &config(one, false, compression))).collect()
}

/// Builds the configuration that disables the algorithms of the settings on a route that does not want them, by filter.
pub fn off(wanted: &[CompressionAlgorithm], compression: &Compression) -> HashMap<String, google::Any> {
    use compressor_v3::compressor_per_route::Override;
    let off = wire::any(&compressor_v3::CompressorPerRoute { r#override: Some(Override::Disabled(true)) });
    let unwanted = compression.algorithms.iter().filter(|one| !wanted.contains(one));
    unwanted.map(|one| (name(*one), off.clone())).collect()
}

/// Returns the name of the filter of an algorithm, to which routes refer.
fn name(algorithm: CompressionAlgorithm) -> String {
    format!("envoy.filters.http.compressor.{}", word(algorithm))
}

fn word(algorithm: CompressionAlgorithm) -> &'static str {
    match algorithm {
        CompressionAlgorithm::Gzip => "gzip",
        CompressionAlgorithm::Brotli => "brotli",
        CompressionAlgorithm::Zstd => "zstd",
    }
}

/// Builds the configuration of a filter. A `preferred` algorithm is also used if the client accepts another one equally.
fn config(algorithm: CompressionAlgorithm, preferred: bool, compression: &Compression) -> compressor_v3::Compressor {
    let Compression { algorithms: _, content_types, minimum_bytes } = compression;
    let library = match algorithm {
        CompressionAlgorithm::Gzip => wire::any(&gzip_v3::Gzip::default()),
        CompressionAlgorithm::Brotli => wire::any(&brotli_v3::Brotli::default()),
        CompressionAlgorithm::Zstd => wire::any(&zstd_v3::Zstd::default()),
    };
    let common = compressor_v3::compressor::CommonDirectionConfig {
        min_content_length: Some(wire::uint32(*minimum_bytes)),
        content_type_matcher: content_types.iter().map(|one| media_type(one)).collect(),
        ..Default::default()
    };
    compressor_v3::Compressor {
        compressor_library: Some(core_v3::TypedExtensionConfig {
            name: format!("envoy.compression.{}.compressor", word(algorithm)),
            typed_config: Some(library),
        }),
        response_direction_config: Some(compressor_v3::compressor::ResponseDirectionConfig {
            common_config: Some(common),
            ..Default::default()
        }),
        choose_first: preferred,
        ..Default::default()
    }
}

/// Builds a match of a media type. Envoy compares the part before a `;`, such as in `text/html; charset=utf-8`.
fn media_type(name: &str) -> matcher_v3::StringMatcher {
    matcher_v3::StringMatcher {
        ignore_case: true,
        match_pattern: Some(matcher_v3::string_matcher::MatchPattern::Exact(name.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_compressed_by_default() {
        assert!(filters(&Compression::default()).is_empty());
    }

    #[test]
    fn every_algorithm_has_a_filter_with_its_name() {
        use CompressionAlgorithm::{Brotli, Gzip, Zstd};
        let filters = filters(&Compression { algorithms: vec![Brotli, Gzip, Zstd], ..Compression::default() });
        let names: Vec<_> = filters.iter().map(|filter| filter.name.rsplit('.').next().unwrap_or_default()).collect();
        assert_eq!(names, ["brotli", "gzip", "zstd"]);
    }
}

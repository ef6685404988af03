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

use super::wire;
use crate::settings::{Compression, CompressionAlgorithm};

/// Builds a filter for each algorithm. The client's `accept-encoding` selects the algorithm; the first filter wins if
/// several are equally acceptable. With `for_routes`, the other algorithms have filters too, which compress only the responses of
/// routes that ask for it. If its value is true, Envoy creates them only for these routes.
///
/// A response is not compressed if it is already compressed, small, or marked `cache-control: no-transform`.
/// Compression removes a strong `etag`, because the bytes differ from the identified bytes.
pub fn filters(compression: &Compression, for_routes: Option<bool>) -> Vec<hcm_v3::HttpFilter> {
    let enabled = &compression.algorithms;
    let preferred = enabled.first();
    let others = CompressionAlgorithm::ALL.into_iter().filter(|one| !enabled.contains(one));
    let others = for_routes.into_iter().flat_map(|disabled| {
        let filter = move |one| hcm_v3::HttpFilter { disabled, ..filter(one, Responses::OfRoutes, compression) };
        others.clone().map(filter)
    });
    let all = |one| Responses::All { preferred: Some(one) == preferred };
    enabled.iter().map(|one| filter(*one, all(one), compression)).chain(others).collect()
}

/// Builds the configuration of a route with these algorithms, by filter. `enabled` are the algorithms of the settings.
pub fn per_route(wanted: &[CompressionAlgorithm], enabled: &[CompressionAlgorithm]) -> HashMap<String, google::Any> {
    use compressor_v3::compressor_per_route::Override;
    let differing = CompressionAlgorithm::ALL.into_iter().filter(|one| wanted.contains(one) != enabled.contains(one));
    let config = |one| {
        let said = match wanted.contains(&one) {
            false => Override::Disabled(true),
            true => Override::Overrides(compressor_v3::CompressorOverrides {
                response_direction_config: Some(compressor_v3::ResponseDirectionOverrides::default()),
                ..Default::default()
            }),
        };
        (name(one), wire::any(&compressor_v3::CompressorPerRoute { r#override: Some(said) }))
    };
    differing.map(config).collect()
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

/// The responses that a filter compresses.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Responses {
    /// All. `preferred`: also if the client accepts another algorithm equally.
    All { preferred: bool },
    /// Those of routes that ask for it.
    OfRoutes,
}

fn filter(algorithm: CompressionAlgorithm, responses: Responses, compression: &Compression) -> hcm_v3::HttpFilter {
    let Compression { algorithms: _, content_types, minimum_bytes } = compression;
    let library = match algorithm {
        CompressionAlgorithm::Gzip => wire::any(&gzip_v3::Gzip::default()),
        CompressionAlgorithm::Brotli => wire::any(&brotli_v3::Brotli::default()),
        CompressionAlgorithm::Zstd => wire::any(&zstd_v3::Zstd::default()),
    };
    // No runtime flag has this name.
    let off = core_v3::RuntimeFeatureFlag {
        default_value: Some(wire::boolean(false)),
        runtime_key: "lockgate.compression".to_owned(),
    };
    let common = compressor_v3::compressor::CommonDirectionConfig {
        enabled: (responses == Responses::OfRoutes).then_some(off),
        min_content_length: Some(wire::uint32(*minimum_bytes)),
        content_type_matcher: content_types.iter().map(|one| media_type(one)).collect(),
        ..Default::default()
    };
    let config = compressor_v3::Compressor {
        compressor_library: Some(core_v3::TypedExtensionConfig {
            name: format!("envoy.compression.{}.compressor", word(algorithm)),
            typed_config: Some(library),
        }),
        response_direction_config: Some(compressor_v3::compressor::ResponseDirectionConfig {
            common_config: Some(common),
            ..Default::default()
        }),
        choose_first: responses == Responses::All { preferred: true },
        ..Default::default()
    };
    hcm_v3::HttpFilter {
        name: name(algorithm),
        config_type: Some(hcm_v3::http_filter::ConfigType::TypedConfig(wire::any(&config))),
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
        assert!(filters(&Compression::default(), None).is_empty());
    }

    #[test]
    fn every_algorithm_has_a_filter_with_its_name() {
        use CompressionAlgorithm::{Brotli, Gzip, Zstd};
        let filters = filters(&Compression { algorithms: vec![Brotli, Gzip, Zstd], ..Compression::default() }, None);
        let names: Vec<_> = filters.iter().map(|filter| filter.name.rsplit('.').next().unwrap_or_default()).collect();
        assert_eq!(names, ["brotli", "gzip", "zstd"]);
    }
}

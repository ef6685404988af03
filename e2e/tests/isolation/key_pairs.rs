//! A key pair that Envoy rejects is never sent. All key pairs are in one response, so one invalid pair would prevent a
//! new Envoy from receiving the key pairs of all tenants.

mod der;
mod mutation;
mod odd;
mod verdicts;

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use e2e::attacks::key_pairs::{fixture, malformed};
use e2e::certificates::Pair;
use e2e::manifests::{documents, ingress, ingress_class, service};
use e2e::{Authority, Backend, Envoy, Lockgate, Manifests, Mode, Source, Target, wait_until};
use lockgate::source::secret;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;

use mutation::Numbers;
use verdicts::{Judge, Subject, pem};

/// The number of listeners in one update of Envoy.
const BATCH: usize = 250;
/// The number of hosts of the victims.
const VICTIMS: usize = 13;

/// The time of the checks, at which the certificates of the fixtures are valid.
fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_830_000_000)
}

/// A chain of certificates and the key of the first one, in DER.
#[derive(Clone)]
struct Material {
    chain: Vec<Vec<u8>>,
    label: &'static str,
    key: Vec<u8>,
}

impl Material {
    fn new(chain: Vec<Vec<u8>>, key: &[u8]) -> Self {
        let key = PrivateKeyDer::from_pem_slice(key).expect("a key");
        let label = match &key {
            PrivateKeyDer::Pkcs1(_) => "RSA PRIVATE KEY",
            PrivateKeyDer::Sec1(_) => "EC PRIVATE KEY",
            _ => "PRIVATE KEY",
        };
        Self { chain, label, key: key.secret_der().to_vec() }
    }

    fn of_fixture(crt: &str, key: &str) -> Self {
        let pem = fixture(crt);
        let crt = rustls::pki_types::CertificateDer::from_pem_slice(&pem).expect("a certificate");
        Self::new(vec![crt.to_vec()], &fixture(key))
    }

    fn of_pair(pair: &Pair, authority: &Authority) -> Self {
        Self::new(vec![pair.der.to_vec(), authority.der().to_vec()], pair.key.as_bytes())
    }

    fn subject(&self) -> Subject {
        let chain = self.chain.iter().flat_map(|der| pem("CERTIFICATE", der)).collect();
        Subject::Pair { chain, key: pem(self.label, &self.key) }
    }
}

/// Returns the key pair that Lockgate would send to Envoy for a subject, or the reason for rejecting it.
fn checked(subject: &Subject) -> Result<Subject, String> {
    match subject {
        Subject::Pair { chain, key } => secret::key_pair(chain, key, now())
            .map_err(|unusable| unusable.fault)
            .map(|pair| Subject::Pair { chain: pair.certificate_chain, key: pair.private_key }),
        Subject::Authorities(ca) => secret::authorities(ca).map(|pem| Subject::Authorities(pem.into_bytes())),
    }
}

/// The combinations of the results of Lockgate and Envoy.
#[derive(Default)]
struct Comparison {
    both_accept: usize,
    both_reject: usize,
    stricter: BTreeMap<String, usize>,
    weaker: Vec<String>,
}

impl Comparison {
    /// Checks subjects, each with a name. If Lockgate accepts a subject, Envoy checks the key pair that Lockgate would
    /// send. Otherwise, Envoy checks the content of the Secret.
    async fn add(&mut self, judge: &mut Judge, subjects: &[(String, Subject)]) {
        let ours: Vec<Result<Subject, String>> = subjects.iter().map(|(_, subject)| checked(subject)).collect();
        let sent: Vec<Subject> = ours
            .iter()
            .zip(subjects)
            .map(|(ours, (_, subject))| ours.clone().unwrap_or_else(|_| subject.clone()))
            .collect();
        for ((ours, envoy), (name, _)) in ours.iter().zip(judge.judge(&sent).await).zip(subjects) {
            match (ours, envoy) {
                (Ok(_), None) => self.both_accept += 1,
                (Err(_), Some(_)) => self.both_reject += 1,
                (Err(fault), None) => *self.stricter.entry(fault.clone()).or_default() += 1,
                (Ok(_), Some(reason)) => self.weaker.push(format!("{name}: {reason}")),
            }
        }
    }
}

/// The environment variable `MUTATIONS` sets the number of mutations.
#[tokio::test(flavor = "multi_thread")]
async fn envoy_accepts_every_key_pair_that_passes_the_check() {
    let count = std::env::var("MUTATIONS").ok().and_then(|text| text.parse().ok()).unwrap_or(500);
    let authority = Authority::new();
    let material = [
        Material::of_pair(&authority.issue(&["a.test", "*.a.test"]), &authority),
        Material::of_fixture("p256.crt", "p256-sec1.key"),
        Material::of_fixture("rsa2048.crt", "rsa2048.key"),
        Material::of_fixture("rsa2048.crt", "rsa2048-pkcs1.key"),
        Material::of_fixture("p521.crt", "p521.key"),
        Material::of_fixture("p521.crt", "p521-sec1.key"),
        Material::of_fixture("version1.crt", "rsa2048.key"),
    ];
    let mut judge = Judge::start(material[0].subject()).await;
    let mut numbers = Numbers::new(16);
    let mut comparison = Comparison::default();
    let subjects: Vec<(String, Subject)> = (0..count).map(|_| numbers.subject(&material)).collect();
    for batch in subjects.chunks(BATCH) {
        comparison.add(&mut judge, batch).await;
    }
    let stricter: usize = comparison.stricter.values().sum();
    println!(
        "key pairs: {count} mutations, {} accepted by both, {} rejected by both, {stricter} stricter than Envoy, {} weaker \
         than Envoy",
        comparison.both_accept,
        comparison.both_reject,
        comparison.weaker.len(),
    );
    for (fault, times) in &comparison.stricter {
        println!("stricter, {times} times: {fault}");
    }
    assert_eq!(comparison.weaker, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn odd_certificates_and_keys_have_the_verdict_of_envoy() {
    let authority = Authority::new();
    let good = Material::of_pair(&authority.issue(&["a.test"]), &authority);
    let mut judge = Judge::start(good.subject()).await;
    let mut wrong = Vec::new();
    let cases = odd::cases(&good);
    let raw: Vec<Subject> = cases.iter().map(|case| case.subject.clone()).collect();
    let ours: Vec<Result<Subject, String>> = raw.iter().map(checked).collect();
    let sent: Vec<Subject> = ours.iter().zip(&raw).map(|(ours, raw)| ours.clone().unwrap_or(raw.clone())).collect();
    let (envoy, envoy_sent) = (judge.judge(&raw).await, judge.judge(&sent).await);
    for (((case, ours), envoy), envoy_sent) in cases.iter().zip(&ours).zip(&envoy).zip(&envoy_sent) {
        let word = |accepts: bool| if accepts { "accepts" } else { "rejects" };
        let verdict = match (ours.is_ok(), envoy.is_none()) {
            (true, false) => "mended",
            (false, true) => "stricter",
            _ => "same",
        };
        println!(
            "{:<8} {:<52} Envoy {}, Lockgate {}{}{}",
            verdict,
            case.name,
            word(envoy.is_none()),
            word(ours.is_ok()),
            ours.as_ref().err().map(|fault| format!(": {fault}")).unwrap_or_default(),
            envoy
                .as_ref()
                .map(|reason| format!("; Envoy: {}", reason.lines().next().unwrap_or_default()))
                .unwrap_or_default(),
        );
        if ours.is_ok() && envoy_sent.is_some() || verdict != case.verdict {
            wrong.push(format!("{}: {verdict}, not {}; {envoy_sent:?}", case.name, case.verdict));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

/// Victims, an attacker, and the controller that serves them.
struct Site {
    manifests: Manifests,
    authority: Authority,
    victims: Vec<String>,
    lockgate: Lockgate,
    _config: Manifests,
}

impl Site {
    /// The victims and the attacker exist from the start. A new Envoy receives all key pairs in one response.
    async fn under_attack(attack: impl Fn(&Authority) -> Pair, settings: &str, backend: &Backend) -> Self {
        let (manifests, config, authority) = (Manifests::new(), Manifests::new(), Authority::new());
        let mut victims = vec![ingress_class(), service("shop", "", &[([127, 0, 0, 1], backend.port()).into()])];
        for i in 0..VICTIMS {
            let name = format!("victim-{i}");
            victims.push(ingress(&name, &host(i), "shop", Some(&name)));
            victims.push(authority.issue(&[&host(i)]).secret("default", &name));
        }
        manifests.write("victims.yaml", &documents(&victims));
        let attacker = ingress("attacker", "attacker.test", "shop", Some("bad"));
        let attacker = attacker.replace("namespace: default", "namespace: attacker");
        manifests.write("attacker.yaml", &documents(&[attacker, attack(&authority).secret("attacker", "bad")]));
        config.write("lockgate.yaml", settings);
        let file = config.file("lockgate.yaml").display().to_string();
        let lockgate = Lockgate::start(&Source::Manifests(manifests.path().into()), &["--config", &file]).await;
        Self { manifests, authority, victims, lockgate, _config: config }
    }

    async fn serves(&self, host: &str) -> bool {
        let target = Target::https(self.lockgate.https, host, self.authority.der());
        target.get("/").await.is_ok_and(|answer| answer.status == 200)
    }

    /// Asserts that new Envoys of both variants serve all victims and reject nothing.
    async fn assert_victims_served(&self) {
        for mode in [Mode::Delta, Mode::Sotw] {
            let envoy = Envoy::start(&self.lockgate, mode).await;
            for host in (0..VICTIMS).map(host) {
                wait_until(&format!("an answer of {host}"), async || self.serves(&host).await).await;
            }
            let rejected: u64 = envoy.stats("update_rejected$").await.values().sum();
            assert_eq!(rejected, 0, "{:?}", envoy.warnings());
        }
    }

    async fn problems(&self) -> String {
        self.lockgate.get("/debug/problems").await.text()
    }
}

fn host(i: usize) -> String {
    format!("h{i}.victim.test")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_key_pair_costs_other_tenants_nothing() {
    let backend = Backend::start("a").await;
    let attack = |authority: &Authority| malformed(&authority.issue(&["attacker.test"]));
    let mut site = Site::under_attack(attack, "", &backend).await;
    site.assert_victims_served().await;
    let problems = site.problems().await;
    assert!(problems.contains("attacker") && problems.contains("certificate 1 is not X.509"), "{problems}");

    // The last good key pair stays when a Secret becomes invalid, also for a later Envoy.
    site.victims[3] = malformed(&site.authority.issue(&[&host(0)])).secret("default", "victim-0");
    site.manifests.write("victims.yaml", &documents(&site.victims));
    wait_until("the problem of the victim", async || site.problems().await.contains("victim-0")).await;
    assert!(site.problems().await.contains("last good key pair kept"));
    site.assert_victims_served().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_pair_that_http3_cannot_serve_costs_other_tenants_nothing() {
    let backend = Backend::start("a").await;
    let attack = |_: &Authority| {
        let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).expect("a key");
        let params = rcgen::CertificateParams::new(["attacker.test".to_owned()]).expect("a name");
        let certificate = params.self_signed(&key).expect("a certificate");
        Pair { certificate: certificate.pem(), der: certificate.der().clone(), key: key.serialize_pem() }
    };
    let site = Site::under_attack(attack, "http: { http3: { enabled: true } }\n", &backend).await;
    site.assert_victims_served().await;
    let problems = site.problems().await;
    assert!(problems.contains("attacker") && problems.contains("the key is Ed25519"), "{problems}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_key_pair_is_served_and_costs_other_tenants_nothing() {
    let backend = Backend::start("a").await;
    let attack = |_: &Authority| {
        let mut params = rcgen::CertificateParams::new(["attacker.test".to_owned()]).expect("a name");
        (params.not_before, params.not_after) = (rcgen::date_time_ymd(2020, 1, 1), rcgen::date_time_ymd(2021, 1, 1));
        let key = rcgen::KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate");
        Pair { certificate: certificate.pem(), der: certificate.der().clone(), key: key.serialize_pem() }
    };
    let site = Site::under_attack(attack, "", &backend).await;
    site.assert_victims_served().await;
    let problems = site.problems().await;
    assert!(problems.contains("the certificate expired on Jan  1 00:00:00 2021"), "{problems}");
    assert!(problems.contains("still served, but clients reject it"), "{problems}");
    assert!(site.lockgate.resources().await.contains_key("Secret attacker/bad"), "Envoy has it");
}

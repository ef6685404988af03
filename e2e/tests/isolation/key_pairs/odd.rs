//! Certificates and keys as they exist in the wild, and as nobody should write them.

use e2e::attacks::key_pairs::mismatched;

use super::der::Node;
use super::verdicts::{Subject, pem};
use super::{Material, fixture};

/// An odd certificate, chain, key, or bundle.
pub struct Case {
    pub name: String,
    pub subject: Subject,
    /// `same` verdict as Envoy, `stricter`, or `mended`: Envoy rejects what is in the Secret and accepts what is sent.
    pub verdict: &'static str,
}

/// Where the parts of a certificate of version 3 are.
const VERSION: &[usize] = &[0, 0];
const SERIAL: &[usize] = &[0, 1];
const ISSUER: &[usize] = &[0, 3];
const NOT_BEFORE: &[usize] = &[0, 4, 0];
const NOT_AFTER: &[usize] = &[0, 4, 1];
const SUBJECT: &[usize] = &[0, 5];
const PUBLIC_KEY: &[usize] = &[0, 6];
const EXTENSIONS: &[usize] = &[0, 7, 0];
const SIGNATURE: &[usize] = &[2];

const CN: &[u8] = &[0x55, 4, 3];
const SAN: &[u8] = &[0x55, 0x1d, 0x11];
const KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x0f];
const TLS_FEATURE: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 1, 0x18];
const UNKNOWN: &[u8] = &[0x2a, 3, 4, 5];

fn extension(identifier: &[u8], critical: Option<u8>, value: &[u8]) -> Node {
    let mut children = vec![Node::new(0x06, identifier)];
    children.extend(critical.map(|critical| Node::new(0x01, &[critical])));
    children.push(Node::new(0x04, value));
    Node::of(0x30, &children)
}

fn name(tag: u8, common_name: &[u8]) -> Node {
    Node::of(0x30, &[Node::of(0x31, &[Node::of(0x30, &[Node::new(0x06, CN), Node::new(tag, common_name)])])])
}

/// A change of a certificate's tree.
type Change = Box<dyn Fn(&mut Node)>;

fn set(path: &'static [usize], node: Node) -> Change {
    Box::new(move |root| *root.at(path) = node.clone())
}

fn insert(path: &'static [usize], at: usize, node: Node) -> Change {
    Box::new(move |root| root.at(path).children.insert(at, node.clone()))
}

/// Replaces the extensions; with `subject` the subject too.
fn only(subject: Option<Node>, extensions: &[Node]) -> Change {
    let extensions = extensions.to_vec();
    Box::new(move |root| {
        if let Some(subject) = &subject {
            *root.at(SUBJECT) = subject.clone();
        }
        root.at(EXTENSIONS).children = extensions.clone();
    })
}

fn all(changes: Vec<Change>) -> Change {
    Box::new(move |root| changes.iter().for_each(|change| change(root)))
}

/// Changes of certificates, each with the verdict about it.
fn certificates() -> Vec<(&'static str, Change, &'static str)> {
    let (same, stricter) = ("same", "stricter");
    let dns = |text: &[u8]| Node::new(0x82, text);
    let san = |names: &[Node]| extension(SAN, None, &Node::of(0x30, names).encode());
    let empty = || Some(Node::of(0x30, &[]));
    let usage = |bits: &[u8]| extension(KEY_USAGE, Some(0xff), &Node::new(0x03, bits).encode());
    let utc = |text: &str| Node::new(0x17, text.as_bytes());
    let generalized = |text: &str| Node::new(0x18, text.as_bytes());
    let a_test = || san(&[dns(b"a.test")]);
    vec![
        ("unchanged", all(vec![]), same),
        ("negative serial number", set(SERIAL, Node::new(2, &[0x80, 1])), same),
        ("serial number of 30 bytes", set(SERIAL, Node::new(2, &[0x11; 30])), same),
        ("serial number 0", set(SERIAL, Node::new(2, &[0])), same),
        ("serial number with a leading zero", set(SERIAL, Node::new(2, &[0, 1])), same),
        ("serial number without content", set(SERIAL, Node::new(2, &[])), same),
        (
            "explicit version 1",
            all(vec![
                set(VERSION, Node::of(0xa0, &[Node::new(2, &[0])])),
                Box::new(|root| drop(root.at(&[0]).children.pop())),
            ]),
            stricter,
        ),
        ("version 1 with extensions", set(VERSION, Node::of(0xa0, &[Node::new(2, &[0])])), same),
        ("version 2 with extensions", set(VERSION, Node::of(0xa0, &[Node::new(2, &[1])])), same),
        ("version 4", set(VERSION, Node::of(0xa0, &[Node::new(2, &[3])])), same),
        ("UTCTime without seconds", set(NOT_BEFORE, utc("2601010000Z")), same),
        ("UTCTime with an offset", set(NOT_BEFORE, utc("260101000000+0100")), stricter),
        ("UTCTime of month 13", set(NOT_AFTER, utc("361301000000Z")), same),
        ("UTCTime of February 30", set(NOT_AFTER, utc("360230000000Z")), same),
        ("UTCTime of February 29", set(NOT_AFTER, utc("360229000000Z")), same),
        ("UTCTime of 1950", set(NOT_BEFORE, utc("500101000000Z")), same),
        ("GeneralizedTime before 2050", set(NOT_AFTER, generalized("20360101000000Z")), same),
        ("GeneralizedTime without an end", set(NOT_AFTER, generalized("99991231235959Z")), same),
        ("GeneralizedTime with a fraction", set(NOT_AFTER, generalized("20360101000000.5Z")), same),
        ("GeneralizedTime with a second of 60", set(NOT_AFTER, generalized("20360101000060Z")), same),
        ("GeneralizedTime of the year 0", set(NOT_BEFORE, generalized("00000101000000Z")), same),
        ("signature with unused bits that are set", set(SIGNATURE, Node::new(3, &[1, 0xff])), same),
        ("signature with 8 unused bits", set(SIGNATURE, Node::new(3, &[8, 0])), same),
        ("signature without content", set(SIGNATURE, Node::new(3, &[])), same),
        ("signature of no bytes", set(SIGNATURE, Node::new(3, &[0])), same),
        ("another signature algorithm inside", set(&[0, 2], Node::of(0x30, &[Node::new(6, UNKNOWN)])), same),
        ("algorithm with three fields", insert(&[1], 1, Node::of(0x30, &[Node::new(5, &[]), Node::new(5, &[])])), same),
        ("object identifier with a leading 0x80", set(&[1], Node::of(0x30, &[Node::new(6, &[0x80, 1])])), same),
        ("object identifier that is cut", set(&[1], Node::of(0x30, &[Node::new(6, &[0x2a, 0x86])])), same),
        ("object identifier without content", set(&[1], Node::of(0x30, &[Node::new(6, &[])])), same),
        (
            "object identifier with large numbers",
            insert(
                EXTENSIONS,
                0,
                extension(&[0x69, 0x83, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f], None, &[]),
            ),
            same,
        ),
        ("extension that is critical and unknown", insert(EXTENSIONS, 0, extension(UNKNOWN, Some(0xff), &[])), same),
        ("extension with an explicit FALSE", insert(EXTENSIONS, 0, extension(UNKNOWN, Some(0), &[])), same),
        ("extension with the BOOLEAN 1", insert(EXTENSIONS, 0, extension(UNKNOWN, Some(1), &[])), stricter),
        ("extension without a value", insert(EXTENSIONS, 0, Node::of(0x30, &[Node::new(6, UNKNOWN)])), same),
        (
            "unknown extension twice",
            all(vec![
                insert(EXTENSIONS, 0, extension(UNKNOWN, None, &[])),
                insert(EXTENSIONS, 0, extension(UNKNOWN, None, &[])),
            ]),
            stricter,
        ),
        ("alternative names twice", insert(EXTENSIONS, 0, a_test()), stricter),
        ("no extensions in the field", only(None, &[]), same),
        ("alternative names without a common name", only(empty(), &[a_test()]), same),
        (
            "alternative names that are garbage, and a common name",
            only(None, &[extension(SAN, None, &[1, 2, 3])]),
            stricter,
        ),
        ("alternative names that are garbage, alone", only(empty(), &[extension(SAN, None, &[1, 2, 3])]), same),
        ("an email address alone", only(empty(), &[san(&[Node::new(0x81, b"a@a.test")])]), same),
        ("a directory name alone", only(empty(), &[san(&[Node::of(0xa4, &[name(12, b"a")])])]), same),
        ("an address alone", only(empty(), &[san(&[Node::new(0x87, &[10, 0, 0, 1])])]), same),
        ("an address of 5 bytes alone", only(empty(), &[san(&[Node::new(0x87, &[10, 0, 0, 1, 1])])]), same),
        ("a URI alone", only(empty(), &[san(&[Node::new(0x86, b"spiffe://a.test/b")])]), same),
        ("a DNS name that is not ASCII", only(empty(), &[san(&[dns(&[0xc3, 0xa4])])]), stricter),
        ("a DNS name without content", only(empty(), &[san(&[dns(b"")])]), same),
        (
            "a DNS name and a constructed one",
            only(empty(), &[san(&[dns(b"a.test"), Node::of(0xa2, &[dns(b"b")])])]),
            same,
        ),
        (
            "a DNS name and a bad other name",
            only(empty(), &[san(&[dns(b"a.test"), Node::of(0xa0, &[Node::new(5, &[])])])]),
            same,
        ),
        (
            "a DNS name and another name",
            only(
                empty(),
                &[san(&[
                    dns(b"a.test"),
                    Node::of(0xa0, &[Node::new(6, UNKNOWN), Node::of(0xa0, &[Node::new(12, b"x")])]),
                ])],
            ),
            same,
        ),
        (
            "a DNS name and a registered identifier",
            only(empty(), &[san(&[dns(b"a.test"), Node::new(0x88, UNKNOWN)])]),
            same,
        ),
        ("neither name", only(empty(), &[extension(UNKNOWN, None, &[])]), same),
        ("common name without content", set(SUBJECT, name(12, b"")), same),
        ("common name that is not UTF-8", set(SUBJECT, name(12, b"a\xff")), same),
        ("common name with a noncharacter", set(SUBJECT, name(12, "a\u{fffe}".as_bytes())), same),
        ("common name with NUL", set(SUBJECT, name(12, b"a\0b")), same),
        ("common name as PrintableString with *", set(SUBJECT, name(19, b"*.a_b.test")), same),
        ("common name as T61String with umlauts", set(SUBJECT, name(20, &[0xe4])), same),
        ("common name as BMPString", set(SUBJECT, name(30, &[0, b'a'])), same),
        ("common name as BMPString of 3 bytes", set(SUBJECT, name(30, &[0, b'a', 0])), same),
        ("common name as BMPString with a surrogate", set(SUBJECT, name(30, &[0xd8, 0])), same),
        ("common name as UniversalString", set(SUBJECT, name(28, &[0, 0, 0, b'a'])), stricter),
        ("common name as IA5String", set(SUBJECT, name(22, b"a.test")), same),
        ("common name as OCTET STRING", set(SUBJECT, name(4, b"a.test")), same),
        ("common name as a constructed string", set(SUBJECT, name(0x2c, b"a.test")), same),
        ("common name as BOOLEAN 1", set(SUBJECT, name(1, &[1])), same),
        ("issuer with an empty set", set(ISSUER, Node::of(0x30, &[Node::new(0x31, &[])])), same),
        ("issuer without attributes", set(ISSUER, Node::new(0x30, &[])), same),
        (
            "issuer with a set in the wrong order",
            set(
                ISSUER,
                Node::of(
                    0x30,
                    &[Node::of(
                        0x31,
                        &[
                            Node::of(0x30, &[Node::new(6, &[0x55, 4, 10]), Node::new(12, b"b")]),
                            Node::of(0x30, &[Node::new(6, CN), Node::new(12, b"a")]),
                        ],
                    )],
                ),
            ),
            same,
        ),
        ("key usage of an ECDSA key with digitalSignature", only(None, &[a_test(), usage(&[7, 0x80])]), same),
        ("key usage of an ECDSA key without digitalSignature", only(None, &[a_test(), usage(&[5, 0x20])]), same),
        ("key usage with unused bits that are set", only(None, &[a_test(), usage(&[7, 0xff])]), same),
        ("key usage that is garbage", only(None, &[a_test(), extension(KEY_USAGE, None, &[1, 2, 3])]), same),
        ("must staple", insert(EXTENSIONS, 0, extension(TLS_FEATURE, None, &[0x30, 3, 2, 1, 5])), same),
        ("another TLS feature", insert(EXTENSIONS, 0, extension(TLS_FEATURE, None, &[0x30, 3, 2, 1, 17])), same),
        ("unique identifiers", insert(&[0], 7, Node::new(0x81, &[0, 1])), same),
        ("unique identifier with bad unused bits", insert(&[0], 7, Node::new(0x81, &[1, 1])), same),
        ("one more field", insert(&[0], 8, Node::new(5, &[])), same),
        ("public key with an unused bit", Box::new(|root| root.at(PUBLIC_KEY).children[1].content[0] = 1), same),
        (
            "public key with NULL as its curve",
            Box::new(|root| root.at(PUBLIC_KEY).children[0].children[1] = Node::new(5, &[])),
            same,
        ),
        ("public key not on its curve", Box::new(|root| root.at(PUBLIC_KEY).children[1].content[10] ^= 1), same),
        (
            "public key as a compressed point",
            Box::new(|root| {
                let point = &mut root.at(PUBLIC_KEY).children[1].content;
                point[1] = 2 + (point[65] & 1);
                point.truncate(34);
            }),
            same,
        ),
    ]
}

/// All cases, made from a good chain with an ECDSA key.
pub fn cases(good: &Material) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut case = |name: String, subject: Subject, verdict| cases.push(Case { name, subject, verdict });
    for (name, change, verdict) in certificates() {
        let mut root = Node::parse(&good.chain[0]);
        change(&mut root);
        let mut changed = good.clone();
        changed.chain[0] = root.encode();
        case(name.to_owned(), changed.subject(), verdict);
    }
    // Encodings that a tree cannot have.
    let leaf = &good.chain[0];
    let content = &leaf[4..];
    let encodings: [(&str, Vec<u8>, &str); 4] = [
        ("certificate with a byte behind it", [leaf, &[0][..]].concat(), "stricter"),
        ("certificate of indefinite length", [&[0x30, 0x80][..], content, &[0, 0]].concat(), "same"),
        ("certificate with a long form of its length", [&[0x30, 0x83, 0][..], &leaf[2..]].concat(), "same"),
        ("certificate that is cut", leaf[..leaf.len() - 1].to_vec(), "same"),
    ];
    for (name, der, verdict) in encodings {
        for (place, at) in [("leaf", 0), ("issuer", 1)] {
            let mut changed = good.clone();
            changed.chain[at] = der.clone();
            case(format!("{name}, as {place}"), changed.subject(), if at == 0 { "same" } else { verdict });
        }
        case(format!("{name}, as authority"), Subject::Authorities(pem("CERTIFICATE", &der)), verdict);
    }
    // Keys of all sizes and curves.
    let pair = |chain: &[u8], key: &[u8]| Subject::Pair { chain: chain.to_vec(), key: key.to_vec() };
    for (crt, key) in [
        ("rsa1024.crt", "rsa1024.key"),
        ("rsa2048.crt", "rsa2048.key"),
        ("rsa2048.crt", "rsa2048-pkcs1.key"),
        ("rsa5000.crt", "rsa5000.key"),
        ("version1.crt", "rsa2048.key"),
        ("p224.crt", "p224.key"),
        ("p256.crt", "p256-sec1.key"),
        ("p521.crt", "p521.key"),
        ("p521.crt", "p521-sec1.key"),
        ("p521.crt", "p521-other.key"),
    ] {
        case(format!("{crt} with {key}"), pair(&fixture(crt), &fixture(key)), "same");
    }
    let mismatched = mismatched();
    case(
        "rsa5000.crt with its modulus and another private exponent".into(),
        pair(mismatched.certificate.as_bytes(), mismatched.key.as_bytes()),
        "same",
    );
    for (name, algorithm, verdict) in [
        ("P-256 by rcgen", &rcgen::PKCS_ECDSA_P256_SHA256, "same"),
        ("P-384 by rcgen", &rcgen::PKCS_ECDSA_P384_SHA384, "same"),
        ("Ed25519 by rcgen, whose key is PKCS#8 version 2", &rcgen::PKCS_ED25519, "mended"),
    ] {
        let key = rcgen::KeyPair::generate_for(algorithm).expect("a key");
        let params = rcgen::CertificateParams::new(["a.test".to_owned()]).expect("a name");
        let crt = params.self_signed(&key).expect("a certificate").pem();
        case(name.to_owned(), pair(crt.as_bytes(), key.serialize_pem().as_bytes()), verdict);
    }
    // PEM.
    let Subject::Pair { chain, key } = good.subject() else { return cases };
    let other = Material::of_fixture("p521.crt", "p521.key");
    let windows = |pem: &[u8]| String::from_utf8_lossy(pem).replace('\n', "\r\n").into_bytes();
    let reversed = Material { chain: good.chain.iter().rev().cloned().collect(), ..good.clone() };
    let bare = Material { chain: vec![leaf.clone()], ..good.clone() };
    let twice = Material { chain: vec![leaf.clone(), leaf.clone()], ..good.clone() };
    let foreign = Material { chain: vec![leaf.clone(), other.chain[0].clone()], ..good.clone() };
    case("no issuer".into(), bare.subject(), "same");
    case("the leaf twice".into(), twice.subject(), "same");
    case("a foreign issuer".into(), foreign.subject(), "same");
    case("issuer before leaf".into(), reversed.subject(), "same");
    case("PEM with CRLF".into(), pair(&windows(&chain), &windows(&key)), "same");
    case("PEM with text around it".into(), pair(&[b"subject: a\n", &chain[..], b"end\n"].concat(), &key), "same");
    case("PEM with a byte order mark".into(), pair(&[b"\xef\xbb\xbf", &chain[..]].concat(), &key), "same");
    case(
        "PEM with spaces at line ends".into(),
        pair(&String::from_utf8_lossy(&chain).replace("\n", " \n").into_bytes(), &key),
        "same",
    );
    case("PEM without a last line end".into(), pair(chain.trim_ascii_end(), key.trim_ascii_end()), "same");
    case("PEM without an end".into(), pair(&chain[..chain.len() - 30], &key), "same");
    case("two keys".into(), pair(&chain, &[&key[..], &key].concat()), "stricter");
    case("certificates behind the key".into(), pair(&chain, &[&key[..], &chain].concat()), "same");
    case(
        "EC PARAMETERS before the key".into(),
        pair(&chain, &[&pem("EC PARAMETERS", &[6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7])[..], &key].concat()),
        "same",
    );
    case("no key".into(), pair(&chain, b""), "same");
    case("a key of another pair".into(), pair(&chain, &fixture("p521.key")), "same");
    case("a key with another label".into(), pair(&chain, &pem("RSA PRIVATE KEY", &good.key)), "same");
    case(
        "authorities with CRLF and text".into(),
        Subject::Authorities([&b"a\r\n"[..], &windows(&chain)].concat()),
        "same",
    );
    case("authorities without a certificate".into(), Subject::Authorities(b"a".to_vec()), "same");
    cases
}

//! Forgeries: signed deliveries with something changed, none of which may be believed (X2).
//!
//! A hundred thousand with every run; `BELL_FORGERIES=1000000 cargo test -p bell-intake forgeries` makes a million.

use bell_core::work::Wall;

use crate::delivery::Delivery;
use crate::refused::Refused;
use crate::secret::{Secret, Trust};
use crate::source::{Draft, Encoding, HmacScheme, Kind, Signed, Source};

const NOW: Wall = Wall(1_700_000_000_000);
const KEY: [u8; 32] = [7; 32];
const OTHER_KEY: [u8; 32] = [8; 32];
/// Ed25519 takes milliseconds without optimisation, where the others take microseconds.
const SLOW_SHARE: u64 = 256;

/// Numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.roll() % end.max(1) as u64).unwrap()
    }

    /// Changes something about these bytes.
    fn spoil(&mut self, bytes: &mut Vec<u8>) {
        let (at, byte) = (self.below(bytes.len()), u8::try_from(self.roll() % 256).unwrap());
        match self.below(7) {
            0 if !bytes.is_empty() => bytes[at] ^= 1 << (byte % 8),
            1 if !bytes.is_empty() => bytes[at] = byte,
            2 if !bytes.is_empty() => drop(bytes.remove(at)),
            3 => bytes.insert(at, byte),
            4 => bytes.truncate(at),
            5 => bytes.push(b' '),
            _ => bytes.iter_mut().skip(at).take(1).for_each(|b| *b = b.to_ascii_uppercase()),
        }
    }
}

fn kinds() -> Vec<Kind> {
    let base64 = HmacScheme { prefix: "sha256=".into(), encoding: Encoding::Base64, ..HmacScheme::default() };
    vec![
        Kind::Github,
        Kind::Sentry,
        Kind::Linear,
        Kind::Mintlify,
        Kind::Slack,
        Kind::StandardWebhooks,
        Kind::Hmac(HmacScheme::default()),
        Kind::Hmac(base64),
        Kind::Discord,
    ]
}

fn signed(kind: &Kind, dice: &mut Dice, key: &[u8; 32]) -> Signed {
    let body = format!(r#"{{"type":2,"action":"opened","n":{}}}"#, dice.roll()).into_bytes();
    kind.scheme().sign(Draft { id: "d-1", event: Some("issues"), now: NOW, body }, key)
}

fn verify(source: &Source, headers: &[(String, Vec<u8>)], body: &[u8]) -> Result<(), Refused> {
    let headers = headers.iter().map(|(name, value)| (name.as_str(), value.as_slice()));
    Delivery::new(headers, body.to_vec())?.verify(source, NOW).map(drop)
}

fn bytes(headers: &[(String, String)]) -> Vec<(String, Vec<u8>)> {
    headers.iter().map(|(name, value)| (name.clone(), value.clone().into_bytes())).collect()
}

fn is_unsigned(verdict: &Result<(), Refused>) -> bool {
    verdict.as_ref().is_err_and(|refused| refused.code() == "unsigned")
}

/// Headers that the signature covers, or is.
fn is_proof(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.contains("signature") || name.contains("timestamp") || name == "webhook-id"
}

#[test]
fn no_forgery_is_believed() {
    let count = std::env::var("BELL_FORGERIES").map_or(100_000, |count| count.parse().unwrap());
    let (mut dice, mut forged) = (Dice(1), 0_u64);
    let kinds = kinds();
    while forged < count {
        let is_slow_turn = forged.is_multiple_of(SLOW_SHARE);
        let kind = if is_slow_turn { &Kind::Discord } else { &kinds[dice.below(kinds.len() - 1)] };
        let honest = signed(kind, &mut dice, &KEY);
        let source =
            Source::new("x", kind.clone(), Trust::Signed(vec![Secret::new(&honest.secret).unwrap()]));
        let (mut headers, mut body) = (bytes(&honest.headers), honest.body.clone());
        let proofs: Vec<usize> = (0..headers.len()).filter(|at| is_proof(&headers[*at].0)).collect();
        let proof = proofs[dice.below(proofs.len())];
        match dice.below(8) {
            0..=2 => dice.spoil(&mut body),
            3..=5 => dice.spoil(&mut headers[proof].1),
            6 => headers = bytes(&signed(kind, &mut dice, &OTHER_KEY).headers),
            _ => drop(headers.remove(proof)),
        }
        if headers == bytes(&honest.headers) && body == honest.body {
            continue;
        }
        let verdict = verify(&source, &headers, &body);
        // Nothing of it was read: what is wrong is the proof.
        if !matches!(&verdict, Err(Refused::Forged | Refused::Stale(_))) && !is_unsigned(&verdict) {
            panic!("{verdict:?} for {kind:?} {headers:?} {}", String::from_utf8_lossy(&body));
        }
        forged += 1;
    }
}

#[test]
fn what_every_kind_signs_is_believed_and_only_with_its_own_secret() {
    let mut dice = Dice(2);
    for kind in kinds() {
        let honest = signed(&kind, &mut dice, &KEY);
        let other = signed(&kind, &mut dice, &OTHER_KEY);
        let source = |secrets: &[&str]| {
            let secrets = secrets.iter().map(|secret| Secret::new(secret).unwrap()).collect();
            Source::new("x", kind.clone(), Trust::Signed(secrets))
        };
        let headers = bytes(&honest.headers);
        assert_eq!(verify(&source(&[&honest.secret]), &headers, &honest.body), Ok(()), "{kind:?}");
        assert_eq!(
            verify(&source(&[&other.secret, &honest.secret]), &headers, &honest.body),
            Ok(()),
            "{kind:?}"
        );
        let wrong = verify(&source(&[&other.secret]), &headers, &honest.body).unwrap_err();
        assert_eq!(wrong, Refused::Forged, "{kind:?}");
        assert_eq!(verify(&source(&[]), &headers, &honest.body).unwrap_err(), Refused::NoSecret, "{kind:?}");
        let unsigned = verify(&source(&[&honest.secret]), &[], &honest.body).unwrap_err();
        assert_eq!(unsigned.code(), "unsigned", "{kind:?}");
        let twice = [headers.clone(), headers].concat();
        let twice = verify(&source(&[&honest.secret]), &twice, &honest.body).unwrap_err();
        assert!(matches!(twice, Refused::Twice(_)), "{kind:?}: {twice:?}");
    }
}

#[test]
fn a_secret_of_the_wrong_form_is_none() {
    let mut dice = Dice(3);
    let (short, no_point) = ("00".repeat(31), format!("01{}", "00".repeat(31)));
    let cases = [
        (Kind::Discord, vec!["no key", short.as_str(), &no_point]),
        (Kind::StandardWebhooks, vec!["no base64 at all!", "whsec_", "whsec_A"]),
    ];
    for (kind, texts) in cases {
        let honest = signed(&kind, &mut dice, &KEY);
        for text in texts {
            let secret = Secret::new(text).unwrap();
            assert!(kind.check_secret(&secret).is_err(), "{kind:?} {text}");
            let source = Source::new("x", kind.clone(), Trust::Signed(vec![secret]));
            let refused = verify(&source, &bytes(&honest.headers), &honest.body).unwrap_err();
            assert_eq!(refused, Refused::NoSecret, "{kind:?} {text}");
        }
    }
}

#[test]
fn without_signatures_anybody_is_believed_and_little_is_read() {
    let source = Source::new("x", Kind::Github, Trust::Anyone);
    let headers = vec![("X-GitHub-Event".to_owned(), b"push".to_vec())];
    assert_eq!(verify(&source, &headers, b"{}"), Ok(()));
    let large = format!("{{\"a\":\"{}\"}}", "x".repeat(1 << 20));
    assert_eq!(verify(&source, &headers, large.as_bytes()).unwrap_err().status(), 413);
}

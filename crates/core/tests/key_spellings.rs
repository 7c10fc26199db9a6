//! L1: one canonical form for each key, and a reason for each refusal.

use std::collections::{BTreeSet, HashSet};

use bell_core::key::{KEY_BYTES_MAX, Key, KeyError};

fn canonical(given: &str) -> String {
    match Key::parse(given) {
        Ok(key) => key.as_str().to_owned(),
        Err(error) => panic!("{given:?}: could not {error}"),
    }
}

fn check(spellings: &[(&str, &str)]) {
    for (given, expected) in spellings {
        assert_eq!(canonical(given), *expected, "from {given:?}");
        assert_eq!(canonical(expected), *expected, "a canonical key must stay as it is");
    }
}

fn check_refused(texts: &[(&str, KeyError)]) {
    for (given, reason) in texts {
        assert_eq!(Key::parse(given), Err(*reason), "from {given:?}");
    }
}

#[test]
fn a_canonical_key_stays_as_it_is() {
    for key in [
        "github://acme/app/issues/42",
        "deploy://api-prod",
        "file:///srv/index",
        "urn:isbn:123",
        "job:nightly",
        "mailto:ops@example.com",
        "git+ssh://example.com/acme/app",
        "https://example.com/a/b;v=1,2?x=1&y=/?#part",
        "x:~._-!$&'()*+,;=:@",
    ] {
        check(&[(key, key)]);
    }
}

#[test]
fn scheme_and_host_are_lower_case_and_nothing_else_is() {
    check(&[
        ("HTTPS://Example.COM/Path?Query#Part", "https://example.com/Path?Query#Part"),
        ("Deploy://API-Prod", "deploy://api-prod"),
        ("GitHub://ACME/App/Issues/42", "github://acme/App/Issues/42"),
        ("JOB:Nightly", "job:Nightly"),
        ("http://[2001:DB8::A]/x", "http://[2001:db8::a]/x"),
    ]);
}

#[test]
fn a_host_has_one_spelling() {
    check(&[
        ("https://example.com./x", "https://example.com/x"),
        ("https://example.com.:8443/x", "https://example.com:8443/x"),
        ("https://ex%61mple.%43OM/x", "https://example.com/x"),
        ("http://[0:0:0:0:0:0:0:1]/x", "http://[::1]/x"),
        ("http://[::FFFF:192.0.2.1]:8080/x", "http://[::ffff:192.0.2.1]:8080/x"),
        ("pool://a_b!c~d", "pool://a_b!c~d"),
    ]);
}

#[test]
fn a_file_has_one_spelling() {
    check(&[
        ("file:///srv/index", "file:///srv/index"),
        ("file:/srv/index", "file:///srv/index"),
        ("file://localhost/srv/index", "file:///srv/index"),
        ("FILE://LocalHost./srv/index/", "file:///srv/index"),
        ("file://server/srv/index", "file://server/srv/index"),
    ]);
}

#[test]
fn the_default_port_goes_and_others_stay() {
    check(&[
        ("http://h:80/x", "http://h/x"),
        ("http://h:443/x", "http://h:443/x"),
        ("https://h:443", "https://h"),
        ("https://h:0443", "https://h"),
        ("https://h:", "https://h"),
        ("https://h:/x", "https://h/x"),
        ("ssh://h:22/x", "ssh://h/x"),
        ("git://h:9418/x", "git://h/x"),
        ("ftp://h:21/x", "ftp://h/x"),
        ("ws://h:80/x", "ws://h/x"),
        ("wss://h:443/x", "wss://h/x"),
        ("postgres://db:5432/app", "postgres://db/app"),
        ("postgresql://db:5432/app", "postgresql://db/app"),
        ("redis://cache:6379/0", "redis://cache/0"),
        ("http://[::1]:80/x", "http://[::1]/x"),
        ("deploy://api:80", "deploy://api:80"),
        ("deploy://api:007", "deploy://api:7"),
        ("deploy://api:65535", "deploy://api:65535"),
    ]);
}

#[test]
fn dot_segments_go_from_a_path_and_stay_in_an_opaque_name() {
    check(&[
        ("file:///srv/./index", "file:///srv/index"),
        ("file:///srv/a/../index", "file:///srv/index"),
        ("file:///../../srv", "file:///srv"),
        ("file:///srv/%2e%2E/etc", "file:///etc"),
        ("file:///srv/a/..", "file:///srv"),
        ("file:///srv/a/.", "file:///srv/a"),
        ("deploy://api/..", "deploy://api"),
        ("file:///srv/...", "file:///srv/..."),
        ("file:///srv/.git", "file:///srv/.git"),
        ("file:///a//../b", "file:///a/b"),
        ("job:a/../b", "job:a/../b"),
        ("http://h/x?a/../b#c/./d", "http://h/x?a/../b#c/./d"),
    ]);
}

#[test]
fn the_end_of_a_path_has_no_slash() {
    check(&[
        ("file:///srv/index/", "file:///srv/index"),
        ("file:///srv/index//", "file:///srv/index"),
        ("deploy://api-prod/", "deploy://api-prod"),
        ("deploy://api-prod//", "deploy://api-prod"),
        ("job:nightly/", "job:nightly"),
        ("http://h/?q", "http://h?q"),
        ("http://h/a/?q/#f/", "http://h/a?q/#f/"),
    ]);
}

#[test]
fn slashes_inside_a_path_stay() {
    check(&[
        ("file:///a//b", "file:///a//b"),
        ("file:////a", "file:////a"),
        ("file:/.//a", "file:////a"),
        ("job:a//b", "job:a//b"),
    ]);
}

#[test]
fn an_empty_query_or_fragment_goes() {
    check(&[
        ("http://h/a?", "http://h/a"),
        ("http://h/a#", "http://h/a"),
        ("http://h/a?#", "http://h/a"),
        ("http://h/a?#f", "http://h/a#f"),
    ]);
}

#[test]
fn escapes_have_one_spelling() {
    check(&[
        ("job:%61%2d%7E", "job:a-~"),
        ("job:a%2fb", "job:a%2Fb"),
        ("job:a%3fb%23c", "job:a%3Fb%23c"),
        ("job:a%20b", "job:a%20b"),
        ("job:a%25b", "job:a%25b"),
        ("job:%2541", "job:%2541"),
        ("job:é", "job:%C3%A9"),
        ("job:%c3%a9", "job:%C3%A9"),
        ("file:///srv/größe", "file:///srv/gr%C3%B6%C3%9Fe"),
        ("job:a\"b<c>d\\e^f`g{h|i}j", "job:a%22b%3Cc%3Ed%5Ce%5Ef%60g%7Bh%7Ci%7Dj"),
        ("http://h/a[0]?b[1]#c[2]", "http://h/a%5B0%5D?b%5B1%5D#c%5B2%5D"),
        ("http://h/a#b#c", "http://h/a#b%23c"),
        ("file:///%FF%fe", "file:///%FF%FE"),
    ]);
}

#[test]
fn an_escaped_mark_is_not_the_mark() {
    for (one, other) in [
        ("job:a%2Fb", "job:a/b"),
        ("job:a%3Fb", "job:a?b"),
        ("job:a%23b", "job:a#b"),
        ("job:a%2Bb", "job:a+b"),
        ("file:///a/%2F", "file:///a/"),
    ] {
        assert_ne!(canonical(one), canonical(other));
    }
}

#[test]
fn a_text_without_a_scheme_is_refused() {
    check_refused(&[
        ("", KeyError::NoScheme),
        ("api-prod", KeyError::NoScheme),
        ("/srv/index", KeyError::NoScheme),
        ("/srv/a:b", KeyError::NoScheme),
        ("?a:b", KeyError::NoScheme),
        ("#a:b", KeyError::NoScheme),
        (":name", KeyError::NoScheme),
        ("://name", KeyError::NoScheme),
        ("1job:x", KeyError::BadScheme { at: 0 }),
        ("-job:x", KeyError::BadScheme { at: 0 }),
        ("j_b:x", KeyError::BadScheme { at: 1 }),
        ("jo%62:x", KeyError::BadScheme { at: 2 }),
        ("jöb:x", KeyError::BadScheme { at: 1 }),
    ]);
}

#[test]
fn a_key_that_names_nothing_is_refused() {
    check_refused(&[
        ("job:", KeyError::EmptyRest),
        ("deploy://", KeyError::EmptyRest),
        ("file:///", KeyError::EmptyRest),
        ("file:////", KeyError::EmptyRest),
        ("file:/", KeyError::EmptyRest),
        ("file:///..", KeyError::EmptyRest),
        ("file://localhost/", KeyError::EmptyRest),
        ("job:?q", KeyError::EmptyRest),
        ("http://?q", KeyError::EmptyRest),
        ("http:///#f", KeyError::EmptyRest),
    ]);
}

#[test]
fn what_a_person_cannot_see_is_refused() {
    check_refused(&[
        ("job:a\0b", KeyError::Control { at: 5 }),
        ("job:a\n", KeyError::Control { at: 5 }),
        ("job:\ta", KeyError::Control { at: 4 }),
        ("job:\u{7F}", KeyError::Control { at: 4 }),
        ("job:é\u{9B}", KeyError::Control { at: 6 }),
        ("job:a%00", KeyError::Control { at: 5 }),
        ("job:é%0a", KeyError::Control { at: 6 }),
        ("job:%7f", KeyError::Control { at: 4 }),
        ("job:%20%C2%9B", KeyError::Control { at: 7 }),
        ("job:%FFé%1b", KeyError::Control { at: 9 }),
        ("job:a b", KeyError::Space { at: 5 }),
        (" job:a", KeyError::Space { at: 0 }),
        ("job:a ", KeyError::Space { at: 5 }),
        ("job:a\u{A0}b", KeyError::Space { at: 5 }),
        ("job:a\u{3000}b", KeyError::Space { at: 5 }),
        ("job:a\u{2028}b", KeyError::Space { at: 5 }),
        ("job:a\u{200B}b", KeyError::Invisible { at: 5 }),
        ("job:a\u{202E}b", KeyError::Invisible { at: 5 }),
        ("job:a\u{2066}b", KeyError::Invisible { at: 5 }),
        ("\u{FEFF}job:a", KeyError::Invisible { at: 0 }),
        ("job:a\u{AD}b", KeyError::Invisible { at: 5 }),
        ("job:a\u{E0041}", KeyError::Invisible { at: 5 }),
        ("job:%e2%80%ae", KeyError::Invisible { at: 4 }),
    ]);
}

#[test]
fn a_broken_escape_is_refused() {
    check_refused(&[
        ("job:%", KeyError::BadEscape { at: 4 }),
        ("job:a%4", KeyError::BadEscape { at: 5 }),
        ("job:a%zz", KeyError::BadEscape { at: 5 }),
        ("job:a%4g", KeyError::BadEscape { at: 5 }),
        ("job:a%+1", KeyError::BadEscape { at: 5 }),
        ("job:a%é", KeyError::BadEscape { at: 5 }),
        ("http://h/%20/100%", KeyError::BadEscape { at: 16 }),
    ]);
}

#[test]
fn credentials_are_refused() {
    check_refused(&[
        ("https://user:pass@example.com/x", KeyError::Credentials),
        ("ssh://git@example.com/x", KeyError::Credentials),
        ("https://@example.com/x", KeyError::Credentials),
        ("https://a@b@c/x", KeyError::Credentials),
        ("https://user:p%40ss@[::1]:80/x", KeyError::Credentials),
    ]);
}

#[test]
fn a_host_or_port_that_is_none_is_refused() {
    check_refused(&[
        ("http://:80/x", KeyError::BadHost),
        ("http://:/x", KeyError::BadHost),
        ("http://./x", KeyError::BadHost),
        ("http://../x", KeyError::BadHost),
        ("http://a../x", KeyError::BadHost),
        ("http://bücher.example/x", KeyError::BadHost),
        ("http://b%C3%BCcher.example/x", KeyError::BadHost),
        ("http://a%2Fb/x", KeyError::BadHost),
        ("http://user%40host/x", KeyError::BadHost),
        ("http://a%20b/x", KeyError::BadHost),
        ("http://a|b/x", KeyError::BadHost),
        ("http://a]/x", KeyError::BadHost),
        ("http://[::1/x", KeyError::BadHost),
        ("http://[]/x", KeyError::BadHost),
        ("http://[::g]/x", KeyError::BadHost),
        ("http://[::%31]/x", KeyError::BadHost),
        ("http://[fe80::1%25eth0]/x", KeyError::BadHost),
        ("http://[::1]x/x", KeyError::BadHost),
        ("http://h:65536/x", KeyError::BadPort),
        ("http://h:8a/x", KeyError::BadPort),
        ("http://h:+80/x", KeyError::BadPort),
        ("http://h:%38%30/x", KeyError::BadPort),
        ("http://h:80:80/x", KeyError::BadPort),
        ("http://fe80::1/x", KeyError::BadPort),
    ]);
}

#[test]
fn a_key_may_have_512_bytes_and_no_more() {
    let longest = format!("job:{}", "a".repeat(KEY_BYTES_MAX - 4));
    assert_eq!(canonical(&longest), longest);
    let longer = format!("{longest}a");
    assert_eq!(Key::parse(&longer), Err(KeyError::TooLong { bytes: 513 }));
}

#[test]
fn the_limit_holds_for_the_given_text_too() {
    let given = format!("job:{}", "%61".repeat(200));
    assert_eq!(Key::parse(&given), Err(KeyError::TooLong { bytes: 604 }));
}

#[test]
fn the_limit_holds_for_the_canonical_text_too() {
    let given = format!("job:{}", "é".repeat(100));
    assert_eq!(Key::parse(&given), Err(KeyError::TooLong { bytes: 604 }));
}

#[test]
fn two_spellings_are_one_key_in_every_collection() {
    let (one, other) = (Key::parse("HTTP://H:80/a/").unwrap(), Key::parse("http://h/./a").unwrap());
    assert_eq!(one, other);
    assert_eq!(HashSet::from([one.clone(), other.clone()]).len(), 1);
    assert_eq!(BTreeSet::from([one, other]).len(), 1);
}

#[test]
fn keys_are_ordered_like_their_text() {
    let mut keys = ["job:b", "job:a", "deploy://z"].map(|text| Key::parse(text).unwrap());
    keys.sort();
    assert_eq!(keys.map(|key| key.to_string()), ["deploy://z", "job:a", "job:b"]);
}

#[test]
fn the_scheme_is_what_stands_before_the_first_colon() {
    assert_eq!(Key::parse("Git+SSH://h:1/x:y").unwrap().scheme(), "git+ssh");
    assert_eq!(Key::parse("urn:isbn:1").unwrap().scheme(), "urn");
}

#[test]
fn every_spelling_of_the_scheme_bell_is_reserved_and_no_other_is() {
    for reserved in ["bell://fleet/nodes", "BELL://fleet/nodes", "bell:x"] {
        assert!(Key::parse(reserved).unwrap().is_reserved(), "{reserved}");
    }
    for free in ["bells://fleet/nodes", "job:bell:x"] {
        assert!(!Key::parse(free).unwrap().is_reserved(), "{free}");
    }
}

#[test]
fn a_key_is_stored_as_its_text() {
    let key = Key::parse("deploy://api-prod").unwrap();
    assert_eq!(serde_json::to_string(&key).unwrap(), r#""deploy://api-prod""#);
}

#[test]
fn a_stored_spelling_is_read_as_the_canonical_key() {
    let key: Key = serde_json::from_str(r#""DEPLOY://Api-Prod/""#).unwrap();
    assert_eq!(key.as_str(), "deploy://api-prod");
}

#[test]
fn a_stored_text_that_is_no_key_is_refused_with_the_reason() {
    let error = serde_json::from_str::<Key>(r#""api-prod""#).unwrap_err().to_string();
    assert!(error.starts_with("could not read the key: it has no scheme"), "{error}");
}

#[test]
fn a_refusal_says_why_and_what_to_write_instead() {
    let error = Key::parse("api-prod").unwrap_err();
    assert_eq!(error.to_string(), "read the key: it has no scheme");
    assert_eq!(error.hint(), "write it as scheme://name, for example deploy://api-prod");
}

#[test]
fn a_refusal_never_repeats_a_password() {
    let error = Key::parse("https://user:hunter2@example.com/x").unwrap_err();
    let words = format!("{error} {error:?} {}", error.hint());
    assert!(!words.contains("hunter2"), "{words}");
}

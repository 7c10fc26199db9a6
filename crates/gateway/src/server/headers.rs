//! What every answer tells a browser: to take it for nothing else than it is, to keep no copy, to load nothing for it,
//! to show it in no other page, and to tell no other page where it was.

use std::sync::LazyLock;

use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{HeaderMap, HeaderValue};

use crate::refusal::JSON;

/// What an answer that is no page may load, and who may show it.
const NOTHING: &str = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";
/// The same for a page: its style and its forms are of this server. No script runs, inline or from anywhere.
pub(super) const PAGE: &str =
    "default-src 'none'; style-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'";

/// Set unless the answer says otherwise.
const ALL: [(HeaderName, &str); 6] = [
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (CACHE_CONTROL, "no-store"),
    (CONTENT_SECURITY_POLICY, NOTHING),
    (X_FRAME_OPTIONS, "DENY"),
    // With none at all a browser would not say which page a form is from, and the form would be refused.
    (REFERRER_POLICY, "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// Adds them to an answer.
pub(super) fn dress(headers: &mut HeaderMap) {
    static DRESS: LazyLock<HeaderMap> = LazyLock::new(|| {
        ALL.map(|(name, value)| (name, HeaderValue::from_static(value))).into_iter().collect()
    });
    /// With the one thing that nearly every answer says itself.
    static OF_JSON: LazyLock<HeaderMap> = LazyLock::new(|| {
        let mut headers = DRESS.clone();
        headers.insert(CONTENT_TYPE, JSON);
        headers
    });
    // Every answer passes here: a copy of all of them costs a fraction of putting one after the other into a map.
    if headers.len() == 1 && headers.get(CONTENT_TYPE) == Some(&JSON) {
        *headers = OF_JSON.clone();
        return;
    }
    let said = std::mem::replace(headers, DRESS.clone());
    headers.extend(said);
}

#[cfg(test)]
mod tests {
    use http::header::SET_COOKIE;

    use super::*;

    #[test]
    fn an_answer_keeps_what_it_says_itself_and_gets_the_rest() {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(PAGE));
        dress(&mut headers);
        assert_eq!(headers[CONTENT_SECURITY_POLICY], PAGE);
        assert_eq!(headers[X_CONTENT_TYPE_OPTIONS], "nosniff");
        assert_eq!(headers.len(), ALL.len());
        headers.append(SET_COOKIE, HeaderValue::from_static("a=1"));
        headers.append(SET_COOKIE, HeaderValue::from_static("b=2"));
        dress(&mut headers);
        assert_eq!(headers.get_all(SET_COOKIE).iter().count(), 2);
        assert_eq!(headers.len(), ALL.len() + 2);
    }

    #[test]
    fn an_answer_that_is_json_gets_the_same() {
        let mut json = HeaderMap::from_iter([(CONTENT_TYPE, JSON)]);
        let mut other = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("text/html"))]);
        dress(&mut json);
        dress(&mut other);
        assert_eq!(other.insert(CONTENT_TYPE, JSON).unwrap(), "text/html");
        assert_eq!(json, other);
    }

    #[test]
    fn no_policy_lets_a_script_run() {
        for policy in [NOTHING, PAGE] {
            assert!(policy.starts_with("default-src 'none'") && !policy.contains("script-src"), "{policy}");
            assert!(!policy.contains("unsafe") && policy.contains("frame-ancestors 'none'"), "{policy}");
        }
    }
}

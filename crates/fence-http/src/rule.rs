//! Which requests are guarded, and which resource each of them is about.

use bell_core::key::{Key, KeyError};
use http::Method;
use http::request::Parts;

/// What a rule says about a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Target {
    /// It may pass without a fence.
    Open,
    /// It must carry the fence of this resource.
    Guarded(Key),
}

/// The rule unless another is given: whatever could change something is guarded, and is about its path.
///
/// Every method but GET, HEAD, OPTIONS and TRACE is guarded, so one that nobody has heard of is too. The path
/// counts in its canonical form as a key of a lock: `/a/./b/`, `/a/%62` and `/a/b` are one resource. The query and the
/// host do not count. A service that takes other spellings for one resource, such as upper and lower case, needs a
/// rule of its own, or a stale writer gets through by spelling.
///
/// # Errors
/// If the path can't be a key: it is too long, or has characters that can't be seen.
pub fn by_path(request: &Parts) -> Result<Target, KeyError> {
    if is_safe(&request.method) {
        return Ok(Target::Open);
    }
    Key::parse(&format!("path://service{}", request.uri.path())).map(Target::Guarded)
}

/// Whether a method promises to change nothing.
pub fn is_safe(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS | Method::TRACE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    fn target(method: &str, uri: &str) -> Result<Target, KeyError> {
        let request = Request::builder().method(method).uri(uri).body(()).unwrap();
        by_path(&request.into_parts().0)
    }

    #[test]
    fn every_spelling_of_a_path_is_one_resource() {
        let plain = target("PUT", "/a/b").unwrap();
        assert_eq!(plain, Target::Guarded(Key::parse("path://service/a/b").unwrap()));
        for spelling in ["/a/b/", "/a/%62", "/a/./b", "/x/../a/b", "/a/b?x=1", "http://host/a/b"] {
            assert_eq!(target("POST", spelling).unwrap(), plain, "{spelling}");
        }
        assert_ne!(target("PUT", "/a%2Fb").unwrap(), plain);
        assert!(matches!(target("POST", "/").unwrap(), Target::Guarded(_)));
    }

    #[test]
    fn only_what_changes_nothing_is_open() {
        for open in ["GET", "HEAD", "OPTIONS", "TRACE"] {
            assert_eq!(target(open, "/a").unwrap(), Target::Open);
        }
        for guarded in ["PUT", "POST", "PATCH", "DELETE", "CONJURE"] {
            assert!(matches!(target(guarded, "/a").unwrap(), Target::Guarded(_)), "{guarded}");
        }
    }

    #[test]
    fn a_path_that_is_no_key_is_refused() {
        assert!(target("PUT", &format!("/{}", "a".repeat(600))).is_err());
        assert!(target("PUT", "/a%00b").is_err());
    }
}

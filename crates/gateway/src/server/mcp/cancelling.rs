//! Calls that a client takes back without hanging up.
//!
//! A client that hangs up is noticed by its connection. One that says so (`notifications/cancelled`) does it in a request of
//! its own, and there is no session that the two belong to: they are matched by who asks and by the number of the call.
//! Two programs may speak for one run and count alike. Then nobody can tell which call is meant, and none is ended.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Deserialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// The calls of everybody that are under way. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Calls(Arc<Mutex<BTreeMap<Name, Vec<CancellationToken>>>>);

/// Who asks, and the number of the call.
type Name = (String, String);

/// A call, until it is dropped.
pub(super) struct Call {
    name: Name,
    token: CancellationToken,
    all: Calls,
}

impl Calls {
    /// A call is under way.
    pub(super) fn begin(&self, caller: String, id: String) -> Call {
        let (name, token) = ((caller, id), CancellationToken::new());
        self.lock().entry(name.clone()).or_default().push(token.clone());
        Call { name, token, all: self.clone() }
    }

    /// Ends the call that is meant, if there is one.
    pub(super) fn cancel(&self, caller: &str, id: &str) {
        if let Some([only]) = self.lock().get(&(caller.to_owned(), id.to_owned())).map(Vec::as_slice) {
            only.cancel();
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Name, Vec<CancellationToken>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Call {
    /// Returns when the call was taken back.
    pub(super) async fn cancelled(&self) {
        self.token.cancelled().await;
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.token.cancel();
        let mut all = self.all.lock();
        if let Some(calls) = all.get_mut(&self.name) {
            calls.retain(|call| !call.is_cancelled());
            if calls.is_empty() {
                all.remove(&self.name);
            }
        }
    }
}

/// What a message says, as far as calls are concerned.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Said {
    /// It calls a tool, under this number.
    Calls(String),
    /// It takes a call back.
    Cancels(String),
}

impl Said {
    /// Looks into a message; whatever else it says, or can't be read, is for others.
    pub(super) fn in_(message: &[u8]) -> Option<Self> {
        #[derive(Deserialize)]
        struct Message {
            method: String,
            id: Option<Value>,
            params: Option<Params>,
        }
        #[derive(Deserialize)]
        struct Params {
            #[serde(rename = "requestId")]
            request_id: Option<Value>,
        }
        let message: Message = serde_json::from_slice(message).ok()?;
        match message.method.as_str() {
            "tools/call" => Some(Self::Calls(message.id?.to_string())),
            "notifications/cancelled" => Some(Self::Cancels(message.params?.request_id?.to_string())),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_ended_by_whoever_made_it_and_only_if_no_other_is_counted_alike() {
        let calls = Calls::default();
        let call = |caller: &str| calls.begin(caller.to_owned(), "1".to_owned());
        let (mine, others) = (call("me"), call("you"));
        calls.cancel("me", "2");
        assert!(!mine.token.is_cancelled());
        let twin = call("me");
        calls.cancel("me", "1");
        assert!(!mine.token.is_cancelled() && !twin.token.is_cancelled());
        drop(twin);
        calls.cancel("me", "1");
        assert!(mine.token.is_cancelled() && !others.token.is_cancelled());
        drop((mine, others));
        assert!(calls.lock().is_empty());
    }

    #[test]
    fn numbers_and_words_are_told_apart() {
        let said = |text: &str| Said::in_(text.as_bytes());
        assert_eq!(said(r#"{"method":"tools/call","id":1}"#), Some(Said::Calls("1".into())));
        assert_eq!(said(r#"{"method":"tools/call","id":"1"}"#), Some(Said::Calls("\"1\"".into())));
        let cancels = r#"{"method":"notifications/cancelled","params":{"requestId":1}}"#;
        assert_eq!(said(cancels), Some(Said::Cancels("1".into())));
        for other in ["", "[]", "{}", r#"{"method":"ping","id":1}"#, r#"{"method":"tools/call"}"#] {
            assert_eq!(said(other), None, "{other}");
        }
    }
}

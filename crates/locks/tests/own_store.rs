//! A store of one's own passes both suites; the page that shows it shows what is tried here.

#[path = "../examples/own_store.rs"]
#[expect(unreachable_pub, reason = "the example is a library of its own elsewhere")]
mod own_store;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use async_trait::async_trait;
use bell_locks::conformance::Setup;
use bell_locks::locks::StoreLocks;
use bell_locks::{Denied, LockBackend};
use bell_store::Store;
use bell_store::suite::Fixture;
use own_store::Journal;

/// A file of its own for each test. All handles are one as long as one is there; then it is opened anew.
struct InFolder {
    folder: tempfile::TempDir,
    opened: Mutex<Weak<Journal>>,
}

impl InFolder {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a temporary folder"), opened: Mutex::default() }
    }

    fn handle(&self) -> bell_store::Result<Arc<Journal>> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(store) = opened.upgrade() {
            return Ok(store);
        }
        let store = Arc::new(Journal::open(&self.folder.path().join("journal"))?);
        *opened = Arc::downgrade(&store);
        Ok(store)
    }
}

#[async_trait]
impl Fixture for InFolder {
    async fn open(&self) -> bell_store::Result<Arc<dyn Store>> {
        Ok(self.handle()?)
    }

    fn survives_reopen(&self) -> bool {
        true
    }
}

#[async_trait]
impl Setup for InFolder {
    async fn open(&self) -> Result<Arc<dyn LockBackend>, Denied> {
        Ok(Arc::new(StoreLocks::new(self.handle()?)))
    }
}

bell_store::store_suite!(InFolder::new());
bell_locks::lock_conformance!(InFolder::new());

#[test]
fn the_page_shows_this_very_store_and_how_it_is_proved() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap();
    let page = read("docs/how-to/write-a-store.md");
    let store = read("crates/locks/examples/own_store.rs");
    assert!(page.contains(&format!("```rust\n{store}```")), "copy the example into write-a-store.md");
    let test = read("crates/locks/tests/own_store.rs");
    let from = test.find("/// A file of its own").unwrap();
    let to = test.find("\n#[test]").unwrap();
    let proof = test[from..to].trim_end();
    assert!(page.contains(&format!("```rust\n{proof}\n```")), "copy into write-a-store.md:\n{proof}");
    let cases = format!("{} cases", bell_store::suite::CASES.len());
    assert!(page.contains(&cases), "write-a-store.md does not say that there are {cases}");
}

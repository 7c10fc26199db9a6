//! Which sources there are, with their secrets as they are now.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bell_control::Control;
use bell_control::hooks::{Unusable, hooks, variable};
use bell_intake::Hooks;
use bell_project::load::Loaded;
use bell_store::clock::boottime;

/// How long secrets that were read count: a new one in a file counts after this, without a restart.
const FRESH: Duration = Duration::from_secs(1);

/// What was believed when it was last looked at.
#[derive(Default)]
pub(super) struct Believed(Mutex<Option<Held>>);

struct Held {
    project: Arc<Loaded>,
    read: Duration,
    hooks: Arc<Hooks>,
    unusable: Vec<Unusable>,
}

impl Believed {
    /// What the project believes now.
    pub(super) fn hooks(&self, control: &Control) -> Arc<Hooks> {
        let (project, now) = (control.loaded(), boottime());
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_fresh =
            |held: &&Held| Arc::ptr_eq(&held.project, &project) && now.saturating_sub(held.read) < FRESH;
        if let Some(held) = held.as_ref().filter(is_fresh) {
            return Arc::clone(&held.hooks);
        }
        let (hooks, unusable) = hooks(&control.folder, &project, &variable);
        let hooks = Arc::new(hooks);
        if held.as_ref().is_none_or(|held| held.unusable != unusable) {
            for fault in &unusable {
                tracing::warn!(
                    source = fault.source,
                    why = fault.why,
                    hint = fault.hint,
                    "webhooks are refused"
                );
            }
        }
        *held = Some(Held { project, read: now, hooks: Arc::clone(&hooks), unusable });
        hooks
    }
}

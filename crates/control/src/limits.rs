//! What an agent's settings mean for its queue and its runs.

use bell_core::work::accept::{Overflow, Room};
use bell_core::work::job::{Rules, Trigger};
use bell_core::work::line::Caps;
use bell_core::work::run::Class;
use bell_project::agent::Agent;
use bell_project::load::Loaded;
use bell_project::settings;

/// How many of an agent may run.
pub fn caps(loaded: &Loaded, agent: &Agent) -> Caps {
    let count = |scale: u32| usize::try_from(scale).unwrap_or(usize::MAX);
    Caps { agent: count(agent.settings.scale), fleet: loaded.settings.scale.map(count) }
}

/// How many jobs of an agent may wait.
pub fn room(agent: &Agent) -> Room {
    let overflow = match agent.settings.overflow {
        settings::Overflow::DropOldest => Overflow::DropOldest,
        settings::Overflow::Reject => Overflow::Reject,
    };
    Room { size: agent.settings.work_queue_size, overflow }
}

/// What follows from how a run of an agent ends.
pub fn rules(agent: &Agent) -> Rules {
    let retry = &agent.settings.retry;
    let ms = |length: settings::Length| u64::try_from(length.get().as_millis()).unwrap_or(u64::MAX);
    Rules {
        max_reruns: agent.settings.max_reruns,
        // The first try is no retry.
        retries: retry.attempts.saturating_sub(1),
        retry_on: retry.on.iter().map(|class| class_of(*class)).collect(),
        backoff_ms: ms(retry.backoff),
        max_backoff_ms: ms(retry.max),
    }
}

/// What happens to a job with this trigger when others hold a lock that its agent declares.
pub fn on_busy(agent: &Agent, trigger: &Trigger) -> settings::OnBusy {
    agent.settings.on_busy.unwrap_or(match trigger {
        Trigger::Cron { .. } => settings::OnBusy::Skip,
        Trigger::Webhook { .. } | Trigger::Call { .. } | Trigger::Manual { .. } => settings::OnBusy::Wait,
    })
}

fn class_of(class: settings::FailureClass) -> Class {
    match class {
        settings::FailureClass::Failed => Class::Failed,
        settings::FailureClass::Crashed => Class::Crashed,
        settings::FailureClass::Timeout => Class::Timeout,
        settings::FailureClass::Lost => Class::Lost,
        settings::FailureClass::Interrupted => Class::Interrupted,
        settings::FailureClass::Busy => Class::Busy,
        settings::FailureClass::Unstartable => Class::Unstartable,
    }
}

//! What the store says of itself: what a commit survives, and what a fail-over costs.
//!
//! Nothing is cut off here. The settings are those that the server itself reports.

use bell_store::info::{Durability, FailOver, Info};

use crate::ground::Ground;
use crate::verdict::{Done, Stop};

pub(super) async fn run(ground: Ground) -> Done {
    judge(ground.info())
}

fn judge(info: &Info) -> Done {
    let survives = match info.durability {
        Durability::Volatile => {
            "an acknowledged commit survives nothing: it is gone with the process that keeps it"
        }
        Durability::Process => "an acknowledged commit survives the end of any process, but not a power cut",
        Durability::Power => "an acknowledged commit survives a power cut",
    };
    let fail_over = match info.fail_over {
        FailOver::None => "nothing takes over: while it is down, nothing can be locked",
        FailOver::Kept => "after a fail-over everything acknowledged is there",
        FailOver::Loses => "a fail-over may lose what was acknowledged: a lock may have two holders",
    };
    let mut evidence = format!("{survives}; {fail_over}");
    for warning in &info.warnings {
        evidence.push_str(&format!("; {}", warning.words.trim_end_matches('.')));
    }
    match (info.fail_over, info.durability) {
        (FailOver::Loses, _) => Err(Stop::unsafely(evidence)),
        (_, Durability::Power) => Ok(evidence),
        // What may be lost is noticed: nothing is granted until an operator has seen to it, or nothing was left.
        (_, Durability::Process | Durability::Volatile) => Err(Stop::warning(evidence)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::Verdict;
    use bell_store::Store;
    use bell_store::memory::Memory;

    #[test]
    fn a_fail_over_that_loses_is_unsafe_and_a_power_cut_that_does_is_told() {
        let memory = Memory::new().info().clone();
        let with = |durability, fail_over| {
            let done = judge(&Info { durability, fail_over, ..memory.clone() });
            done.map_or_else(|stop| stop.verdict, |_| Verdict::Passed)
        };
        assert_eq!(with(Durability::Power, FailOver::None), Verdict::Passed);
        assert_eq!(with(Durability::Power, FailOver::Kept), Verdict::Passed);
        assert_eq!(with(Durability::Power, FailOver::Loses), Verdict::Unsafe);
        assert_eq!(with(Durability::Process, FailOver::None), Verdict::Warning);
        assert_eq!(with(Durability::Volatile, FailOver::None), Verdict::Warning);
    }
}

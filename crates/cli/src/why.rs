//! `bell why`: the answer of `bell-why`, printed.

use bell_api::control::why::{Answer, Fact};
use bell_api::exit;
use bell_core::key::Key;

use crate::answer::Refusal;
use crate::cli::WhyArgs;
use crate::fleet::{Fleet, Need, Reach};
use crate::open::Access;
use crate::say::Say;

/// Says why something is as it is. Answers the exit code.
pub(crate) async fn why(say: &Say, reach: &Reach, args: &WhyArgs) -> Result<u8, Refusal> {
    // Locks are everywhere; agents, runs and jobs are in projects.
    let need = if Key::parse(&args.name).is_ok() { Need::LocksAnywhere } else { Need::Locks };
    let fleet = Fleet::open(reach, need, Access::Read).await?;
    match fleet.why(&args.name).await {
        Ok(why) => {
            let _ = say.answer(&why, || lines(&why.answer));
            Ok(exit::OK)
        }
        // Which records there are depends on where they were looked for.
        Err(refusal) => Ok(match fleet.store() {
            Some(store) => say.clone().about(store).refuse(&refusal),
            None => say.refuse(&refusal),
        }),
    }
}

fn lines(answer: &Answer) -> String {
    let mut lines = vec![format!("{}.", answer.says)];
    lines.extend(answer.facts.iter().map(fact_line));
    lines.extend(answer.next.iter().map(|next| format!("next: {next}")));
    lines.join("\n")
}

fn fact_line(fact: &Fact) -> String {
    let because = fact.because.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
    format!("  {:10} {}{because}", fact.what, fact.value)
}

//! `bell doctor fs`: what a folder's file system really does, and what may be built on it.

use std::time::Duration;

use bell_api::exit;
use bell_locks::folder::probe::peer::{Together, peer};
use bell_locks::folder::probe::{Finding, Report, Verdict, probe};
use serde::Serialize;

use crate::answer::Refusal;
use crate::cli::DoctorFsArgs;
use crate::say::{Format, Say, can_show_progress};
use crate::span;

const DEFAULT_WAIT: Duration = Duration::from_secs(120);

#[derive(Serialize)]
struct Answer {
    worst: Verdict,
    #[serde(flatten)]
    report: Report,
    #[serde(skip_serializing_if = "Option::is_none")]
    together: Option<Together>,
}

/// Tries a folder out. Answers the exit code.
pub(crate) fn fs(say: &Say, args: &DoctorFsArgs) -> Result<u8, Refusal> {
    let wait = span::wait(args.wait.as_deref(), "--wait", DEFAULT_WAIT)?;
    let report = probe(&args.path)?;
    let together = if args.peer {
        if say.format() == Format::Plain && can_show_progress() {
            say.talk("waiting for the other machine: run the same command there");
        }
        Some(peer(&args.path, wait)?)
    } else {
        None
    };
    let between =
        together.iter().flat_map(|together| &together.findings).map(|finding| finding.verdict).max();
    let worst = report.worst().max(between.unwrap_or(Verdict::Safe));
    let answer = Answer { worst, report, together };
    let _ = say.answer(&answer, || lines(args, &answer));
    Ok(if worst == Verdict::Unsafe { exit::CONFLICT } else { exit::OK })
}

fn lines(args: &DoctorFsArgs, answer: &Answer) -> String {
    let report = &answer.report;
    let options = report.options.join(",");
    let mut lines = vec![
        format!("{} is on {}, mounted at {}", args.path.display(), report.fs_type, report.mounted_at),
        format!("options: {options}"),
    ];
    lines.extend(report.findings.iter().map(line));
    if let Some(together) = &answer.together {
        lines.push(format!("together with {}:", together.peer));
        lines.extend(together.findings.iter().map(line));
    }
    lines.push("what may be used here:".to_owned());
    let uses = report.uses.iter();
    lines.extend(uses.map(|used| format!("{:10} {:24} {}", used.verdict.word(), used.feature, used.because)));
    lines.join("\n")
}

fn line(finding: &Finding) -> String {
    format!("{:10} {:24} {}", finding.verdict.word(), finding.about, finding.seen)
}

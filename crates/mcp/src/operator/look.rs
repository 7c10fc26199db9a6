//! Resources: agents, runs and logs, for reading.

use bell_api::control::logs::{LogAnswer, LogQuery, LogStream};
use bell_api::control::runs::{RunLine, RunsQuery};
use bell_api::outcome::Outcome;
use bell_control::{Control, Refused};
use rmcp::ErrorData;
use rmcp::model::{ReadResourceResult, Resource};

use crate::resource::Named;

/// Bytes of a log in one answer: as much as a model reads with profit. The end is what counts.
pub(super) const LOG_BYTES_MAX: usize = 32 << 10;
/// Lines of a log that are read for it.
const LOG_LINES: usize = 1_000;

/// Every agent, and the runs that run or ran last.
pub(crate) async fn list(control: &Control) -> Result<Vec<Resource>, ErrorData> {
    let agents = control.agents().await.map_err(unavailable)?.agents;
    let runs = control.runs(&RunsQuery::default()).await.map_err(unavailable)?.runs;
    let agents = agents.into_iter().map(|shown| {
        let about = shown.description.unwrap_or_else(|| "An agent".to_owned());
        Named::Agent(shown.status.agent.to_string()).listed(about)
    });
    let runs = runs.iter().flat_map(|run| {
        let log = format!("What run {} of {} printed", run.run, run.agent);
        [Named::Run(run.run.to_string()).listed(words(run)), Named::Log(run.run.to_string()).listed(log)]
    });
    Ok(agents.chain(runs).collect())
}

fn words(run: &RunLine) -> String {
    match &run.end {
        Some(end) => format!("A run of {}: {end}", run.agent),
        None => format!("A run of {}, which is at work", run.agent),
    }
}

/// What a resource holds; `None`: there is none of that name.
pub(crate) async fn read(control: &Control, named: &Named) -> Result<Option<ReadResourceResult>, ErrorData> {
    let read = match named {
        Named::Agent(name) => control.agent(name).await.map(|agent| named.holding(&agent)),
        Named::Run(run) => control.run(run).await.map(|run| named.holding(&run)),
        Named::Log(run) => control.logs(run, end_of_log()).await.map(|log| Ok(named.saying(text(&log).0))),
    };
    match read {
        Ok(read) => read.map(Some),
        Err(refused) if matches!(refused.outcome(), Outcome::NotFound | Outcome::Invalid) => Ok(None),
        Err(refused) => Err(unavailable(refused)),
    }
}

/// What to ask for to have the end of a log.
pub(crate) fn end_of_log() -> LogQuery {
    LogQuery { tail: Some(LOG_LINES), ..LogQuery::default() }
}

/// The end of a log as text, and whether all of it is there. What did not come from standard output says so.
pub(crate) fn text(log: &LogAnswer) -> (String, bool) {
    let mut lines = Vec::new();
    let mut bytes = 0;
    for line in log.lines.iter().rev() {
        let from = match line.stream {
            LogStream::Out => "",
            LogStream::Err => "stderr: ",
            LogStream::Log => "supervisor: ",
        };
        bytes += from.len() + line.text.len() + 1;
        if bytes > LOG_BYTES_MAX && !lines.is_empty() {
            break;
        }
        lines.push(format!("{from}{}\n", line.text.trim_end_matches('\n')));
    }
    let is_whole = lines.len() == log.lines.len();
    lines.reverse();
    (lines.concat(), is_whole)
}

fn unavailable(refused: Refused) -> ErrorData {
    ErrorData::internal_error(format!("{}; {}", refused.message(), refused.hint()), None)
}

#[cfg(test)]
mod tests {
    use bell_api::control::logs::LogLine;

    use super::*;

    fn log(texts: &[&str]) -> LogAnswer {
        let line = |text: &&str| LogLine {
            offset: 0,
            at_ms: 0,
            stream: LogStream::Out,
            ends: true,
            text: (*text).to_owned(),
        };
        let lines = texts.iter().map(line).collect();
        LogAnswer { outcome: Outcome::Listed, run: "r".to_owned(), lines, next: 0, is_last: true }
    }

    #[test]
    fn of_a_long_log_the_end_is_told() {
        let long = "x".repeat(LOG_BYTES_MAX);
        assert_eq!(text(&log(&["a", "b"])), ("a\nb\n".to_owned(), true));
        assert_eq!(text(&log(&[&long, "b"])), ("b\n".to_owned(), false));
        assert_eq!(
            text(&log(&["a", &long])).0.len(),
            LOG_BYTES_MAX + 1,
            "one line is told however long it is"
        );
    }
}

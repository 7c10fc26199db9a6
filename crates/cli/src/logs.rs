//! `bell logs`: what a run printed. Read from its folder on this machine, where no daemon and no store is needed; or
//! from a gateway, which has it from there.

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::time::Duration;

use bell_api::control::logs::{LogAnswer, LogQuery, LogStream};
use bell_api::exit;
use bell_client::Client;
use bell_control::logs::{self, ANSWER_BYTES, ANY, Named, Part, Reading, Sieve};
use bell_control::place::Place;
use bell_coord::work::wall_now;
use bell_runner::logs::{Joiner, Line, Stream, follow};

use crate::answer::Refusal;
use crate::cli::{LogsArgs, OutputStream};
use crate::fleet::Reach;
use crate::say::{self, Format, Say};
use crate::span::moment;

/// Bytes of a log read at once while it is followed.
const PAGE_BYTES: usize = 256 << 10;
/// How often a new run of an agent is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Shows what a run printed. Answers the exit code.
pub(crate) async fn logs(say: &Say, reach: &Reach, args: &LogsArgs) -> Result<u8, Refusal> {
    let query = query(args)?;
    match reach.gateway()? {
        Some(client) => there(say, &client, args, query).await?,
        None => here(say, reach, args, &query).await?,
    }
    Ok(exit::OK)
}

fn query(args: &LogsArgs) -> Result<LogQuery, Refusal> {
    let since = args.since.as_deref().map(|since| moment(since, "--since", wall_now())).transpose()?;
    let stream = args.stream.map(|stream| match stream {
        OutputStream::Out => LogStream::Out,
        OutputStream::Err => LogStream::Err,
    });
    Ok(LogQuery {
        from: args.from,
        since_ms: since.map(|since| since.0),
        grep: args.grep.clone(),
        stream,
        tail: args.tail,
        ..LogQuery::default()
    })
}

/// From the folders of this machine.
async fn here(say: &Say, reach: &Reach, args: &LogsArgs, query: &LogQuery) -> Result<(), Refusal> {
    let runs = Place::of(&reach.start.project()?).runs();
    let sieve = Sieve::of(query);
    let named = Named::of(args.name.as_deref(), &runs)?;
    let mut run = named.latest(&runs)?;
    let mut from = args.from;
    loop {
        let mut reader = Reader { say, sieve: &sieve, run_dir: runs.join(&run), run: &run, from };
        let heard = if args.follow { reader.follow().await? } else { reader.show()? };
        if matches!(heard, Heard::Enough) || !args.follow || matches!(named, Named::Run(_)) {
            return Ok(());
        }
        run = loop {
            match named.latest(&runs) {
                Ok(next) if next != run => break next,
                _ => tokio::time::sleep(LOOK_EVERY).await,
            }
        };
        from = 0;
    }
}

/// From a gateway.
async fn there(say: &Say, client: &Client, args: &LogsArgs, mut query: LogQuery) -> Result<(), Refusal> {
    let name = args.name.as_deref().unwrap_or(ANY);
    if args.follow {
        return follow_there(say, client, name, query).await;
    }
    loop {
        let part = client.logs(name, &query).await?;
        let is_all =
            part.next == query.from || (part.is_last && part.lines.is_empty()) || query.tail.is_some();
        query.from = part.next;
        // One answer in JSON says where to go on; people get all that there is now.
        if matches!(tell(say, part, args.follow), Heard::Enough) || is_all || say.format() == Format::Json {
            return Ok(());
        }
    }
}

/// As it comes: the run that is meant, and the next ones if only an agent was named.
async fn follow_there(say: &Say, client: &Client, name: &str, mut query: LogQuery) -> Result<(), Refusal> {
    let mut wanted = name.to_owned();
    loop {
        let mut stream = client.follow_logs(&wanted, &query).await?;
        let mut is_over = false;
        // A stream that breaks off is opened again where it was.
        while let Ok(Some(said)) = stream.next().await {
            let part: LogAnswer = said.read()?;
            (query.from, query.tail, is_over) = (part.next, None, part.is_last);
            wanted.clone_from(&part.run);
            if let Heard::Enough = tell(say, part, true) {
                return Ok(());
            }
        }
        if is_over && wanted == name {
            return Ok(());
        }
        if is_over {
            wanted = next_run(client, name, &wanted).await?;
            query.from = 0;
        } else {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

/// The first run that is meant after this one.
async fn next_run(client: &Client, name: &str, run: &str) -> Result<String, Refusal> {
    let one_line = LogQuery { tail: Some(1), ..LogQuery::default() };
    loop {
        let latest = client.logs(name, &one_line).await?.run;
        if latest != run {
            return Ok(latest);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Whether there is anybody left to tell.
enum Heard {
    All,
    /// Whoever read it has gone, or has got one answer's worth.
    Enough,
}

/// Shows a part that a gateway gave. Who follows is told only what is new.
fn tell(say: &Say, part: LogAnswer, follows: bool) -> Heard {
    let told = match say.format() {
        Format::Json if follows && part.lines.is_empty() => Ok(()),
        Format::Json => say.answer(&part, String::new),
        Format::Plain => {
            let lines: Vec<Line> = part.lines.into_iter().map(line_of).collect();
            print(&lines)
        }
    };
    if told.is_err() { Heard::Enough } else { Heard::All }
}

fn line_of(line: bell_api::control::logs::LogLine) -> Line {
    let stream = match line.stream {
        LogStream::Out => Stream::Out,
        LogStream::Err => Stream::Err,
        LogStream::Log => Stream::Log,
    };
    Line { offset: line.offset, at_ms: line.at_ms, stream, ends: line.ends, text: line.text.into_bytes() }
}

/// The output of one run of this machine.
struct Reader<'a> {
    say: &'a Say,
    sieve: &'a Sieve,
    run_dir: PathBuf,
    run: &'a str,
    from: u64,
}

impl Reader<'_> {
    /// What there is now.
    fn show(&mut self) -> Result<Heard, Refusal> {
        let mut reading = Reading::new(self.run_dir.clone(), self.from);
        loop {
            let mut part = reading.part(self.sieve, ANSWER_BYTES)?;
            self.from = part.next;
            let is_all = part.is_all || self.say.format() == Format::Json;
            if is_all {
                part.lines.extend(reading.rest(self.sieve));
            }
            let heard = self.tell(part);
            if is_all || matches!(heard, Heard::Enough) {
                return Ok(heard);
            }
        }
    }

    /// What there is now, and what comes, until the run is over.
    async fn follow(&mut self) -> Result<Heard, Refusal> {
        if self.sieve.has_tail() || self.say.format() == Format::Plain {
            // The last lines of what there is, once; everything from then on.
            if let Heard::Enough = self.show()? {
                return Ok(Heard::Enough);
            }
        }
        let mut coming = follow(&self.run_dir, self.from).map_err(logs::unreadable)?;
        let mut joiner = Joiner::default();
        while let Some(page) = coming.next(PAGE_BYTES).await.map_err(logs::unreadable)? {
            self.from = page.next;
            let mut lines: Vec<Line> =
                page.lines.into_iter().filter_map(|piece| joiner.take(piece)).collect();
            // An unfinished line may be a question: who follows wants to see it now.
            lines.extend(joiner.rest());
            lines.retain(|line| self.sieve.admits(line));
            let part = Part { lines, next: page.next, is_last: page.is_last, is_all: false };
            if !part.lines.is_empty()
                && let Heard::Enough = self.tell(part)
            {
                return Ok(Heard::Enough);
            }
        }
        Ok(Heard::All)
    }

    fn tell(&self, part: Part) -> Heard {
        let told = match self.say.format() {
            Format::Json => self.say.answer(&logs::of_part(self.run, part), String::new),
            Format::Plain => print(&part.lines),
        };
        if told.is_err() { Heard::Enough } else { Heard::All }
    }
}

/// The agent's bytes as they are; made harmless where a terminal would obey them.
fn print(lines: &[Line]) -> io::Result<()> {
    let stdout = io::stdout();
    let is_terminal = stdout.is_terminal();
    let mut out = stdout.lock();
    for line in lines {
        let text = if is_terminal { harmless(&line.text).into_bytes() } else { line.text.clone() };
        if line.stream == Stream::Log {
            out.write_all(b"bell: ")?;
        }
        out.write_all(&text)?;
        if line.ends {
            out.write_all(b"\n")?;
        }
    }
    out.flush()
}

/// Text in which nothing moves a cursor or hides anything; a tab is a tab.
fn harmless(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    // A carriage return at a line's end is how some programs end lines.
    let text = text.strip_suffix('\r').unwrap_or(&text);
    text.split('\t').map(say::clean).collect::<Vec<_>>().join("\t")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_is_not_fooled_and_tabs_stay() {
        assert_eq!(harmless(b"a\tb\x1b[2J\r"), "a\tb\\u{1b}[2J");
        assert_eq!(harmless(b"\xff\x9b"), "\u{fffd}\u{fffd}");
    }
}

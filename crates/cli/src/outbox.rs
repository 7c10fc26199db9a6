//! `bell outbox`: one file per writer, nothing to coordinate.

use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bell_api::exit;
use bell_api::outcome::Outcome;
use bell_locks::folder::outbox::{Cleaned, Letter, Outbox, clean, letters};
use bell_locks::folder::process::Process;
use bell_locks::folder::queue::Mode;
use serde::Serialize;

use crate::answer::Refusal;
use crate::cli::{OutboxCleanArgs, OutboxCommand, OutboxDirArgs, OutboxPathArgs, OutboxPutArgs};
use crate::folder::open_plain;
use crate::say::{Format, Say};
use crate::span;

const DEFAULT_SILENT: Duration = Duration::from_secs(3_600);

/// Bytes of all files that one JSON answer may have: it is made in memory, several times over, before the first of it is printed.
const JSON_BYTES_MAX: u64 = 64 << 20;

#[derive(Serialize)]
struct Put {
    outcome: Outcome,
    writer: String,
    paths: Vec<PathBuf>,
}

#[derive(Serialize)]
struct Listed {
    outcome: Outcome,
    letters: Vec<Letter>,
}

#[derive(Serialize)]
struct Shown {
    outcome: Outcome,
    letters: Vec<ShownLetter>,
}

/// A file with what is in it.
#[derive(Serialize)]
struct ShownLetter {
    #[serde(flatten)]
    letter: Letter,
    #[serde(flatten)]
    content: Content,
}

/// Every byte comes back as it was written, so what is no text is not bent into one.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Content {
    /// UTF-8.
    Text(String),
    /// Anything else.
    Base64(String),
}

#[derive(Serialize)]
struct Swept {
    outcome: Outcome,
    dry_run: bool,
    #[serde(flatten)]
    cleaned: Cleaned,
}

/// Carries out a command. Answers the exit code.
pub(crate) fn outbox(say: &Say, command: &OutboxCommand) -> Result<u8, Refusal> {
    match command {
        OutboxCommand::Path(args) => path(say, args),
        OutboxCommand::Put(args) => put(say, args),
        OutboxCommand::Ls(args) => ls(say, args),
        OutboxCommand::Cat(args) => match say.format() {
            Format::Plain => cat(args),
            Format::Json => cat_json(say, args),
        },
        OutboxCommand::Clean(args) => sweep(say, args),
    }
}

fn path(say: &Say, args: &OutboxPathArgs) -> Result<u8, Refusal> {
    let outbox = Outbox::open(&args.dir, Some(&writer(args.writer.as_deref())?))?;
    Ok(tell(say, &outbox, vec![outbox.path().to_path_buf()]))
}

fn put(say: &Say, args: &OutboxPutArgs) -> Result<u8, Refusal> {
    if args.name.is_some() && args.files.len() > 1 {
        return Err(Refusal::invalid(
            format!("could not give one name to {} files", args.files.len()),
            "Put the files out one by one, or leave the name out.",
        ));
    }
    let outbox = Outbox::open(&args.dir, Some(&writer(args.writer.as_deref())?))?;
    let mut paths = Vec::new();
    if args.files.is_empty() {
        paths.push(outbox.put(io::stdin().lock(), args.name.as_deref())?);
    }
    for file in &args.files {
        let own = file.file_name().and_then(|name| name.to_str());
        let name = args.name.as_deref().or(own);
        paths.push(outbox.put(open_plain(file)?, name)?);
    }
    Ok(tell(say, &outbox, paths))
}

fn tell(say: &Say, outbox: &Outbox, paths: Vec<PathBuf>) -> u8 {
    let answer = Put { outcome: Outcome::Written, writer: outbox.writer().to_owned(), paths };
    let _ = say.answer(&answer, || {
        answer.paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join("\n")
    });
    exit::OK
}

/// The session that writes: as given, or the process that calls, whose number passes on only with its start time.
fn writer(given: Option<&str>) -> Result<String, Refusal> {
    if let Some(given) = given.filter(|given| !given.is_empty()) {
        return Ok(given.to_owned());
    }
    let parent = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get().unsigned_abs());
    let process = parent.and_then(Process::of);
    process.map(|process| format!("{}-{}-{}", process.host, process.pid, process.start_ticks)).ok_or_else(
        || {
            Refusal::invalid(
                "could not tell who writes: the calling process is gone",
                "Name the writer with --writer.",
            )
        },
    )
}

fn ls(say: &Say, args: &OutboxDirArgs) -> Result<u8, Refusal> {
    let answer = Listed { outcome: Outcome::Listed, letters: letters(&args.dir)? };
    if answer.letters.is_empty() && say.format() == Format::Plain {
        return Ok(exit::OK);
    }
    let line = |letter: &Letter| letter.path.display().to_string();
    let _ = say.answer(&answer, || answer.letters.iter().map(line).collect::<Vec<_>>().join("\n"));
    Ok(exit::OK)
}

/// What was written is data: it goes out byte for byte.
fn cat(args: &OutboxDirArgs) -> Result<u8, Refusal> {
    let mut out = io::stdout().lock();
    for letter in letters(&args.dir)? {
        let mut file = open_plain(&letter.path)?.take(letter.bytes);
        if let Err(error) = io::copy(&mut file, &mut out) {
            return Err(Refusal::unavailable(
                format!("could not print {}: {error}", letter.path.display()),
                "Look whether the reader of stdout is still there.",
            ));
        }
    }
    let _ = out.flush();
    Ok(exit::OK)
}

/// The same as one object: each file with its writer and its name.
fn cat_json(say: &Say, args: &OutboxDirArgs) -> Result<u8, Refusal> {
    let found = letters(&args.dir)?;
    let bytes: u64 = found.iter().map(|letter| letter.bytes).sum();
    if bytes > JSON_BYTES_MAX {
        return Err(Refusal::invalid(
            format!("could not print {bytes} bytes as one JSON object: {JSON_BYTES_MAX} are the most"),
            "Print them without --json, or list them with bell outbox ls --json and read each by its path.",
        ));
    }
    let letters = found.into_iter().map(read).collect::<Result<_, _>>()?;
    let _ = say.answer(&Shown { outcome: Outcome::Listed, letters }, String::new);
    Ok(exit::OK)
}

fn read(letter: Letter) -> Result<ShownLetter, Refusal> {
    let mut bytes = Vec::new();
    open_plain(&letter.path)?.take(letter.bytes).read_to_end(&mut bytes).map_err(|error| {
        Refusal::unavailable(
            format!("could not read {}: {error}", letter.path.display()),
            "Look at the file and the disk that it lies on.",
        )
    })?;
    let content = match String::from_utf8(bytes) {
        Ok(text) => Content::Text(text),
        Err(error) => Content::Base64(STANDARD.encode(error.as_bytes())),
    };
    Ok(ShownLetter { letter, content })
}

fn sweep(say: &Say, args: &OutboxCleanArgs) -> Result<u8, Refusal> {
    let silent = span::wait(args.silent.as_deref(), "--silent", DEFAULT_SILENT)?;
    let mode = if args.yes { Mode::Act } else { Mode::Look };
    let cleaned = clean(&args.dir, silent, mode)?;
    let answer = Swept { outcome: Outcome::Written, dry_run: !args.yes, cleaned };
    let _ = say.answer(&answer, || {
        let Cleaned { drafts, folders } = &answer.cleaned;
        let did = if args.yes { "removed" } else { "would remove" };
        format!("{did} {} half-written files and {} empty folders", drafts.len(), folders.len())
    });
    Ok(exit::OK)
}

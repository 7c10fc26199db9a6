//! `bell mcp install`: tells the agent programs of this machine about the server, each in its own way.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use bell_api::exit;
use bell_api::outcome::Outcome;
use serde::Serialize;
use serde_json::Value;

use super::clients::{self, ALL, Client, SERVER, Scene};
use super::splice::{Spliced, splice};
use crate::answer::Refusal;
use crate::cli::{ClientName, InstallArgs};
use crate::project::Start;
use crate::say::Say;

/// Bytes in a configuration file of a program: megabytes are something else.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// What became of every program.
#[derive(Serialize)]
struct Installed {
    outcome: Outcome,
    /// Nothing was written.
    dry_run: bool,
    clients: Vec<Line>,
}

/// What became of one program.
#[derive(Serialize)]
struct Line {
    client: &'static str,
    file: PathBuf,
    did: Did,
    /// What stands in the file for this server, or would.
    entry: Value,
    /// Why the file was left alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Did {
    /// The entry is new.
    Added,
    /// It was there.
    Already,
    /// The program is not on this machine.
    NotFound,
    /// The file was left alone.
    LeftAlone,
}

/// Answers the exit code.
pub(super) fn install(say: &Say, start: &Start, args: &InstallArgs) -> Result<u8, Refusal> {
    let project = start.or_at(args.dir.as_deref()).project_or_folder()?;
    let home = absolute("HOME").ok_or_else(|| {
        Refusal::invalid("could not find the user's folder: HOME is no absolute path", "Set HOME.")
    })?;
    let bell = bell()?;
    let scene = Scene { bell: &bell, project: &project, home: &home, variable: &absolute };
    let wanted: &[ClientName] = if args.client.is_empty() { &ALL } else { &args.client };
    let lines: Vec<Line> = wanted.iter().map(|name| one(clients::client(*name, &scene), args)).collect();
    let has_failed = lines.iter().any(|line| line.did == Did::LeftAlone);
    let outcome = if has_failed { Outcome::Invalid } else { Outcome::Written };
    let answer = Installed { outcome, dry_run: args.dry_run, clients: lines };
    let _ = say.answer(&answer, || words(&answer));
    Ok(if has_failed { exit::BAD_REQUEST } else { exit::OK })
}

fn one(client: Client, args: &InstallArgs) -> Line {
    let mut line = Line {
        client: client.program,
        file: client.file.clone(),
        did: Did::NotFound,
        entry: client.entry.clone(),
        message: None,
    };
    if args.client.is_empty() && in_path(client.program).is_none() {
        return line;
    }
    match add(&client, args.dry_run) {
        Ok(did) => line.did = did,
        Err(why) => (line.did, line.message) = (Did::LeftAlone, Some(why)),
    }
    line
}

fn add(client: &Client, is_dry: bool) -> Result<Did, String> {
    // A file may be a link into a collection of such files: that is what is to be changed.
    let file = fs::canonicalize(&client.file).unwrap_or_else(|_| client.file.clone());
    let text = match fs::metadata(&file) {
        Ok(about) if about.len() > FILE_BYTES_MAX || !about.is_file() => {
            return Err("it is no such file".to_owned());
        }
        Ok(_) => fs::read_to_string(&file).map_err(|error| format!("it can't be read: {error}"))?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(format!("it can't be looked at: {error}")),
    };
    match splice(client.form, &text, client.table, &client.entry)? {
        Spliced::Same => Ok(Did::Already),
        Spliced::Taken => {
            Err(format!("there is another server called {SERVER} in it; remove that one first"))
        }
        Spliced::Changed(_) if is_dry => Ok(Did::Added),
        Spliced::Changed(text) => {
            write(&file, &text).map_err(|error| format!("it can't be written: {error}"))?;
            Ok(Did::Added)
        }
    }
}

/// Whoever reads the file at any moment finds the old text or the new one; who may read it stays as it was.
fn write(file: &Path, text: &str) -> io::Result<()> {
    let folder = file.parent().ok_or(io::ErrorKind::InvalidInput)?;
    fs::create_dir_all(folder)?;
    let mode = fs::metadata(file).map_or(0o644, |about| about.permissions().mode() & 0o777);
    let mut fresh = tempfile::NamedTempFile::new_in(folder)?;
    fresh.write_all(text.as_bytes())?;
    fresh.as_file().set_permissions(fs::Permissions::from_mode(mode))?;
    fresh.as_file().sync_all()?;
    fresh.persist(file)?;
    Ok(())
}

/// How other programs call this one: by its name, if that leads here.
fn bell() -> Result<String, Refusal> {
    let this = std::env::current_exe().map_err(|error| unusable("find out where bell is", &error))?;
    let is_this = |found: PathBuf| fs::canonicalize(found).is_ok_and(|found| found == this);
    if in_path("bell").is_some_and(is_this) {
        return Ok("bell".to_owned());
    }
    this.to_str().map(str::to_owned).ok_or_else(|| {
        Refusal::invalid("could not name bell: its path is not UTF-8", "Install it elsewhere.")
    })
}

fn in_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| {
        fs::metadata(file).is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
    })
}

fn absolute(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
}

fn unusable(what: &str, error: &io::Error) -> Refusal {
    Refusal::unavailable(format!("could not {what}: {error}"), "Look at its permissions, and try again.")
}

fn words(answer: &Installed) -> String {
    let mut lines = Vec::new();
    for line in &answer.clients {
        let file = line.file.display();
        let did = match line.did {
            Did::Added if answer.dry_run => format!("would add to {file}: {}", line.entry),
            Did::Added => format!("added to {file}"),
            Did::Already => format!("is in {file} already"),
            Did::NotFound => "is not on this machine".to_owned(),
            Did::LeftAlone => format!("left {file} alone: {}", line.message.as_deref().unwrap_or_default()),
        };
        lines.push(format!("{:9} {did}", line.client));
    }
    lines.join("\n")
}

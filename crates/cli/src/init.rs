//! `bell init`: a project to begin with.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use bell_api::exit;
use bell_api::outcome::Outcome;
use bell_project::load::CONFIG_FILE;
use bell_project::samples::{SAMPLES, SETTINGS_OF_ROOT, Sample};
use rustix::process::geteuid;
use serde::Serialize;

use crate::answer::Refusal;
use crate::cli::InitArgs;
use crate::project::{Start, check_new};
use crate::say::Say;

#[derive(Serialize)]
struct Made<'a> {
    outcome: Outcome,
    project: &'a Path,
    files: Vec<&'a str>,
}

/// Writes the sample project. Nothing that is there is ever overwritten. Answers the exit code.
pub(crate) fn init(say: &Say, start: &Start, args: &InitArgs) -> Result<u8, Refusal> {
    let project = &*start.new_project(args.dir.as_deref());
    check_new(project)?;
    if let Some(there) = SAMPLES.iter().find(|sample| project.join(sample.path).symlink_metadata().is_ok()) {
        return Err(Refusal::new(
            Outcome::Busy,
            format!("could not begin a project in {}: {} is there", project.display(), there.path),
            "Name an empty folder, or one that does not exist yet.",
        ));
    }
    for sample in SAMPLES {
        write(project, sample).map_err(|error| {
            Refusal::unavailable(
                format!("could not write {}: {error}", project.join(sample.path).display()),
                "Look at the rights of the folder and the space on its disk.",
            )
        })?;
    }
    let files = SAMPLES.iter().map(|sample| sample.path).collect();
    let made = Made { outcome: Outcome::Written, project, files };
    let _ = say.answer(&made, || words(&made));
    Ok(exit::OK)
}

fn write(project: &Path, sample: &Sample) -> std::io::Result<()> {
    let path = project.join(sample.path);
    let folder = path.parent().ok_or(ErrorKind::InvalidInput)?;
    fs::create_dir_all(folder)?;
    let mut file = OpenOptions::new().write(true).create_new(true).mode(sample.mode).open(&path)?;
    if sample.path == CONFIG_FILE && is_of_root(project)? {
        file.write_all(SETTINGS_OF_ROOT.as_bytes())?;
    }
    file.write_all(sample.text.as_bytes())
}

/// Whether the user and the owner of the folder are both root. In a folder of another user, agents run as its owner.
fn is_of_root(project: &Path) -> std::io::Result<bool> {
    Ok(geteuid().is_root() && fs::metadata(project)?.uid() == 0)
}

fn words(made: &Made<'_>) -> String {
    let files = made.files.iter().map(|file| format!("  {file}")).collect::<Vec<_>>().join("\n");
    format!(
        "made a project in {}:\n{files}\nnext: cd {} && bell up",
        made.project.display(),
        made.project.display()
    )
}

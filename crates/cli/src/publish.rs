//! `bell publish`: files and folders that appear whole, or not at all.

use std::io::Read;
use std::path::Path;

use bell_api::exit;
use bell_api::outcome::Outcome;
use bell_core::lock::Fence;
use bell_locks::folder::publish::{Layout, Publish, Published, Source, Way, publish as put};
use serde::Serialize;

use crate::answer::Refusal;
use crate::cli::PublishArgs;
use crate::folder::open_plain;
use crate::say::Say;

/// A list of files is text for people; more than this is something else.
const MAX_MANIFEST_BYTES: u64 = 1 << 20;

#[derive(Serialize)]
struct Answer<'a> {
    outcome: Outcome,
    to: &'a Path,
    fence: Option<u64>,
    #[serde(flatten)]
    published: Published,
}

/// Publishes. Answers the exit code.
pub(crate) fn publish(say: &Say, args: &PublishArgs) -> Result<u8, Refusal> {
    let source = match &args.manifest {
        Some(path) => manifest(path)?,
        None => Source::of(&args.sources)?,
    };
    let layout = if args.linked { Layout::Linked } else { Layout::Plain };
    let how = Publish::default().layout(layout);
    let how = match args.fence {
        Some(fence) => how.fence(Fence(fence)),
        None => how,
    };
    let published = put(&source, &args.to, &how)?;
    let answer = Answer { outcome: Outcome::Written, to: &args.to, fence: args.fence, published };
    let _ = say.answer(&answer, || line(&answer));
    Ok(exit::OK)
}

fn line(answer: &Answer<'_>) -> String {
    let Published { files, bytes, way, leftovers } = answer.published;
    let way = match way {
        Way::Renamed => "by a rename",
        Way::Exchanged => "by changing places with the old folder",
        Way::Linked => "by a link to the new version",
    };
    let swept =
        if leftovers > 0 { format!(", and removed what {leftovers} others left") } else { String::new() };
    format!("published {} {way}: {files} files, {bytes} bytes{swept}", answer.to.display())
}

/// Paths in a list are found from where the list lies.
fn manifest(path: &Path) -> Result<Source, Refusal> {
    let refused = |error: &dyn std::fmt::Display| {
        Refusal::invalid(format!("could not read the list {}: {error}", path.display()), "Look at the path.")
    };
    let mut text = String::new();
    let file = open_plain(path)?;
    file.take(MAX_MANIFEST_BYTES + 1).read_to_string(&mut text).map_err(|error| refused(&error))?;
    if text.len() as u64 > MAX_MANIFEST_BYTES {
        return Err(refused(&"it has more than 1 MiB"));
    }
    let base = path.parent().unwrap_or(Path::new("."));
    Ok(Source::manifest(&text, base)?)
}

//! `bell mcp`: what an agent can do from inside its run, and what an operator can do with a project's fleet, as tools of
//! an MCP server. stdout is the protocol.

mod clients;
mod install;
mod splice;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bell_api::exit;
use bell_api::outcome::Outcome;
use bell_control::history::is_project;
use bell_control::place::{Place, store_url};
use bell_control::who::Way;
use bell_control::{Control, Who};
use bell_coord::Coord;
use bell_locks::open::{open_store, redacted};
use bell_mcp::{Operator, Rights, RunSide, Side, stdio};
use bell_project::folder::Folder;
use bell_project::load::Loaded;
use bell_project::watch::{Notice, Watch};
use tokio::sync::watch;

use crate::answer::Refusal;
use crate::check::open_project;
use crate::cli::{McpArgs, McpCommand};
use crate::desk::this_run;
use crate::fleet::Reach;
use crate::say::Say;

/// Serves until the other side is gone, or tells agent programs how to be served.
pub(crate) async fn mcp(say: &Say, reach: &Reach, args: &McpArgs) -> Result<u8, Refusal> {
    if let Some(McpCommand::Install(args)) = &args.command {
        return install::install(say, args);
    }
    if let Some(client) = this_run()? {
        return serve(Side::Run(RunSide::new(client))).await;
    }
    if reach.gateway()?.is_some() {
        return Err(Refusal::invalid(
            "could not serve the tools of a gateway here: it serves them itself",
            "Let the program talk to its address with /mcp behind it, with the key as Authorization: Bearer KEY.",
        ));
    }
    let folder = project(args.project.as_deref())?;
    // Kept for as long as is served: it notices changes of the project.
    let (control, _watch) = control(reach, &folder).await?;
    let who = Who::local(std::env::var("USER").unwrap_or_default()).by(Way::Mcp);
    serve(Side::Operator(Operator::new(control, who, Rights::Act))).await
}

async fn serve(side: Side) -> Result<u8, Refusal> {
    stdio::serve(side).await.map_err(|error| {
        Refusal::unavailable(
            format!("could not {error}"),
            "Let an MCP client start this command: one JSON-RPC message on each line.",
        )
    })?;
    Ok(exit::OK)
}

/// The project that is named, or the nearest one upwards. Without any, nothing is served: a tool that could only fail
/// would mislead.
fn project(named: Option<&Path>) -> Result<PathBuf, Refusal> {
    if let Some(folder) = named {
        return Ok(folder.to_owned());
    }
    let here = std::env::current_dir().ok();
    let nearest = here.as_deref().and_then(|here| {
        here.ancestors().find(|folder| folder.join(".bell").is_dir() || is_loaded(folder)).map(Path::to_owned)
    });
    nearest.ok_or_else(|| {
        Refusal::new(
            Outcome::Unreachable,
            "could not find whom to serve: BELL_URL is not set, and there is no project here",
            "Start it inside a run, whose supervisor sets BELL_URL, or in the folder of a project; --project names one.",
        )
    })
}

fn is_loaded(folder: &Path) -> bool {
    Folder::open(folder).is_ok_and(|folder| is_project(&folder, &Loaded::load(&folder)))
}

/// The project with its store open, kept up to date.
async fn control(reach: &Reach, folder: &Path) -> Result<(Control, Watch), Refusal> {
    let folder = open_project(folder)?;
    let loaded = Arc::new(Loaded::load(&folder));
    let url = store_url(reach.store.as_deref(), &loaded, &Place::of(folder.path()));
    let coord = Coord::new(open_store(&url).await?);
    let locks = match &loaded.settings.locks {
        Some(elsewhere) => Coord::new(open_store(elsewhere.expose()).await?),
        None => coord.clone(),
    };
    let (changed, project) = watch::channel(Arc::clone(&loaded));
    let watched = open_project(folder.path())?;
    let watch = Watch::start(watched, loaded, Notice::Automatic, move |change| {
        changed.send_replace(change.loaded);
    });
    let watch = watch.map_err(|error| {
        Refusal::unavailable(
            format!("could not watch the project: {error}"),
            "Look at the limits of this machine.",
        )
    })?;
    let control = Control::live(coord, locks, Arc::new(folder), project)
        .on(redacted(&url))
        .isolating(bell_runner::isolation::probe);
    Ok((control, watch))
}

//! `bell mcp`: what an agent can do from inside its run, and what an operator can do with a project's fleet, as tools of
//! an MCP server. stdout is the protocol.

mod clients;
mod install;
mod splice;

use std::path::Path;
use std::sync::Arc;

use bell_api::exit;
use bell_api::outcome::Outcome;
use bell_control::known;
use bell_control::who::Way;
use bell_control::{Control, Who};
use bell_coord::Coord;
use bell_locks::open::redacted;
use bell_mcp::{Operator, Rights, RunSide, Side, stdio};
use bell_project::stores::Stores;
use bell_project::watch::{Notice, Watch};
use tokio::sync::watch;

use crate::answer::Refusal;
use crate::cli::{McpArgs, McpCommand};
use crate::desk::this_run;
use crate::fleet::Reach;
use crate::open::{Access, open};
use crate::project::open_folder;
use crate::say::Say;

/// Serves until the other side is gone, or tells agent programs how to be served.
pub(crate) async fn mcp(say: &Say, reach: &Reach, args: &McpArgs) -> Result<u8, Refusal> {
    if let Some(McpCommand::Install(args)) = &args.command {
        return install::install(say, &reach.start, args);
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
    let project = reach.start.find()?.ok_or_else(nothing_to_serve)?;
    // Kept for as long as is served: it notices changes of the project.
    let (control, _watch) = control(say, reach, &project).await?;
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

/// Without a project nothing is served: a tool that could only fail would mislead.
fn nothing_to_serve() -> Refusal {
    Refusal::new(
        Outcome::Unreachable,
        "could not find whom to serve: BELL_URL is not set, and there is no project here",
        "Start it inside a run, whose supervisor sets BELL_URL, or in the folder of a project; --project names one.",
    )
}

/// The project with its store open, kept up to date.
async fn control(say: &Say, reach: &Reach, root: &Path) -> Result<(Control, Watch), Refusal> {
    let folder = open_folder(root)?;
    let loaded = Arc::new(known::load(&folder));
    let Stores { work, locks } = reach.start.stores(reach.store.as_ref())?.stores;
    let coord = Coord::new(open(say, &work, Some(root), Access::Write).await?);
    let locks = if locks == work {
        coord.clone()
    } else {
        Coord::new(open(say, &locks, Some(root), Access::Write).await?)
    };
    let (changed, project) = watch::channel(Arc::clone(&loaded));
    let watched = open_folder(root)?;
    let watch = Watch::start(
        watched,
        loaded,
        Notice::Automatic,
        |_| false,
        move |change| {
            changed.send_replace(change.loaded);
        },
    );
    let watch = watch.map_err(|error| {
        Refusal::unavailable(
            format!("could not watch the project: {error}"),
            "Look at the limits of this machine.",
        )
    })?;
    let control = Control::live(coord, locks, Arc::new(folder), project)
        .on(redacted(&work.url))
        .isolating(bell_runner::isolation::probe);
    Ok((control, watch))
}

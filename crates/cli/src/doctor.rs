//! `bell doctor`: what this store can lose, what this machine lacks for a project, and what to change.

mod gateway;
mod history;
mod judge;
mod machine;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bell_api::exit;
use bell_control::known;
use bell_control::place::Place;
use bell_locks::open::redacted;
use bell_project::folder::Folder;
use bell_project::load::Loaded;
use bell_store::Info;
use bell_verify::doctor::{self, Checkup, Commits, Finding, Level, Seen};
use serde::Serialize;

use crate::answer::Refusal;
use crate::fleet::Reach;
use crate::open::Scene;
use crate::project::{open_folder, stores_of};
use crate::say::{Format, Say, can_show_progress};

/// After this long, whoever watches is told that it still goes on.
const SLOW: Duration = Duration::from_secs(1);

/// A project whose machine is looked at.
struct Project {
    folder: Folder,
    loaded: Loaded,
}

#[derive(Serialize)]
struct Answer<'a> {
    sound: bool,
    worst: Level,
    bell: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    project: Option<&'a Path>,
    /// Nothing, if there is no store yet.
    #[serde(flatten)]
    store: Option<&'a Store>,
    findings: &'a [Finding],
}

/// A store that was looked at.
#[derive(Serialize)]
struct Store {
    #[serde(skip)]
    name: String,
    info: Info,
    seen: Seen,
}

/// Looks at the store, and at the machine of a project. Answers the exit code.
pub(crate) async fn doctor(say: &Say, reach: &Reach) -> Result<u8, Refusal> {
    let project = project(reach)?;
    let scene = match &project {
        Some(project) => {
            let root = project.folder.path();
            let stores = stores_of(root, &project.loaded, reach.store.as_ref())?;
            Scene::new(say, stores.work, Some(root.to_owned()))
        }
        None => Scene::new(say, reach.start.stores(reach.store.as_ref())?.stores.work, None),
    };
    Ok(examine(&scene, project.as_ref()).await.unwrap_or_else(|no| scene.say.refuse(&no)))
}

/// The project, or the folder that may become one.
fn project(reach: &Reach) -> Result<Option<Project>, Refusal> {
    let Some(root) = reach.start.find_or_agents()? else { return Ok(None) };
    let folder = open_folder(&root)?;
    Ok(Some(Project { loaded: known::load(&folder), folder }))
}

async fn examine(scene: &Scene, project: Option<&Project>) -> Result<u8, Refusal> {
    let (store, mut findings) = match scene.exists().await {
        Ok(true) => tokio::select! {
            looked = look_at(scene, project) => looked?,
            never = talk_when_slow(&scene.say) => match never {},
        },
        Ok(false) => (None, vec![known(None, scene, project).await.unwrap_or_else(|| no_store(scene))]),
        // In a project the rest is still looked at.
        Err(refusal) if project.is_some() => {
            (None, vec![known(None, scene, project).await.unwrap_or_else(|| not_usable(&refusal))])
        }
        Err(refusal) => return Err(refusal),
    };
    if let Some(project) = project {
        let clock = store.as_ref().and_then(|store| store.seen.clock);
        let seen = machine::look(project, clock.and_then(|clock| clock.ahead_ms))?;
        findings.extend(judge::judge(&project.loaded, &seen));
        findings.extend(history::others(&Place::of(project.folder.path()), scene.url()));
        let settings = &project.loaded.settings.gateway;
        let open = gateway::look(settings, &Place::of(project.folder.path()));
        findings.extend(gateway::judge(settings, &open));
        findings.sort_by_key(|finding| finding.level);
    }
    let worst = worst(&findings);
    let commits = store.as_ref().is_none_or(|store| store.seen.commits == Commits::Taken);
    let answer = Answer {
        sound: worst < Level::Broken && commits,
        worst,
        bell: env!("CARGO_PKG_VERSION"),
        project: project.map(|project| project.folder.path()),
        store: store.as_ref(),
        findings: &findings,
    };
    let _ = scene.say.answer(&answer, || lines(scene, &answer));
    Ok(match worst {
        Level::Broken | Level::Unsafe => exit::CONFLICT,
        _ if commits => exit::OK,
        _ => exit::UNAVAILABLE,
    })
}

async fn look_at(scene: &Scene, project: Option<&Project>) -> Result<(Option<Store>, Vec<Finding>), Refusal> {
    let opened = scene.open_existing().await?;
    // What is tried on a store takes revisions: an older copy would no longer be seen to be one.
    if let Some(known) = known(Some(opened.coord.store()), scene, project).await {
        return Ok((None, vec![known]));
    }
    let Checkup { info, seen, findings } = doctor::look(opened.coord.store()).await;
    Ok((Some(Store { name: opened.name, info, seen }), findings))
}

/// What the project's daemon knows of the store.
async fn known(
    store: Option<&Arc<dyn bell_store::Store>>,
    scene: &Scene,
    project: Option<&Project>,
) -> Option<Finding> {
    let project = project?;
    history::look(store, &Place::of(project.folder.path()), scene.url()).await
}

/// Looking creates no store.
fn no_store(scene: &Scene) -> Finding {
    let level = if scene.chosen().origin.is_default() { Level::Note } else { Level::Warning };
    let what =
        format!("there is no store at {} yet ({})", redacted(scene.url()), scene.chosen().origin.text());
    judge::with_next(
        judge::finding(level, "store", what),
        "If it is new, bell up or the first lock creates it. Otherwise check the path, and that its disk is mounted.",
    )
}

/// A store that should be there.
fn not_usable(refusal: &Refusal) -> Finding {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    judge::with_next(judge::finding(Level::Broken, "store", text(&refusal.0.message)), text(&refusal.0.hint))
}

fn worst(findings: &[Finding]) -> Level {
    findings.iter().map(|finding| finding.level).max().unwrap_or(Level::Ok)
}

async fn talk_when_slow(say: &Say) -> std::convert::Infallible {
    tokio::time::sleep(SLOW).await;
    if say.format() == Format::Plain && can_show_progress() {
        say.talk("looking at the store, which takes its time");
    }
    std::future::pending().await
}

fn lines(scene: &Scene, answer: &Answer<'_>) -> String {
    let bell = answer.bell;
    let mut lines = match answer.store {
        Some(store) => vec![format!("store {}, bell {bell}", store.name), figures(&store.seen)],
        None => vec![format!("store {} (not tried), bell {bell}", redacted(scene.url()))],
    };
    lines.extend(answer.findings.iter().flat_map(of_finding));
    lines.push(verdict(answer));
    lines.join("\n")
}

fn of_finding(finding: &Finding) -> Vec<String> {
    let rule = finding.rule.map(|rule| format!(" ({rule})")).unwrap_or_default();
    let mut lines = vec![format!("{:8} {:11} {}{rule}", finding.level.word(), finding.about, finding.what)];
    let more = [("why", &finding.because), ("next", &finding.next)];
    lines
        .extend(more.iter().filter_map(|(word, said)| Some(format!("{:20} {word}: {}", "", said.as_ref()?))));
    lines
}

fn figures(seen: &Seen) -> String {
    let ms = |us: Option<u64>| us.map_or("?".to_owned(), |us| format!("{:.2} ms", us as f64 / 1_000.0));
    let ahead = seen.clock.and_then(|clock| Some((clock.ahead_ms?, clock.within_ms)));
    let clock = ahead.map_or_else(String::new, |(ahead, within)| {
        let side = if ahead < 0 { "behind" } else { "ahead of" };
        format!(", its clock is {} ms {side} this machine's, give or take {within}", ahead.unsigned_abs())
    });
    format!("a read takes {}, a commit {}{clock}", ms(seen.read_us), ms(seen.commit_us))
}

fn verdict(answer: &Answer<'_>) -> String {
    let count = |level: Level| answer.findings.iter().filter(|finding| finding.level == level).count();
    let words = |level: Level| format!("{} {}", count(level), level.word());
    let mut counts: Vec<String> = [Level::Unsafe, Level::Warning, Level::Note, Level::Ok].map(words).into();
    if count(Level::Broken) > 0 {
        counts.insert(1, words(Level::Broken));
    }
    let counts = counts.join(", ");
    match answer.worst {
        Level::Unsafe => format!("unsafe: {counts}"),
        Level::Broken => format!("broken: {counts}"),
        _ if answer.sound => format!("sound: {counts}"),
        _ => format!("takes no commits: {counts}"),
    }
}

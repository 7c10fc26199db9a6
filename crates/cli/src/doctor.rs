//! `bell doctor`: what this store can lose, what this machine lacks for a project, and what to change.

mod gateway;
mod history;
mod judge;
mod machine;

use std::path::Path;
use std::time::Duration;

use bell_api::exit;
use bell_control::place::{Place, store_url};
use bell_project::folder::Folder;
use bell_project::load::{CONFIG_FILE, Loaded};
use bell_verify::doctor::{self, Checkup, Commits, Finding, Level};
use serde::Serialize;

use crate::answer::Refusal;
use crate::check::open_project;
use crate::cli::DoctorArgs;
use crate::open::{self, Scene};
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
    #[serde(flatten)]
    checkup: &'a Checkup,
}

/// Looks at the store, and at the machine of a project. Answers the exit code.
pub(crate) async fn doctor(say: &Say, store: Option<&str>, args: &DoctorArgs) -> Result<u8, Refusal> {
    let project = project(args)?;
    let url = match &project {
        Some(Project { folder, loaded }) => {
            let given = open::given(store.map(str::to_owned));
            store_url(given.as_deref(), loaded, &Place::of(folder.path()))
        }
        None => open::choose(store)?,
    };
    let scene = Scene::new(say.clone(), url);
    Ok(examine(&scene, project.as_ref()).await.unwrap_or_else(|no| scene.say.refuse(&no)))
}

/// The project that was named, or the one that is here.
fn project(args: &DoctorArgs) -> Result<Option<Project>, Refusal> {
    if let Some(named) = &args.project {
        let folder = open_project(named)?;
        return Ok(Some(Project { loaded: Loaded::load(&folder), folder }));
    }
    let Ok(folder) = open_project(Path::new(".")) else { return Ok(None) };
    let loaded = Loaded::load(&folder);
    let is_one = !loaded.agents.is_empty() || folder.exists(CONFIG_FILE).is_ok();
    Ok(is_one.then_some(Project { folder, loaded }))
}

async fn examine(scene: &Scene, project: Option<&Project>) -> Result<u8, Refusal> {
    let looking = async {
        let opened = scene.open_any().await?;
        let store = opened.coord.store();
        // First: what is tried on the store takes revisions.
        let behind = match project {
            Some(project) => history::look(store, &Place::of(project.folder.path()), scene.url()).await,
            None => None,
        };
        let mut checkup = doctor::look(store).await;
        checkup.findings.extend(behind);
        Ok::<_, Refusal>((checkup, opened.name))
    };
    let (mut checkup, name) = tokio::select! {
        looked = looking => looked?,
        never = talk_when_slow(&scene.say) => match never {},
    };
    if let Some(project) = project {
        let ahead_ms = checkup.seen.clock.and_then(|clock| clock.ahead_ms);
        let seen = machine::look(project, ahead_ms)?;
        checkup.findings.extend(judge::judge(&project.loaded, &seen));
        let settings = &project.loaded.settings.gateway;
        let open = gateway::look(settings, &Place::of(project.folder.path()));
        checkup.findings.extend(gateway::judge(settings, &open));
        checkup.findings.sort_by_key(|finding| finding.level);
    }
    let sound = checkup.worst() < Level::Broken && checkup.seen.commits == Commits::Taken;
    let answer = Answer {
        sound,
        worst: checkup.worst(),
        bell: env!("CARGO_PKG_VERSION"),
        project: project.map(|project| project.folder.path()),
        checkup: &checkup,
    };
    let _ = scene.say.answer(&answer, || lines(&name, &checkup));
    Ok(match (checkup.worst(), &checkup.seen.commits) {
        (Level::Broken | Level::Unsafe, _) => exit::CONFLICT,
        (_, Commits::Taken) => exit::OK,
        (_, Commits::Rewound { .. } | Commits::Refused { .. }) => exit::UNAVAILABLE,
    })
}

async fn talk_when_slow(say: &Say) -> std::convert::Infallible {
    tokio::time::sleep(SLOW).await;
    if say.format() == Format::Plain && can_show_progress() {
        say.talk("looking at the store, which takes its time");
    }
    std::future::pending().await
}

fn lines(name: &str, checkup: &Checkup) -> String {
    let mut lines = vec![format!("store {name}, bell {}", env!("CARGO_PKG_VERSION")), figures(checkup)];
    lines.extend(checkup.findings.iter().flat_map(of_finding));
    lines.push(verdict(checkup));
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

fn figures(checkup: &Checkup) -> String {
    let ms = |us: Option<u64>| us.map_or("?".to_owned(), |us| format!("{:.2} ms", us as f64 / 1_000.0));
    let seen = &checkup.seen;
    let ahead = seen.clock.and_then(|clock| Some((clock.ahead_ms?, clock.within_ms)));
    let clock = ahead.map_or_else(String::new, |(ahead, within)| {
        let side = if ahead < 0 { "behind" } else { "ahead of" };
        format!(", its clock is {} ms {side} this machine's, give or take {within}", ahead.unsigned_abs())
    });
    format!("a read takes {}, a commit {}{clock}", ms(seen.read_us), ms(seen.commit_us))
}

fn verdict(checkup: &Checkup) -> String {
    let count = |level: Level| format!("{} {}", checkup.count(level), level.word());
    let mut counts: Vec<String> = [Level::Unsafe, Level::Warning, Level::Note, Level::Ok].map(count).into();
    if checkup.count(Level::Broken) > 0 {
        counts.insert(1, count(Level::Broken));
    }
    let counts = counts.join(", ");
    match (checkup.worst(), &checkup.seen.commits) {
        (Level::Unsafe, _) => format!("unsafe: {counts}"),
        (Level::Broken, _) => format!("broken: {counts}"),
        (_, Commits::Taken) => format!("sound: {counts}"),
        (_, Commits::Rewound { .. } | Commits::Refused { .. }) => format!("takes no commits: {counts}"),
    }
}

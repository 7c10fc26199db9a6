//! `bell doctor`: what this store can lose, and what to change.

use std::time::Duration;

use bell_api::exit;
use bell_verify::doctor::{self, Checkup, Commits, Finding, Level};
use serde::Serialize;

use crate::answer::Refusal;
use crate::open::Scene;
use crate::say::{Format, Say, can_show_progress};

/// After this long, whoever watches is told that it still goes on.
const SLOW: Duration = Duration::from_secs(1);

#[derive(Serialize)]
struct Answer<'a> {
    sound: bool,
    worst: Level,
    bell: &'static str,
    #[serde(flatten)]
    checkup: &'a Checkup,
}

/// Looks at the store. Answers the exit code.
pub(crate) async fn doctor(scene: &Scene) -> Result<u8, Refusal> {
    let looking = async {
        let opened = scene.open_any().await?;
        Ok::<_, Refusal>((doctor::look(opened.coord.store()).await, opened.name))
    };
    let (checkup, name) = tokio::select! {
        looked = looking => looked?,
        never = talk_when_slow(&scene.say) => match never {},
    };
    let sound = checkup.worst() < Level::Unsafe && checkup.seen.commits == Commits::Taken;
    let answer = Answer { sound, worst: checkup.worst(), bell: env!("CARGO_PKG_VERSION"), checkup: &checkup };
    let _ = scene.say.answer(&answer, || lines(&name, &checkup));
    Ok(match (checkup.worst(), &checkup.seen.commits) {
        (Level::Unsafe, _) => exit::CONFLICT,
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
    let counts = [Level::Unsafe, Level::Warning, Level::Note, Level::Ok].map(count).join(", ");
    match (checkup.worst(), &checkup.seen.commits) {
        (Level::Unsafe, _) => format!("unsafe: {counts}"),
        (_, Commits::Taken) => format!("sound: {counts}"),
        (_, Commits::Rewound { .. } | Commits::Refused { .. }) => format!("takes no commits: {counts}"),
    }
}

//! S10: what changes is noticed, and what breaks stays as it was.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[expect(dead_code, reason = "each test uses a part of it")]
mod support;

use std::fs;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use bell_project::load::Loaded;
use bell_project::newcomers::Newcomers;
use bell_project::watch::{Change, Notice, Watch};
use support::{Project, name, said};

/// Long enough for a machine under any load: only a test that fails waits this long.
const PATIENCE: Duration = Duration::from_secs(60);

struct Watched {
    project: Project,
    changes: Receiver<Change>,
    watch: Watch,
}

impl Watched {
    fn start(project: Project, notice: Notice) -> Self {
        let (tell, changes) = channel();
        let first = Arc::new(project.load());
        let watch =
            Watch::start(project.open(), first, notice, |_| false, move |change| drop(tell.send(change)))
                .unwrap();
        Self { project, changes, watch }
    }

    /// Waits until a change makes it so.
    fn until(&self, what: &str, is_so: impl Fn(&Loaded) -> bool) -> Arc<Loaded> {
        loop {
            let change =
                self.changes.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("gave up waiting: {what}"));
            assert!(!change.diff.is_empty());
            if is_so(&change.loaded) {
                return change.loaded;
            }
        }
    }
}

fn scale(loaded: &Loaded, agent: &str) -> Option<u32> {
    loaded.agents.get(&name(agent)).map(|agent| agent.settings.scale)
}

fn every_kind_of_change(notice: Notice) {
    let watched = Watched::start(Project::with_agent("scale: 1"), notice);
    let project = &watched.project;

    project.agent("a", "scale: 2");
    watched.until("a write in place", |loaded| scale(loaded, "a") == Some(2));

    project.agent("new", "");
    watched.until("a new folder", |loaded| scale(loaded, "new") == Some(1));
    project.agent("new", "scale: 4");
    watched.until("a change in the new folder", |loaded| scale(loaded, "new") == Some(4));

    project.write(
        "draft",
        fs::read_to_string(project.path("agents/a/SKILL.md")).unwrap().replace("scale: 2", "scale: 3"),
    );
    fs::rename(project.path("draft"), project.path("agents/a/SKILL.md")).unwrap();
    watched.until("a rename over it", |loaded| scale(loaded, "a") == Some(3));

    project.write("agents/a/config.toml", "scale = 7\n");
    watched.until("a config beside it", |loaded| scale(loaded, "a") == Some(7));

    project.write("agents/a/config.toml", "scale = \n");
    let broken = watched.until("a broken file", Loaded::has_errors);
    assert_eq!(scale(&broken, "a"), Some(7), "it stays as it was");
    assert!(broken.kept.contains(&name("a")));

    fs::remove_file(project.path("agents/a/config.toml")).unwrap();
    watched.until("a removed file", |loaded| scale(loaded, "a") == Some(3) && loaded.kept.is_empty());

    fs::remove_dir_all(project.path("agents/new")).unwrap();
    watched.until("a removed folder", |loaded| scale(loaded, "new").is_none());
    project.agent("new", "scale: 6");
    watched.until("the same folder again", |loaded| scale(loaded, "new") == Some(6));

    project.write("config.toml", "max_reruns = 2\n");
    let changed = watched.until("the project's own settings", |loaded| loaded.settings.max_reruns == 2);
    assert_eq!(changed.agents[&name("a")].settings.max_reruns, 2, "and what agents have from them");
}

#[test]
fn every_kind_of_change_is_told_by_the_kernel() {
    every_kind_of_change(Notice::Automatic);
}

#[test]
fn every_kind_of_change_is_found_by_looking() {
    every_kind_of_change(Notice::Polling(Duration::from_millis(50)));
}

#[test]
fn what_changed_between_loading_and_watching_is_noticed_too() {
    let project = Project::with_agent("scale: 1");
    let first = Arc::new(project.load());
    project.agent("a", "scale: 2");
    let (tell, changes) = channel();
    let _watch = Watch::start(
        project.open(),
        first,
        Notice::Automatic,
        |_| false,
        move |change| drop(tell.send(change)),
    )
    .unwrap();
    let change = changes.recv_timeout(PATIENCE).unwrap();
    assert_eq!(scale(&change.loaded, "a"), Some(2));
    assert_eq!(change.diff.changed, [name("a")]);
}

#[test]
fn who_wants_it_read_now_has_it_read_now() {
    let never = Notice::Polling(Duration::from_secs(3_600));
    let watched = Watched::start(Project::with_agent("scale: 1"), never);
    for expected in [2, 3] {
        watched.project.agent("a", &format!("scale: {expected}"));
        assert!(watched.watch.nudge().and_wait(PATIENCE));
        let change = watched.changes.try_recv().expect("it was read before that returned");
        assert_eq!(scale(&change.loaded, "a"), Some(expected));
    }
    assert!(watched.watch.nudge().and_wait(PATIENCE), "also if nothing has changed");
}

#[test]
fn a_watch_that_is_dropped_tells_nothing_more() {
    let Watched { project, changes, watch } = Watched::start(Project::with_agent(""), Notice::Automatic);
    drop(watch);
    project.agent("a", "scale: 9");
    assert!(changes.recv().is_err(), "the thread has ended, and with it the sender");
}

#[test]
fn a_broken_config_keeps_the_settings_that_agents_rely_on() {
    let project = Project::with_agent("");
    project.write("config.toml", "max_reruns = 2\n");
    let good = project.load();
    project.write("config.toml", "max_reruns = many\n");
    let broken = good.reload(&project.open(), Newcomers::Taken);
    assert!(broken.settings_kept && broken.has_errors());
    assert_eq!(broken.settings.max_reruns, 2);
    assert_eq!(broken.agents[&name("a")].settings.max_reruns, 2);
    assert!(broken.since(&good).problems);
    assert!(broken.since(&good).changed.is_empty());
    project.write("config.toml", "");
    let mended = broken.reload(&project.open(), Newcomers::Taken);
    assert_eq!((said(&mended), mended.settings.max_reruns), (Vec::new(), 10));
}

#[test]
fn what_did_not_change_is_the_same_agent() {
    let project = Project::with_agent("");
    let first = project.load();
    project.agent("b", "");
    let second = first.reload(&project.open(), Newcomers::Taken);
    assert!(Arc::ptr_eq(&first.agents[&name("a")], &second.agents[&name("a")]));
    assert_eq!(second.since(&first).added, [name("b")]);
    assert_eq!(first.since(&second).removed, [name("b")]);
}

/// What of a project does not count yet.
fn held_back(loaded: &Loaded) -> Vec<&str> {
    loaded.definitions.held_back.iter().map(String::as_str).collect()
}

/// With agents in `agents/`, and one more at the top.
fn with_one_at_the_top() -> (Project, Loaded) {
    let project = Project::with_agent("scale: 1");
    project.agent_in("b", "b", "scale: 1");
    let first = project.load();
    (project, first)
}

#[test]
fn what_a_run_may_have_made_counts_once_an_operator_asks_for_it() {
    let (project, first) = with_one_at_the_top();
    project.agent_in("c", "c", "scale: 1");
    project.write("config.toml", "scale = 7\n");
    project.write("presets/own.toml", "");
    let second = first.reload(&project.open(), Newcomers::HeldBack);
    assert_eq!(held_back(&second), ["c", "config.toml", "presets"]);
    assert!(!second.agents.contains_key(&name("c")));
    assert_eq!(second.settings.scale, first.settings.scale);
    let told = second.problems.iter().filter(|problem| problem.message.contains("does not count yet"));
    assert_eq!(told.count(), 3);

    // What was held back stays so when no run is left.
    let third = second.reload(&project.open(), Newcomers::Taken);
    assert_eq!(held_back(&third), ["c", "config.toml", "presets"]);
    let last = third.reload(&project.open(), Newcomers::Accepted);
    assert_eq!(held_back(&last), [""; 0]);
    assert!(last.agents.contains_key(&name("c")));
    assert_eq!(last.settings.scale, Some(7));
}

#[test]
fn what_runs_can_not_have_made_counts_at_once() {
    let (project, first) = with_one_at_the_top();
    project.agent("new", "scale: 1");
    project.agent_in("b", "b", "scale: 2");
    let second = first.reload(&project.open(), Newcomers::HeldBack);
    assert_eq!(held_back(&second), [""; 0], "agents/ and b/ were read-only to them");
    assert!(second.agents.contains_key(&name("new")));
    assert_eq!(scale(&second, "b"), Some(2));
}

#[test]
fn a_folder_of_agents_that_a_run_may_have_made_is_held_back_as_a_whole() {
    let project = Project::new();
    project.agent_in("b", "b", "scale: 1");
    let first = project.load();
    project.agent("a", "scale: 1");
    let second = first.reload(&project.open(), Newcomers::HeldBack);
    assert_eq!(held_back(&second), ["agents"]);
    assert_eq!(second.agents.len(), 1);
}

#[test]
fn what_was_made_while_no_daemon_was_there_is_held_back_but_for_the_settings() {
    let (project, first) = with_one_at_the_top();
    project.agent_in("c", "c", "scale: 1");
    project.write("config.toml", "scale = 7\n");
    let known = first.definitions.clone();
    let idle = Loaded::load_after(&project.open(), known.clone(), Newcomers::Taken);
    assert_eq!(held_back(&idle), [""; 0], "no run was left");
    let loaded = Loaded::load_after(&project.open(), known, Newcomers::HeldBack);
    assert_eq!(held_back(&loaded), ["c"]);
    assert_eq!(loaded.settings.scale, Some(7));
}

#[test]
fn only_what_is_new_while_runs_are_under_way_is_held_back() {
    for (under_way, held) in [(false, &[][..]), (true, &["b"])] {
        let project = Project::with_agent("scale: 1");
        let (tell, changes) = channel();
        let first = Arc::new(project.load());
        let on_change = move |change| drop(tell.send(change));
        let watch =
            Watch::start(project.open(), first, Notice::Automatic, move |_| under_way, on_change).unwrap();
        project.agent_in("b", "b", "scale: 1");
        let has_b = |change: &Change| change.loaded.agents.contains_key(&name("b"));
        let is_told = |change: &Change| has_b(change) || !held_back(&change.loaded).is_empty();
        let change = changes.iter().find(is_told).unwrap();
        assert_eq!(held_back(&change.loaded), held);
        assert_eq!(has_b(&change), !under_way);
        assert!(watch.nudge().and_wait(PATIENCE), "an operator asks");
        assert!(has_b(&changes.try_iter().last().unwrap_or(change)));
    }
}

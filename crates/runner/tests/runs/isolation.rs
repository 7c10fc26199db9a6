//! What a run can see of others, by each means of isolation, as root and as a plain user.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::{Command, Stdio};

use bell_runner::isolation::{Isolation, Means, View, Views, probe};
use bell_runner::launch::Launch;
use bell_runner::logs::Stream;
use bell_runner::user::User;

use crate::support::{Run, kill, program, until, within};

/// What must fail, each with its name. `$P` is the project; `$OTHER` a process of another run.
const FORBIDDEN: &[(&str, &str)] = &[
    ("read the key", "cat $P/.bell/api-key"),
    ("write the key", "echo x > $P/.bell/api-key"),
    ("make something beside it", "echo x > $P/.bell/new"),
    ("read its own launch", "cat $P/.bell/runs/run-1/launch.json"),
    ("write its own end", "echo x > $P/.bell/runs/run-1/exit.json"),
    ("read another run", "cat $P/.bell/runs/other/agent/secret"),
    ("read the store", "grep store $P/fleet.db"),
    ("change the settings", "echo x >> $P/config.toml"),
    ("replace the settings", "mv $P/own $P/config.toml"),
    ("change an agent", "echo x >> $P/agents/other/SKILL.md"),
    ("make an agent", "mkdir $P/agents/new"),
    ("move the agents away", "mv $P/agents $P/elsewhere"),
    ("move the state away", "mv $P/.bell $P/elsewhere"),
    ("read an environment", "tr '\\0' '\\n' < /proc/$OTHER/environ | grep SECRET"),
    ("pass through a process", "cat /proc/$OTHER/root$P/.bell/api-key"),
    ("pass through its supervisor", "cat /proc/$PPID/root$P/.bell/api-key"),
    ("pass through the working folder of a process", "cat /proc/$OTHER/cwd/.bell/api-key"),
    ("end another run", "kill -0 $OTHER"),
    ("end its supervisor", "kill -0 $PPID"),
    ("look below by a mount of its own", "unshare -Urm sh -c \"umount $P/.bell; cat $P/.bell/api-key\""),
    ("see more by another mount", "unshare -Urm sh -c \"mount --bind $P /mnt && cat /mnt/.bell/api-key\""),
    (
        "make it writable",
        "unshare -Urm sh -c \"mount -o remount,bind,rw $P/agents; echo x >> $P/agents/other/SKILL.md\"",
    ),
    (
        "leave its control group",
        "for g in $(grep ' - cgroup2 ' /proc/self/mountinfo | cut -d' ' -f5); do echo $$ > $g/cgroup.procs && exit 0; done; exit 1",
    ),
];

/// What must work.
const NEEDED: &[(&str, &str)] = &[
    ("work in the project", "echo x >> $P/src/file && cat $P/src/file"),
    ("write into its own folder", "echo x > $P/.bell/runs/run-1/agent/x && cat $P/.bell/runs/run-1/agent/x"),
    ("read its agent", "cat $P/agents/other/SKILL.md"),
    ("read the settings", "cat $P/config.toml"),
    ("run the commands", "$P/.bell/bin/hello | grep hello"),
    ("see what is there", "ls $P && ls /"),
    ("use temporary files", "f=$(mktemp $P/src/XXXXXX) && rm $f"),
    ("read about itself", "cat /proc/self/environ /proc/self/status"),
    ("start and end a process", "sleep 60 & kill $!"),
    ("use a pipe and devices", "echo x | cat > /dev/null && head -c 4 /dev/urandom > /dev/null"),
];

/// What only mounts allow.
const NEEDED_OF_MOUNTS: &[(&str, &str)] = &[("make a file in the project", "echo x > $P/new && rm $P/new")];

/// A run of this script in a project, and a process of another run with a secret in its environment.
struct Project {
    run: Run,
    other: std::process::Child,
}

impl Project {
    fn of(means: Means, attempts: &[(&str, &str)], user: Option<&User>) -> Self {
        let lines = attempts.iter().map(|(name, script)| {
            format!(
                "if ( {script} ) > /dev/null 2>&1; then echo 'can {name}'; else echo 'can not {name}'; fi\n"
            )
        });
        let run = Run::of(&lines.collect::<String>());
        fs::set_permissions(run.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let write = |name: &str, text: &str| {
            fs::create_dir_all(run.path(name).parent().unwrap()).unwrap();
            fs::write(run.path(name), text).unwrap();
        };
        write(".bell/api-key", "canary\n");
        write(".bell/bin/hello", "#!/bin/sh\necho hello\n");
        fs::set_permissions(run.path(".bell/bin/hello"), fs::Permissions::from_mode(0o755)).unwrap();
        write(".bell/runs/other/agent/secret", "canary\n");
        write("fleet.db", "store\n");
        write("config.toml", "scale = 1\n");
        write("agents/other/SKILL.md", "---\n---\n");
        write("src/file", "x\n");
        write("own", "x\n");
        // As little privileged as every run.
        let mut other = as_user(user);
        other.args(["--bounding-set=-all", "--inh-caps=-all", "--", "/bin/sleep", "600"]);
        let other = other.env("SECRET", "canary").current_dir(run.folder.path()).spawn().unwrap();
        let run_dir = run.path(".bell/runs/run-1");
        let project = run.folder.path().display().to_string();
        let run = run.with(|launch| {
            launch.cwd = "/".into();
            launch.run_dir = run_dir;
            let env = std::mem::take(&mut launch.env);
            launch.env = env.with("P", &project).with("OTHER", other.id().to_string());
        });
        let views = views(run.folder.path(), &run.launch);
        Self { run: run.with(|launch| launch.isolation = Some(Isolation { means, views })), other }
    }

    /// Each attempt with what came of it.
    fn told(&self) -> Vec<String> {
        self.run.out().lines().map(str::to_owned).collect()
    }

    /// Runs it by a daemon of this user, which can't do what root can.
    async fn end_as(&self, user: &User) {
        let folder = self.run.folder.path();
        let own = program().file_name().unwrap();
        fs::copy(program(), folder.join(own)).unwrap();
        fs::write(folder.join("launch.json"), serde_json::to_vec(&self.run.launch).unwrap()).unwrap();
        give_all(folder, user);
        let mut daemon = as_user(Some(user));
        daemon.arg("--").arg(folder.join(own)).arg("spawn");
        let mut daemon = daemon.arg(folder.join("launch.json")).stdout(Stdio::null()).spawn().unwrap();
        until(|| self.run.launch.run_dir.join("exit.json").exists().then_some(())).await;
        daemon.kill().unwrap();
        daemon.wait().unwrap();
    }
}

impl Drop for Project {
    fn drop(&mut self) {
        let _ = self.other.kill();
        let _ = self.other.wait();
    }
}

/// A command that becomes this user before it starts what its arguments say.
fn as_user(user: Option<&User>) -> Command {
    #[expect(clippy::disallowed_methods, reason = "a test starts processes of other users")]
    let mut command = Command::new("setpriv");
    if let Some(user) = user {
        let ids = [format!("--reuid={}", user.uid), format!("--regid={}", user.gid)];
        command.args(ids).arg("--clear-groups");
    }
    command
}

fn give_all(path: &Path, user: &User) {
    chown(path, Some(user.uid), Some(user.gid)).unwrap();
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        give_all(&entry.path(), user);
    }
}

fn views(project: &Path, launch: &Launch) -> Views {
    let at = |name: &str| project.join(name);
    let views = [
        (at(".bell"), View::Hidden),
        (at(".bell/bin"), View::ReadOnly),
        (launch.agent_dir(), View::Open),
        (at("fleet.db"), View::Hidden),
        (at("config.toml"), View::ReadOnly),
        (at("agents"), View::ReadOnly),
    ];
    views.into_iter().collect()
}

fn expected(word: &str, attempts: &[(&str, &str)]) -> Vec<String> {
    attempts.iter().map(|(name, _)| format!("{word} {name}")).collect()
}

/// Runs each list by this means.
async fn try_all(means: Means, user: Option<&User>) {
    let more: &[_] = if means == Means::Landlock { &[] } else { NEEDED_OF_MOUNTS };
    for (attempts, word) in [(FORBIDDEN, "can not"), (NEEDED, "can"), (more, "can")] {
        let project = Project::of(means, attempts, user);
        match user {
            Some(user) => project.end_as(user).await,
            None => drop(project.run.end().await),
        }
        let complaints = project.run.text(Stream::Err);
        let end = fs::read_to_string(project.run.launch.run_dir.join("exit.json")).unwrap();
        assert_eq!(project.told(), expected(word, attempts), "{means}: {complaints} {end}");
        assert!(end.contains(&format!("\"isolation\": \"{}\"", means.word())), "{end}");
        assert_eq!(fs::read_to_string(project.run.path(".bell/api-key")).unwrap(), "canary\n");
        assert_eq!(fs::read_to_string(project.run.path("config.toml")).unwrap(), "scale = 1\n");
    }
}

/// Whether anything of this machine was left behind.
fn mounts() -> String {
    fs::read_to_string("/proc/self/mountinfo").unwrap()
}

#[tokio::test]
async fn a_run_of_root_sees_its_own_and_nothing_of_others() {
    let before = mounts();
    try_all(Means::Mounts, None).await;
    assert_eq!(mounts(), before);
}

#[tokio::test]
async fn a_run_of_root_in_a_user_namespace_sees_its_own_and_nothing_of_others() {
    try_all(Means::UserMounts, None).await;
}

#[tokio::test]
async fn a_run_of_root_with_landlock_alone_sees_its_own_and_nothing_of_others() {
    try_all(Means::Landlock, None).await;
}

#[tokio::test]
async fn a_run_of_a_plain_user_sees_its_own_and_nothing_of_others() {
    try_all(Means::UserMounts, Some(&User::find("nobody").unwrap())).await;
}

#[tokio::test]
async fn a_run_of_a_plain_user_with_landlock_alone_sees_its_own_and_nothing_of_others() {
    try_all(Means::Landlock, Some(&User::find("nobody").unwrap())).await;
}

#[tokio::test]
async fn control_without_isolation_a_run_can_do_what_is_forbidden() {
    let attempts = [FORBIDDEN[0], FORBIDDEN[5], FORBIDDEN[9], FORBIDDEN[13], FORBIDDEN[17]];
    let project = Project::of(Means::Mounts, &attempts, None);
    let run = &project.run;
    let launch = Launch { isolation: None, ..run.launch.clone() };
    let handle = within(bell_runner::spawn::spawn(program(), &launch)).await.unwrap();
    within(handle.wait()).await.unwrap();
    assert_eq!(project.told(), expected("can", &attempts));
}

#[tokio::test]
async fn a_program_that_is_not_bellwether_can_not_be_asked_what_this_machine_has() {
    // The probe starts this very program again: it finds nothing, and harms nothing.
    assert!(probe().unwrap_err().kind().is_transient());
}

#[tokio::test]
async fn a_process_that_hides_from_its_supervisor_stays_in_its_control_group_and_is_ended() {
    let script = "for g in $(grep ' - cgroup2 ' /proc/self/mountinfo | cut -d' ' -f5); do echo $$ > $g/cgroup.procs; done; \
                  env -i setsid sh -c 'trap \"\" TERM; echo $$; while :; do sleep 1; done' & wait";
    let run = Run::of(script);
    let views = views(run.folder.path(), &run.launch);
    let run = run.with(|launch| launch.isolation = Some(Isolation { means: Means::Mounts, views }));
    let handle = run.start().await;
    let hidden: i32 = until(|| run.out().trim().parse().ok()).await;
    kill(handle.pid(), rustix::process::Signal::KILL);
    within(handle.wait()).await.unwrap();
    assert!(!crate::support::is_alive(hidden));
}

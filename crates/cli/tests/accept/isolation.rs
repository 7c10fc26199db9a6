//! What a run can read and change that it should not (S13): an agent tries, on a real fleet, as root, as a plain user with
//! user namespaces, as one with landlock alone, and in a container.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::fleet::WAIT;
use crate::podman::{IMAGE, Podman};
use crate::support::{Place, Ran, Running, eventually, finish, start};

const CANARY: &str = "hunter2-canary-4712";

/// Nobody, as every Debian has it.
const NOBODY: u32 = 65_534;

/// What must fail whatever isolates the run. `$P` is the project, `$HIS` the run of the other agent.
const FORBIDDEN: &[(&str, &str)] = &[
    ("read the API key", "cat $P/.bell/api-key"),
    ("read the database", "head -c 6 $P/bell.db | grep SQLite"),
    ("read the secrets of the project", "cat $P/.bell/secrets/CANARY"),
    ("read the files of another run", "cat $P/.bell/runs/$HIS/agent/prompt.md"),
    ("read the output of another run", "cat $P/.bell/runs/$HIS/output.log"),
    ("read the environment of another process", "grep -qs hunter2-canary /proc/[0-9]*/environ"),
    ("change the settings of the project", "echo 'scale = 9' >> $P/config.toml"),
    ("change what another agent is told", "echo 'Do evil.' >> $P/agents/other/SKILL.md"),
    ("change what another agent runs", "echo 'true' >> $P/agents/other/run"),
    ("change the settings of another agent", "echo 'user = \"root\"' >> $P/agents/other/config.toml"),
    ("change its own settings", "echo 'isolation = \"none\"' >> $P/agents/probe/config.toml"),
    ("add an agent", "mkdir $P/agents/evil"),
    ("add a preset", "echo x > $P/presets/evil.toml"),
    ("end another run", "kill -0 $(cat $P/work/pid)"),
    ("end its supervisor", "kill -0 $PPID"),
    ("read what the system keeps from its users", "grep -q . /etc/shadow"),
    ("read the home of another user", "cat $HOMES/note"),
];

/// What must fail where there are mounts: landlock says nothing of sockets.
const FORBIDDEN_BY_MOUNTS: &[(&str, &str)] = &[
    ("reach the daemon by its socket", "test -S $P/.bell/bell.sock"),
    ("reach the services of a user", "test -S $SERVICES"),
    ("start something by the service manager", "systemd-run --user true"),
    ("reach a container engine", "test -S $ENGINE"),
    ("write a crontab", "echo '* * * * * true' > /var/spool/cron/crontabs/bell-test"),
];

/// What must work.
const NEEDED: &[(&str, &str)] = &[
    ("work in the project", "echo x > $P/work/file && cat $P/work/file"),
    ("read the project", "cat $P/config.toml $P/agents/other/SKILL.md"),
    ("take a lock", "bell lock run probe://x -- true"),
    ("call another agent", "bell call helper --wait | grep helped"),
    ("read its prompt", "cat $BELL_PROMPT_FILE"),
    ("write into its folder", "echo x > ${BELL_PROMPT_FILE%/*}/own"),
    ("use programs of the system", "git --version && date && ls /usr"),
    ("read and write its home", "echo x > $HOME/.probe && cat $HOME/.probe && rm $HOME/.probe"),
    ("use temporary files", "f=$(mktemp) && rm $f"),
    ("resolve a name", "getent hosts localhost"),
];

/// Who runs the daemon.
#[derive(Clone, Copy, PartialEq, Eq)]
enum As {
    Root,
    Nobody,
    NobodyWithoutNamespaces,
}

/// A fleet of `other`, at work with a secret in its environment, and `probe`.
struct Fleet {
    place: Place,
    user: As,
    bell: PathBuf,
    /// The home of the daemon's user, which is not in the project.
    home: tempfile::TempDir,
    /// Sockets that stand for those of other programs, and a home of another user.
    _doors: [Door; 3],
    /// The engine of the containers that `probe` runs in, if it does.
    podman: Option<Podman>,
}

/// A socket and a note in a folder of its own. All go when it is dropped.
struct Door(PathBuf, #[expect(dead_code, reason = "it is held")] UnixListener);

impl Door {
    fn at(folder: &str) -> Self {
        let folder = PathBuf::from(format!(
            "{folder}/bell-test-{}-{:?}",
            std::process::id(),
            std::thread::current().id()
        ));
        let folder = PathBuf::from(folder.display().to_string().replace(['(', ')'], ""));
        fs::create_dir_all(&folder).unwrap();
        let listener = UnixListener::bind(folder.join("socket")).unwrap();
        fs::set_permissions(folder.join("socket"), fs::Permissions::from_mode(0o666)).unwrap();
        fs::write(folder.join("note"), "mine\n").unwrap();
        Self(folder, listener)
    }

    fn socket(&self) -> String {
        self.0.join("socket").display().to_string()
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
        // The folder of all of them, if it was made for this. Every machine has one for homes.
        let _ = self.0.parent().filter(|folder| *folder != Path::new("/home")).map(fs::remove_dir);
    }
}

impl Fleet {
    fn of(user: As, attempts: &[(&str, &str)], settings: &str) -> Self {
        let (place, home) = (Place::sqlite(), tempfile::tempdir().unwrap());
        let doors = [Door::at("/run/user"), Door::at("/run/crio"), Door::at("/home")];
        let lines = attempts.iter().map(|(name, script)| {
            format!(
                "if ( {script} ) > /dev/null 2>&1; then echo 'can {name}'; else echo 'can not {name}'; fi\n"
            )
        });
        let project = place.folder.path().display().to_string();
        let [services, engine, _] = doors.each_ref().map(Door::socket);
        let homes = doors[2].0.display();
        let script = format!(
            "P={project} SERVICES={services} ENGINE={engine} HOMES={homes} HIS=$(cd $P/work; cat other) ELSEWHERE={}\n{}",
            home.path().display(),
            lines.collect::<String>()
        );
        place.write("work/keep", "");
        place.write("config.toml", settings);
        place.write("presets/keep", "");
        fs::write(home.path().join(".bashrc"), "mine\n").unwrap();
        place.write(".bell/secrets/CANARY", CANARY);
        place.agent(
            "other",
            &format!("echo $BELL_RUN > work/other; echo $$ > work/pid; cd work; {WAIT}"),
            "secrets = [\"CANARY\"]\n",
        );
        place.agent("helper", "bell return helped", "");
        place.agent("probe", &script, "");
        let bell = open_to_others(&place);
        if user != As::Root {
            for agent in ["other", "helper", "probe"] {
                let path = place.path(&format!("agents/{agent}/SKILL.md"));
                let skill = fs::read_to_string(&path).unwrap();
                fs::write(path, skill.replace(crate::fleet::user(), "")).unwrap();
            }
            give_all(place.folder.path());
            give_all(home.path());
        }
        Self { place, user, bell, home, _doors: doors, podman: None }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let before: &[&str] = match self.user {
            As::Root => &["setpriv"],
            As::Nobody => &["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"],
            As::NobodyWithoutNamespaces => &[
                "setpriv",
                "--reuid=65534",
                "--regid=65534",
                "--clear-groups",
                "unshare",
                "--user",
                "--map-current-user",
                "--keep-caps",
                "sh",
                "-c",
                "echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv --inh-caps=-all --ambient-caps=-all \"$@\"",
                "sh",
            ],
        };
        let usual = self.place.command(arguments);
        #[expect(clippy::disallowed_methods, reason = "a test runs the real binary as another user")]
        let mut command = Command::new(before[0]);
        command.args(&before[1..]).arg(&self.bell).args(arguments).current_dir(self.place.folder.path());
        usual.get_envs().for_each(|(name, value)| match value {
            Some(value) => drop(command.env(name, value)),
            None => drop(command.env_remove(name)),
        });
        command.env("HOME", self.home.path());
        if let Some(podman) = &self.podman {
            command.envs(podman.variables());
        }
        command
    }

    /// Has `probe` run in a container.
    fn in_container(mut self, settings: &str) -> Self {
        let container = format!("{settings}[container]\nruntime = \"podman\"\nimage = \"{IMAGE}\"\n");
        self.place.write("agents/probe/config.toml", &container);
        self.podman = Some(Podman::start());
        self
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        finish(self.command(arguments))
    }

    /// Has a store made: commands that look make none.
    fn make_store(&self) {
        self.run(&["lock", "acquire", "test://store"]).expect(0);
    }

    /// Starts the daemon and the other agent.
    fn up(&self) -> Running {
        let mut daemon = start(self.command(&["up"]));
        assert_eq!(daemon.line(), "ready");
        self.run(&["run", "other"]).expect(0);
        eventually("the other agent is at work", || self.place.path("work/up").exists());
        daemon
    }

    /// What came of each attempt, and how the run was isolated.
    fn told(&self) -> (Vec<String>, String) {
        let daemon = self.up();
        let done = self.run(&["--json", "run", "probe", "--wait"]).json();
        let runs = self.run(&["--json", "runs"]).json();
        let of_probe = |run: &&Value| run["agent"] == "probe";
        let run = runs["runs"].as_array().unwrap().iter().find(of_probe).unwrap_or_else(|| panic!("{done}"));
        let run = run["run"].as_str().unwrap().to_owned();
        let log = self.run(&["logs", &run]).out;
        let why = self.run(&["--json", "why", &run]).json();
        let facts = why["facts"].as_array().unwrap();
        let isolation = facts.iter().find(|fact| fact["what"] == "isolation").map(|fact| &fact["value"]);
        fs::write(self.place.path("work/go"), "").unwrap();
        daemon.stop();
        assert_eq!(fs::read_to_string(self.home.path().join(".bashrc")).unwrap(), "mine\n");
        (
            log.lines().map(str::to_owned).collect(),
            isolation.and_then(Value::as_str).unwrap_or_default().to_owned(),
        )
    }
}

/// Lets other users into a project that has the secret `CANARY`, and answers a copy of the binary that they can reach.
pub(crate) fn open_to_others(place: &Place) -> PathBuf {
    let bell = place.path("bell-of-the-test");
    fs::copy(env!("CARGO_BIN_EXE_bell"), &bell).unwrap();
    let set = |path: PathBuf, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    set(place.path(""), 0o755);
    set(place.path(".bell"), 0o700);
    set(place.path(".bell/secrets"), 0o700);
    set(place.path(".bell/secrets/CANARY"), 0o600);
    bell
}

fn give_all(path: &Path) {
    give_all_to(path, NOBODY);
}

pub(crate) fn give_all_to(path: &Path, user: u32) {
    chown(path, Some(user), Some(user)).unwrap();
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        give_all_to(&entry.path(), user);
    }
}

/// Every attempt of these with this outcome.
fn all(word: &str, attempts: &[(&str, &str)]) -> Vec<String> {
    attempts.iter().map(|(name, _)| format!("{word} {name}")).collect()
}

fn check(user: As, settings: &str, forbidden: &[&[(&str, &str)]], means: &str) {
    let forbidden = forbidden.concat();
    let attempts = [&forbidden[..], NEEDED].concat();
    let (told, isolation) = Fleet::of(user, &attempts, settings).told();
    assert_eq!(told, [all("can not", &forbidden), all("can", NEEDED)].concat());
    assert_eq!(isolation, means);
}

#[test]
fn a_run_of_root_reads_and_changes_nothing_that_is_not_its_own() {
    check(As::Root, "", &[FORBIDDEN, FORBIDDEN_BY_MOUNTS], "a mount namespace");
}

#[test]
fn a_run_of_a_plain_user_reads_and_changes_nothing_that_is_not_its_own() {
    check(As::Nobody, "", &[FORBIDDEN, FORBIDDEN_BY_MOUNTS], "a mount namespace in a user namespace");
}

#[test]
fn a_run_with_landlock_alone_reads_and_changes_no_file_that_is_not_its_own() {
    check(As::NobodyWithoutNamespaces, "", &[FORBIDDEN], "landlock rules alone");
}

/// What strict isolation forbids beyond the default.
const FORBIDDEN_BY_STRICT: &[(&str, &str)] = &[
    ("write the start file of a shell", "echo evil >> $ELSEWHERE/.bashrc"),
    ("read what is not named", "ls $ELSEWHERE || ls /var/log || ls /srv"),
    ("write where the system keeps jobs", "echo x > /etc/cron.d/bell-test || echo x > /var/tmp/bell-test"),
];

#[test]
fn a_strict_run_reaches_only_what_is_named() {
    for (user, means) in [
        (As::Root, "a mount namespace"),
        (As::Nobody, "a mount namespace in a user namespace"),
        (As::NobodyWithoutNamespaces, "landlock rules alone"),
    ] {
        let forbidden: &[&[_]] = &[FORBIDDEN, FORBIDDEN_BY_STRICT];
        check(user, "isolation = \"strict\"\n", forbidden, means);
    }
}

/// What must fail in a container. Its first process is the engine's and no supervisor.
fn forbidden_in_container() -> Vec<(&'static str, &'static str)> {
    let others = FORBIDDEN.iter().filter(|(name, _)| *name != "end its supervisor");
    let own = [
        ("make a file in the state folder", "echo x > $P/.bell/new"),
        (
            "see that there is more in the state folder",
            "test -e $P/.bell/api-key || test -e $P/.bell/secrets",
        ),
        ("see files of the machine", "ls $ELSEWHERE"),
        ("take off what hides the state folder", "umount $P/.bell"),
    ];
    others.chain(FORBIDDEN_BY_MOUNTS).copied().chain(own).collect()
}

/// What must work in a container, whose image has few programs.
fn needed_in_container() -> Vec<(&'static str, &'static str)> {
    let of_system = ["use programs of the system", "resolve a name"];
    let others = NEEDED.iter().filter(|(name, _)| !of_system.contains(name));
    others.copied().chain([("use programs of the image", "date && ls /bin")]).collect()
}

#[test]
fn a_run_in_a_container_reads_and_changes_nothing_that_is_not_its_own() {
    for settings in ["", "user = \"nobody\"\n"] {
        let (forbidden, needed) = (forbidden_in_container(), needed_in_container());
        let fleet = Fleet::of(As::Root, &[&forbidden[..], &needed].concat(), "").in_container(settings);
        fs::set_permissions(fleet.place.path("work"), fs::Permissions::from_mode(0o777)).unwrap();
        let (told, isolation) = fleet.told();
        assert_eq!(told, [all("can not", &forbidden), all("can", &needed)].concat(), "{settings}");
        assert_eq!(isolation, "its container");
    }
}

#[test]
fn control_in_a_container_without_isolation_a_run_does_what_is_forbidden() {
    let attempts =
        [FORBIDDEN[0], FORBIDDEN[1], FORBIDDEN[2], FORBIDDEN[3], FORBIDDEN[6], FORBIDDEN[11], FORBIDDEN[12]];
    let fleet = Fleet::of(As::Root, &attempts, "isolation = \"none\"\n").in_container("");
    let (told, isolation) = fleet.told();
    assert_eq!(told, all("can", &attempts));
    assert_eq!(isolation, "nothing: it is not isolated");
}

#[test]
fn control_without_isolation_a_run_does_what_is_forbidden() {
    let attempts = [0, 2, 3, 5, 6, 11, 13, 16].map(|at| FORBIDDEN[at]);
    let (told, isolation) = Fleet::of(As::Nobody, &attempts, "isolation = \"none\"\n").told();
    assert_eq!(told, all("can", &attempts));
    assert_eq!(isolation, "nothing: it is not isolated");
}

#[test]
fn a_run_that_may_edit_the_project_changes_what_defines_the_fleet_and_is_in_attention() {
    let attempts = [FORBIDDEN[0], FORBIDDEN[6], FORBIDDEN[7], FORBIDDEN[11]];
    let fleet = Fleet::of(As::Root, &attempts, "edits_project = true\n");
    let kinds = |fleet: &Fleet| {
        let stat = fleet.run(&["--json", "stat"]).json();
        let attention = stat["attention"].as_array().unwrap().clone();
        attention.into_iter().map(|entry| entry["kind"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    fleet.make_store();
    assert_eq!(kinds(&fleet), ["edits_project"; 3]);
    assert!(fleet.run(&["check"]).out.contains("its runs may change what defines the fleet"));
    let (told, _) = fleet.told();
    assert_eq!(told, [all("can not", &attempts[..1]), all("can", &attempts[1..])].concat());
}

#[test]
fn what_is_not_isolated_is_in_check_doctor_and_attention() {
    let fleet = Fleet::of(As::Nobody, &[], "isolation = \"none\"\n");
    fleet.make_store();
    let stat = fleet.run(&["--json", "stat"]).json();
    assert_eq!(stat["attention"][0]["kind"], "not_isolated");
    for command in ["check", "doctor"] {
        assert!(fleet.run(&[command]).out.contains("its runs are not isolated"), "{command}");
    }
}

#[test]
fn a_machine_that_isolates_only_in_part_says_so() {
    let fleet = Fleet::of(As::NobodyWithoutNamespaces, &[], "");
    fleet.make_store();
    let stat = fleet.run(&["--json", "stat"]).json();
    assert_eq!(stat["attention"][0]["kind"], "isolated_in_part");
    for command in ["check", "doctor"] {
        assert!(fleet.run(&[command]).out.contains("with landlock alone"), "{command}");
    }
}

/// A project of this user, with an agent that says who and where it is.
fn fleet_of(owner: u32, settings: &str) -> (Place, String) {
    let place = Place::sqlite();
    place.write("config.toml", settings);
    place.agent(
        "who",
        "id -un; echo $USER; cd; pwd; echo x >> kept; wc -l < kept; rm $(mktemp) && echo temporary",
        "",
    );
    let skill = fs::read_to_string(place.path("agents/who/SKILL.md")).unwrap();
    place.write("agents/who/SKILL.md", &skill.replace(crate::fleet::user(), ""));
    fs::set_permissions(place.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    give_all_to(place.folder.path(), owner);
    // A project of another user is one that root has said to be safe.
    place.write("home/.config/bell/config.toml", "safe_projects = [\"*\"]\n");
    let home = place.path(".bell/homes/who").display().to_string();
    (place, home)
}

#[test]
fn a_daemon_of_root_refuses_a_project_of_root_unless_its_settings_say_so() {
    let (place, _) = fleet_of(0, "");
    assert!(place.run(&["check"]).out.contains("could not find a user for its runs"));
    let refused = place.start(&["up"]).end().expect(4).err;
    for remedy in ["chown -R", "useradd --system bell", "user = \"root\""] {
        assert!(refused.contains(remedy), "{refused}");
    }
    place.write("config.toml", "user = \"root\"\n");
    assert!(place.run(&["check"]).out.contains("logged in as root, runs as root"));
    place.up().let_it(|| drop(place.run_agent("who")));
    assert!(place.log_of("who").starts_with("root\n"), "{}", place.log_of("who"));
}

#[test]
fn a_daemon_of_root_runs_agents_as_the_owner_of_the_project_with_a_home_that_is_kept() {
    let (place, home) = fleet_of(NOBODY, "");
    let shown = place.run(&["check"]).out;
    assert!(shown.contains("logged in as root, runs as nobody with a home of its own"), "{shown}");
    let own = tempfile::tempdir().unwrap();
    let mut command = place.command(&["up"]);
    command.env("TMPDIR", own.path());
    let mut daemon = start(command);
    assert_eq!(daemon.line(), "ready");
    for runs in 1..=2 {
        assert_eq!(place.run_agent("who")["fate"]["end"]["end"], "completed");
        assert_eq!(place.log_of("who"), format!("nobody\nnobody\n{home}\n{runs}\ntemporary\n"));
    }
    daemon.stop();
}

#[test]
fn a_home_can_be_named() {
    let (place, own) = fleet_of(0, "user = \"root\"\n");
    fs::create_dir(place.path("elsewhere")).unwrap();
    let at = |name: &str| place.path(name).display().to_string();
    let homes = [
        ("home = \"inherit\"\n", at("home")),
        ("home = \"own\"\n", own),
        ("home = \"./elsewhere\"\n", at("elsewhere")),
    ];
    for (settings, home) in homes {
        place.write("agents/who/config.toml", settings);
        let daemon = place.up();
        place.run_agent("who");
        assert_eq!(place.log_of("who").lines().nth(2).unwrap(), home, "{settings}");
        daemon.stop();
    }
}

#[test]
fn a_home_that_can_not_be_used_is_reported_and_starts_nothing() {
    let (place, _) = fleet_of(NOBODY, "");
    let folder = |mode: u32| {
        fs::create_dir_all(place.path("closed")).unwrap();
        fs::set_permissions(place.path("closed"), fs::Permissions::from_mode(mode)).unwrap();
    };
    folder(0o755);
    let cases = [
        ("home = \"inherits\"\n", "write \"inherit\", \"own\", or a path with a slash"),
        ("home = \"./nowhere\"\n", "No such file"),
        ("home = \"./closed\"\n", "nobody can't write it"),
    ];
    for (settings, words) in cases {
        place.write("agents/who/config.toml", settings);
        let checked = place.run(&["check"]).expect(4).out;
        assert!(checked.contains(words), "{checked}");
    }
    let daemon = place.up();
    let end = place.run_agent("who")["fate"]["end"].clone();
    assert_eq!(end["end"], "unstartable");
    assert!(end["reason"].as_str().unwrap().contains("nobody can't write it"), "{end}");
    folder(0o777);
    assert_eq!(place.run_agent("who")["fate"]["end"]["end"], "completed");
    daemon.stop();
}

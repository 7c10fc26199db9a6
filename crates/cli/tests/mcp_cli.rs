//! MCP on standard input and output: the server that a preset configures, started by the agent itself and spoken to by hand,
//! in both eras of the protocol; what operators get outside of a run; and telling agent programs of it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::fs;

use rustix::process::Signal;
use serde_json::{Value, json};
use support::{Place, Running, finish, finish_with};

/// A project's own preset, for a program that is told of the server by a file.
const PRESET: &str = r#"
about = "A client by hand"
argv = ["python3", "client.py", "{mcp}"]
prompt = "stdin"

[mcp]
argv = ["{mcp_config}"]

[mcp.config.mcpServers.bell]
command = "{bell}"
args = ["mcp"]
env = { BELL_URL = "{url}", BELL_TOKEN = "{token}" }
"#;

/// Starts the server with nothing but what the configuration says. `first` greets it, takes a lock and calls
/// `second`, which greets nobody, as clients of the later era do, and finds the lock taken.
const CLIENT: &str = r#"
import json, os, subprocess, sys, time

server = json.load(open(sys.argv[1]))["mcpServers"]["bell"]
child = subprocess.Popen([server["command"], *server["args"]], env=server["env"], text=True,
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE)
name = os.environ["BELL_AGENT"]
later_era = {"io.modelcontextprotocol/protocolVersion": "2026-07-28",
             "io.modelcontextprotocol/clientInfo": {"name": "by-hand", "version": "1"},
             "io.modelcontextprotocol/clientCapabilities": {}}
said, asked = {"run": os.environ["BELL_RUN"]}, 0

def send(message):
    child.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    child.stdin.flush()

def ask(method, params):
    global asked
    asked += 1
    if name == "second":
        params = {**params, "_meta": later_era}
    send({"id": asked, "method": method, "params": params})
    while True:
        answer = json.loads(child.stdout.readline())
        if answer.get("id") == asked:
            return answer.get("result", answer)

def call(tool, **arguments):
    said[tool] = ask("tools/call", {"name": tool, "arguments": arguments})

def until_waiting(count):
    end = time.monotonic() + 40
    while time.monotonic() < end:
        call("list_locks", prefix="job:")
        if said["list_locks"]["structuredContent"]["locks"][0]["waiting"] == count:
            return True
        time.sleep(0.05)
    return False

def ask_and_cancel():
    wish = {"name": "acquire_lock", "arguments": {"keys": ["job:a"], "wait_seconds": 600}, "_meta": later_era}
    send({"id": "wish", "method": "tools/call", "params": wish})
    waits = until_waiting(1)
    send({"method": "notifications/cancelled", "params": {"requestId": "wish", "_meta": later_era}})
    said["cancelled"] = [waits, until_waiting(0)]

def read_itself():
    own = [one["uri"] for one in ask("resources/list", {})["resources"]]
    said["own"] = own
    said["record"] = ask("resources/read", {"uri": own[0]})
    # What was printed is written down by another process, a moment later.
    end = time.monotonic() + 40
    while time.monotonic() < end:
        said["log"] = ask("resources/read", {"uri": own[1]})
        if "printed by first" in said["log"]["contents"][0]["text"]:
            break
        time.sleep(0.05)
    said["others"] = [ask("resources/read", {"uri": uri}) for uri in ("bell://runs/other", "bell://agents/second")]

if name == "first":
    about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "by-hand", "version": "1"}}
    said["initialize"] = ask("initialize", about)
    send({"method": "notifications/initialized"})
    said["tools"] = ask("tools/list", {})["tools"]
    said["prompts"] = ask("prompts/list", {})["prompts"]
    said["habit"] = ask("prompts/get", {"name": "locking_habit"})
    said["no_tool"] = ask("tools/call", {"name": "fly", "arguments": {}})
    call("acquire_lock", keys=["job:a"])
    call("list_locks", prefix="job:")
    call("renew_lock", key="job:a")
    call("call_agent", agent="second", context={"number": 42})
    job = said["call_agent"]["structuredContent"]["job"]
    call("wait_call", job=job)
    call("check_call", job=job)
    call("release_lock", key="job:a")
    call("set_status", text="nearly done")
    print("printed by first", flush=True)
    read_itself()
else:
    call("acquire_lock", keys=["job:a"])
    call("release_lock", key="job:a")
    call("rerun", colour="red")
    ask_and_cancel()
call("return_value", value={"from": name})
child.stdin.close()
said["exit"] = child.wait()
open(name + ".json", "w").write(json.dumps(said) + "\n")
"#;

fn project() -> Place {
    let place = Place::sqlite();
    fs::create_dir_all(place.path("presets")).unwrap();
    fs::write(place.path("presets/by-hand.toml"), PRESET).unwrap();
    fs::write(place.path("client.py"), CLIENT).unwrap();
    fs::write(place.path("config.toml"), "").unwrap();
    for name in ["first", "second"] {
        let folder = place.path(&format!("agents/{name}"));
        fs::create_dir_all(&folder).unwrap();
        let skill = format!(
            "---\nname: {name}\ndescription: A test agent.\nuser: root\nrun: by-hand\n---\nDo the work.\n"
        );
        fs::write(folder.join("SKILL.md"), skill).unwrap();
    }
    place
}

fn stop(daemon: Running) {
    daemon.signal(Signal::TERM);
    daemon.end().expect(0);
}

fn said(place: &Place, agent: &str) -> Value {
    serde_json::from_str(&place.until_file(&format!("{agent}.json"))).unwrap()
}

#[test]
fn an_agent_of_a_preset_locks_and_returns_over_mcp_and_another_is_told_to_skip() {
    let place = project();
    let daemon = place.start(&["up"]);
    let ran = place.run(&["--json", "run", "first", "--wait"]).expect(0).json();
    assert_eq!(ran["returned"], r#"{"from":"first"}"#, "the run's record shows the value");
    assert!(place.is_free("job:a"));
    let first = said(&place, "first");
    check_offer(&first);
    check_first(&first);
    check_resources(&first, first["run"].as_str().unwrap());
    check_second(&said(&place, "second"));
    stop(daemon);
}

fn check_offer(said: &Value) {
    assert_eq!(said["initialize"]["protocolVersion"], "2025-06-18");
    assert_eq!(said["initialize"]["serverInfo"]["name"], "bell");
    let tools = said["tools"].as_array().unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    let expected = [
        "acquire_lock",
        "release_lock",
        "renew_lock",
        "list_locks",
        "call_agent",
        "check_call",
        "wait_call",
        "set_status",
        "return_value",
        "rerun",
    ];
    assert_eq!(names, expected);
    for tool in tools {
        assert!(tool["description"].is_string(), "{tool}");
        assert!(tool["outputSchema"]["properties"]["outcome"].is_object(), "{tool}");
    }
    assert_eq!(said["prompts"][0]["name"], "locking_habit");
    assert!(said["habit"]["messages"][0]["content"]["text"].as_str().unwrap().contains("acquire_lock"));
}

fn check_first(said: &Value) {
    let content = |tool: &str| &said[tool]["structuredContent"];
    assert_eq!(said["no_tool"]["error"]["code"], -32602, "no tool of that name is a mistake of the protocol");
    assert_eq!(said["acquire_lock"]["isError"], false);
    let outcomes = [
        ("acquire_lock", "granted"),
        ("list_locks", "listed"),
        ("renew_lock", "renewed"),
        ("call_agent", "written"),
        ("wait_call", "listed"),
        ("check_call", "listed"),
        ("release_lock", "released"),
        ("set_status", "written"),
        ("return_value", "written"),
    ];
    for (tool, outcome) in outcomes {
        assert_eq!(content(tool)["outcome"], outcome, "{}", said[tool]);
    }
    let fence = &content("acquire_lock")["fence"];
    assert!(fence.as_u64().unwrap() > 0);
    assert_eq!(&content("list_locks")["locks"][0]["fence"], fence);
    assert_eq!(content("wait_call")["state"], "completed", "{}", said["wait_call"]);
    assert_eq!(content("wait_call")["returned"], r#"{"from":"second"}"#);
    assert_eq!(said["exit"], 0, "it ends when nobody speaks to it any more");
}

fn check_resources(said: &Value, run: &str) {
    assert_eq!(said["own"], json!([format!("bell://runs/{run}"), format!("bell://runs/{run}/log")]));
    let text = |of: &str| said[of]["contents"][0]["text"].as_str().unwrap().to_owned();
    let record: Value = serde_json::from_str(&text("record")).unwrap();
    assert_eq!((&record["run"], &record["status"]), (&json!(run), &json!("nearly done")));
    assert!(text("log").contains("printed by first"), "{}", said["log"]);
    for other in said["others"].as_array().unwrap() {
        assert!(other["error"]["message"].as_str().unwrap().contains("there is no resource"), "{other}");
    }
}

fn check_second(said: &Value) {
    let refused = |tool: &str| {
        assert_eq!(said[tool]["isError"], true, "{}", said[tool]);
        let content = &said[tool]["structuredContent"];
        assert!(content["message"].is_string(), "{content}");
        (content["outcome"].clone(), content["hint"].as_str().unwrap().to_owned(), content["holder"].clone())
    };
    let (outcome, hint, holder) = refused("acquire_lock");
    assert_eq!((outcome, holder["agent"].clone()), (json!("busy"), json!("first")));
    assert!(hint.starts_with("Skip it and go on with other work"), "{hint}");
    assert_eq!(refused("release_lock").0, "not_holder");
    assert_eq!(refused("rerun").0, "invalid", "a misspelt argument is refused in words that a model sees");
    let places = "it waited, and gave its place up when it was cancelled";
    assert_eq!(said["cancelled"], json!([true, true]), "{places}");
    assert_eq!(said["return_value"]["isError"], false);
}

#[test]
fn outside_of_a_run_and_of_a_project_nothing_is_served() {
    let place = Place::sqlite();
    let ran = place.run(&["mcp"]).expect(6);
    assert!(
        ran.out.is_empty() && ran.err.contains("BELL_URL is not set, and there is no project"),
        "{ran:?}"
    );
    let mut tokenless = place.command(&["mcp"]);
    tokenless.env("BELL_URL", "unix:/nobody/is/here");
    let ran = finish(tokenless).expect(3);
    assert!(ran.out.is_empty() && ran.err.contains("BELL_TOKEN is not"), "{ran:?}");
}

#[test]
fn it_ends_with_its_input_and_refuses_who_does_not_speak_mcp() {
    let place = Place::sqlite();
    let hear = |input: &str| {
        let mut command = place.command(&["mcp"]);
        command.env("BELL_URL", "unix:/nobody/is/here").env("BELL_TOKEN", "t");
        finish_with(command, input)
    };
    for nothing in ["", "GET / HTTP/1.1\n\n"] {
        let ran = hear(nothing).expect(0);
        assert!(ran.out.is_empty(), "{ran:?}");
    }
    let without_greeting = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n";
    let ran = hear(without_greeting).expect(5);
    assert!(ran.err.contains("could not speak MCP"), "{ran:?}");
}

/// What `bell mcp` answers to these requests, by their number, with nobody but the project's store behind it.
fn answers(place: &Place, folder: &str, arguments: &[&str], requests: &[(&str, Value)]) -> Vec<Value> {
    let about = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "by-hand", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let message = |(id, (method, params)): (usize, &(&str, Value))| {
        let mut params = params.clone();
        params["_meta"] = about.clone();
        json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string() + "\n"
    };
    let input: String = requests.iter().enumerate().map(message).collect();
    let mut command = place.command(&[&["mcp"], arguments].concat());
    command.current_dir(place.path(folder));
    let ran = finish_with(command, &input).expect(0);
    let mut all: Vec<Value> = ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    all.sort_by_key(|answer| answer["id"].as_u64());
    assert_eq!(all.len(), requests.len(), "{ran:?}");
    all.into_iter().map(|answer| answer["result"].clone()).collect()
}

#[test]
fn in_a_project_operators_have_their_tools_also_while_no_daemon_runs() {
    let place = project();
    let requests = [
        ("tools/list", json!({})),
        ("tools/call", json!({"name": "list_agents", "arguments": {}})),
        ("tools/call", json!({"name": "pause", "arguments": {"reason": "lunch"}})),
        ("resources/read", json!({"uri": "bell://agents/first"})),
    ];
    fs::create_dir_all(place.path("agents/first/deeper")).unwrap();
    let found = answers(&place, "agents/first/deeper", &[], &requests);
    assert_eq!(found[0]["tools"].as_array().unwrap().len(), 11);
    assert_eq!(found[1]["structuredContent"]["agents"][1]["agent"], "second", "{}", found[1]);
    assert_eq!(found[2]["structuredContent"]["outcome"], "written", "{}", found[2]);
    assert_eq!(place.json(&["stat"])["paused"], "lunch");
    assert!(found[3]["contents"][0]["text"].as_str().unwrap().contains("A test agent."));
    let elsewhere = Place::sqlite();
    let named =
        answers(&elsewhere, "", &["--project", place.folder.path().to_str().unwrap()], &requests[..1]);
    assert_eq!(named[0]["tools"], found[0]["tools"]);
}

/// A place with these programs in its `PATH`, and nothing else.
fn with_programs(names: &[&str]) -> Place {
    let place = project();
    fs::create_dir_all(place.path("bin")).unwrap();
    for name in names {
        let file = place.path(&format!("bin/{name}"));
        fs::write(&file, "").unwrap();
        fs::set_permissions(file, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    place
}

fn install(place: &Place, arguments: &[&str]) -> support::Ran {
    let mut command = place.command(&[&["--json", "mcp", "install"], arguments].concat());
    command.env("PATH", place.path("bin")).env_remove("XDG_CONFIG_HOME").env_remove("COPILOT_HOME");
    finish(command)
}

#[test]
fn agent_programs_that_are_there_are_told_of_the_server_and_what_they_know_stays() {
    let place = with_programs(&["claude", "codex", "goose", "opencode"]);
    fs::create_dir_all(place.path("home/.config/goose")).unwrap();
    let kept = [
        (".mcp.json", "{\n\t\"mcpServers\": {\"git\": {\"command\": \"git-mcp\"}},\n\t\"mine\": [1]\n}"),
        (
            "home/.config/goose/config.yaml",
            "GOOSE_MODEL: m # mine\nextensions:\n  git:\n    cmd: git-mcp\n    type: stdio\n",
        ),
    ];
    for (file, text) in kept {
        fs::write(place.path(file), text).unwrap();
    }
    fs::set_permissions(place.path(".mcp.json"), std::os::unix::fs::PermissionsExt::from_mode(0o600))
        .unwrap();
    let did = |answer: &Value| -> Vec<String> {
        answer["clients"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["did"].as_str().unwrap().to_owned())
            .collect()
    };
    let dry = install(&place, &["--dry-run"]).expect(0).json();
    let added = ["added", "added", "not_found", "not_found", "added", "added", "not_found"];
    assert_eq!((did(&dry), dry["dry_run"].as_bool()), (added.map(str::to_owned).to_vec(), Some(true)));
    assert!(
        !place.path("opencode.json").exists()
            && fs::read_to_string(place.path(".mcp.json")).unwrap() == kept[0].1
    );
    assert_eq!(did(&install(&place, &[]).expect(0).json()), added);
    let again = install(&place, &[]).expect(0).json();
    assert_eq!(did(&again), added.map(|did| if did == "added" { "already" } else { did }));
    let claude = fs::read_to_string(place.path(".mcp.json")).unwrap();
    assert!(claude.starts_with("{\n\t\"mcpServers\": {\"git\": {\"command\": \"git-mcp\"}"), "{claude}");
    let claude: Value = serde_json::from_str(&claude).unwrap();
    assert_eq!((&claude["mine"], &claude["mcpServers"]["bell"]["args"]), (&json!([1]), &json!(["mcp"])));
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &fs::metadata(place.path(".mcp.json")).unwrap().permissions(),
    );
    assert_eq!(mode & 0o777, 0o600, "who may read it stays as it was");
    let goose = fs::read_to_string(place.path("home/.config/goose/config.yaml")).unwrap();
    assert!(
        goose.starts_with("GOOSE_MODEL: m # mine\nextensions:\n  bell:\n") && goose.contains("git-mcp"),
        "{goose}"
    );
    assert!(
        fs::read_to_string(place.path(".codex/config.toml")).unwrap().starts_with("[mcp_servers.bell]\n")
    );
}

#[test]
fn a_file_that_can_not_be_read_or_says_otherwise_is_left_alone() {
    let place = with_programs(&["claude", "opencode"]);
    let texts = [
        (".mcp.json", "{\"mcpServers\": {\"bell\": {\"command\": \"other\"}}}"),
        ("opencode.json", "// mine\n{}"),
    ];
    for (file, text) in texts {
        fs::write(place.path(file), text).unwrap();
    }
    let answer =
        install(&place, &["--client", "claude", "--client", "opencode", "--client", "qwen"]).expect(4).json();
    let clients = answer["clients"].as_array().unwrap();
    for (client, words) in clients.iter().zip(["another server called bell", "it is no JSON"]) {
        assert_eq!(client["did"], "left_alone");
        assert!(client["message"].as_str().unwrap().contains(words), "{client}");
    }
    assert_eq!(clients[2]["did"], "added", "one that was named need not be there");
    for (file, text) in texts {
        assert_eq!(fs::read_to_string(place.path(file)).unwrap(), text);
    }
}

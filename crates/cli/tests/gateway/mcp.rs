//! MCP over HTTP, spoken by hand in both eras of the protocol: for runs with their tokens, for operators with their keys.

use std::io::Write;
use std::net::TcpStream;

use bell_core::acquire::MAX_KEYS;
use bell_gateway::limits::HELD_MAX;
use serde_json::{Value, json};

use crate::served::{Reply, Served};
use crate::support::{Place, eventually};

/// What an agent does that hands its token to the test, and then waits to be let go.
const TELL: &str = "umask 077; echo $BELL_TOKEN > $BELL_AGENT.token; while [ -e config.toml -a ! -e over ]; do sleep 0.05; done";

/// A revision with a handshake, and one without.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Era {
    Legacy,
    Modern,
}

const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];

/// Somebody who speaks MCP.
struct Speaker<'a> {
    served: &'a Served,
    bearer: String,
    era: Era,
}

impl Speaker<'_> {
    /// The head and the body of a message.
    fn message(&self, id: u64, method: &str, mut params: Value) -> Vec<u8> {
        let mut head = format!(
            "POST /mcp HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nConnection: close\r\n",
            self.served.address, self.bearer
        );
        if self.era == Era::Modern {
            head.push_str(&format!("MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\n"));
            if let Some(name) = params["name"].as_str().or(params["uri"].as_str()) {
                head.push_str(&format!("Mcp-Name: {name}\r\n"));
            }
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientInfo": {"name": "by-hand", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {},
            });
        }
        let mut message = json!({"jsonrpc": "2.0", "method": method, "params": params});
        // What is told only has no number.
        if !method.starts_with("notifications/") {
            message["id"] = id.into();
        }
        let body = message.to_string();
        format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
    }

    fn send(&self, method: &str, params: Value) -> Reply {
        Reply::parse(&self.served.raw(&self.message(1, method, params))).unwrap()
    }

    fn ask(&self, method: &str, params: Value) -> Value {
        let answer = self.send(method, params).expect(200).json();
        assert!(answer["result"].is_object(), "{answer}");
        answer["result"].clone()
    }

    /// What a tool answers, and whether that is an error.
    fn call(&self, tool: &str, arguments: Value) -> (Value, bool) {
        let result = self.ask("tools/call", json!({"name": tool, "arguments": arguments}));
        (result["structuredContent"].clone(), result["isError"].as_bool().unwrap())
    }

    fn outcome(&self, tool: &str, arguments: Value) -> String {
        self.call(tool, arguments).0["outcome"].as_str().unwrap().to_owned()
    }

    fn tools(&self) -> Vec<String> {
        let tools = self.ask("tools/list", json!({}))["tools"].as_array().unwrap().clone();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    /// Begins a call of a tool, and leaves it open.
    fn begin(&self, id: u64, tool: &str, arguments: Value) -> TcpStream {
        let mut stream = self.served.connect();
        stream
            .write_all(&self.message(id, "tools/call", json!({"name": tool, "arguments": arguments})))
            .unwrap();
        stream
    }
}

/// The answer to a call that was begun.
fn end(mut stream: TcpStream) -> Value {
    let mut answer = Vec::new();
    std::io::Read::read_to_end(&mut stream, &mut answer).unwrap();
    Reply::parse(&answer).unwrap().expect(200).json()["result"]["structuredContent"].clone()
}

fn fleet() -> Served {
    let place = Place::sqlite();
    for name in ["first", "second", "third"] {
        place.agent(name, TELL, "");
    }
    place.agent("worker", "echo out; echo err >&2; bell return done", "");
    Served::of(place)
}

fn speaker<'a>(served: &'a Served, bearer: &str, era: Era) -> Speaker<'a> {
    Speaker { served, bearer: bearer.to_owned(), era }
}

/// A run of this agent that lives until the file `over` is there.
fn living<'a>(served: &'a Served, agent: &str) -> Speaker<'a> {
    served.place.ask(agent);
    let token = served.place.until_file(&format!("{agent}.token"));
    speaker(served, token.trim(), Era::Modern)
}

fn locked(key: &str) -> Value {
    json!({"keys": [key]})
}

#[test]
fn a_run_has_its_tools_over_http_in_both_eras_and_they_are_its_own() {
    let served = fleet();
    let first = living(&served, "first");
    let second = living(&served, "second");
    for era in ERAS {
        let first = speaker(&served, &first.bearer, era);
        assert_eq!(first.tools().len(), 10, "{era:?}");
        let (granted, is_error) = first.call("acquire_lock", locked("job:a"));
        assert_eq!((&granted["outcome"], is_error), (&json!("granted"), false), "{granted}");
        assert_eq!(granted["holder"]["agent"], "first");
        let (busy, is_error) = speaker(&served, &second.bearer, era).call("acquire_lock", locked("job:a"));
        assert_eq!((&busy["outcome"], is_error), (&json!("busy"), true), "{busy}");
        assert!(busy["hint"].as_str().unwrap().starts_with("Skip it"), "{busy}");
        assert_eq!(second.outcome("release_lock", json!({"key": "job:a"})), "not_holder");
        assert_eq!(first.outcome("release_lock", json!({"key": "job:a"})), "released");
    }
    let greeted = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "h", "version": "1"}});
    let greeted = speaker(&served, &first.bearer, Era::Legacy).send("initialize", greeted).expect(200);
    assert_eq!(greeted.json()["result"]["protocolVersion"], "2025-06-18");
    assert_eq!(greeted.header("mcp-session-id"), None, "who is silent for an hour is not turned away");
    assert_eq!(first.outcome("set_status", json!({"text": "by mcp"})), "written");
    let run = served.place.runs_of("first")[0]["run"].as_str().unwrap().to_owned();
    served.get(&format!("/v1/runs/{run}")).expect(200).json()["status"]
        .as_str()
        .filter(|s| *s == "by mcp")
        .unwrap();
    reads_only_itself(&served, &first, &run);
}

#[test]
fn a_run_that_holds_as_much_as_it_may_is_told_so_until_it_gives_something_back() {
    let served = fleet();
    let first = living(&served, "first");
    for from in (0..HELD_MAX).step_by(MAX_KEYS) {
        let keys: Vec<_> = (from..HELD_MAX.min(from + MAX_KEYS)).map(|key| format!("job:{key}")).collect();
        assert_eq!(first.outcome("acquire_lock", json!({ "keys": keys })), "granted");
    }
    let (refused, is_error) = first.call("acquire_lock", locked("job:one-more"));
    assert_eq!((&refused["outcome"], is_error), (&json!("limit"), true), "{refused}");
    assert!(refused["message"].as_str().unwrap().contains("that is the most"), "{refused}");
    assert!(refused["hint"].as_str().is_some_and(|hint| hint.contains("Release some")), "{refused}");
    assert_eq!(first.outcome("release_lock", json!({"key": "job:0"})), "released");
    assert_eq!(first.outcome("acquire_lock", locked("job:one-more")), "granted");
}

fn reads_only_itself(served: &Served, first: &Speaker<'_>, run: &str) {
    let listed = first.ask("resources/list", json!({}))["resources"].clone();
    assert_eq!(listed.as_array().unwrap().len(), 2, "{listed}");
    let read = first.ask("resources/read", json!({"uri": format!("bell://runs/{run}")}));
    let record: Value = serde_json::from_str(read["contents"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!((&record["agent"], &record["status"]), (&json!("first"), &json!("by mcp")));
    first.ask("resources/read", json!({"uri": format!("bell://runs/{run}/log")}));
    let other = served.place.runs_of("second")[0]["run"].as_str().unwrap().to_owned();
    for uri in
        [format!("bell://runs/{other}"), format!("bell://runs/{other}/log"), "bell://agents/first".to_owned()]
    {
        let answer = first.send("resources/read", json!({"uri": uri})).json();
        assert!(answer["error"]["message"].as_str().unwrap().contains("there is no resource"), "{answer}");
    }
}

#[test]
fn the_token_of_a_run_goes_on_over_a_restart_and_ends_with_the_run() {
    let mut served = fleet();
    let token = living(&served, "first").bearer;
    assert_eq!(speaker(&served, &token, Era::Modern).outcome("acquire_lock", locked("job:a")), "granted");
    served.kill();
    served.start();
    assert_eq!(
        speaker(&served, &token, Era::Modern).outcome("renew_lock", json!({"key": "job:a"})),
        "renewed"
    );
    served.post("/v1/locks/break", &json!({ "key": "job:a", "reason": "it hangs" })).expect(200);
    assert_eq!(speaker(&served, &token, Era::Modern).outcome("renew_lock", json!({"key": "job:a"})), "lost");
    served.place.write("over", "");
    eventually("the run has ended", || served.place.ends() == ["completed"]);
    speaker(&served, &token, Era::Modern).send("tools/list", json!({})).refused(401, "unauthorized");
}

#[test]
fn a_run_of_another_machine_is_told_so() {
    let here = fleet();
    let mut there = Place::sqlite();
    there.url.clone_from(&here.place.url);
    there.agent("elsewhere", TELL, "");
    let there = Served::of(there);
    there.place.ask("elsewhere");
    let token = there.place.until_file("elsewhere.token");
    let (here, there) =
        (speaker(&here, token.trim(), Era::Modern), speaker(&there, token.trim(), Era::Modern));
    assert_eq!(there.outcome("acquire_lock", locked("job:a")), "granted");
    let refused = here.send("tools/list", json!({})).refused(403, "unauthorized").json();
    assert!(refused["message"].as_str().unwrap().contains("another machine"), "{refused}");
}

#[test]
fn who_names_its_request_and_calls_again_keeps_its_place() {
    let served = fleet();
    let (holder, early, late) =
        (living(&served, "first"), living(&served, "second"), living(&served, "third"));
    assert_eq!(holder.outcome("acquire_lock", locked("job:a")), "granted");
    let wish = json!({"keys": ["job:a"], "wait_seconds": 600, "request_id": "mine"});
    let hung_up = early.begin(1, "acquire_lock", wish.clone());
    served.place.until_waiting("job:a", 1);
    drop(hung_up);
    let later = late.begin(1, "acquire_lock", json!({"keys": ["job:a"], "wait_seconds": 600}));
    served.place.until_waiting("job:a", 2);
    let again = early.begin(2, "acquire_lock", wish);
    assert_eq!(holder.outcome("release_lock", json!({"key": "job:a"})), "released");
    assert_eq!(end(again)["outcome"], "granted", "it was there first");
    assert_eq!(early.outcome("release_lock", json!({"key": "job:a"})), "released");
    assert_eq!(end(later)["outcome"], "granted");
}

#[test]
fn a_caller_that_has_gone_loses_its_place_and_its_grant() {
    let served = fleet();
    let (holder, gone, next) =
        (living(&served, "first"), living(&served, "second"), living(&served, "third"));
    assert_eq!(holder.outcome("acquire_lock", locked("job:a")), "granted");
    // Nobody can come back to a request whose name nobody knows.
    let nameless = gone.begin(1, "acquire_lock", json!({"keys": ["job:a"], "wait_seconds": 600}));
    served.place.until_waiting("job:a", 1);
    drop(nameless);
    served.place.until_waiting("job:a", 0);
    // To this one somebody could, for a few seconds.
    let named =
        gone.begin(2, "acquire_lock", json!({"keys": ["job:a"], "wait_seconds": 600, "request_id": "mine"}));
    served.place.until_waiting("job:a", 1);
    let waiting = next.begin(1, "acquire_lock", json!({"keys": ["job:a"], "wait_seconds": 50}));
    served.place.until_waiting("job:a", 2);
    drop(named);
    assert_eq!(holder.outcome("release_lock", json!({"key": "job:a"})), "released");
    assert_eq!(end(waiting)["outcome"], "granted", "a grant that nobody came for is given back");
}

#[test]
fn a_call_that_is_taken_back_in_words_gives_its_place_up() {
    let served = fleet();
    let (holder, other) = (living(&served, "first"), living(&served, "second"));
    assert_eq!(holder.outcome("acquire_lock", locked("job:a")), "granted");
    let other = speaker(&served, &other.bearer, Era::Legacy);
    let open = other.begin(7, "acquire_lock", json!({"keys": ["job:a"], "wait_seconds": 600}));
    served.place.until_waiting("job:a", 1);
    other.send("notifications/cancelled", json!({"requestId": 8})).expect(202);
    holder.send("notifications/cancelled", json!({"requestId": 7})).expect(202);
    assert_eq!(served.place.show("job:a")["waiting"], 1, "another call, or another's, was meant");
    other.send("notifications/cancelled", json!({"requestId": 7})).expect(202);
    served.place.until_waiting("job:a", 0);
    drop(open);
}

#[test]
fn an_operator_looks_and_steers_with_a_full_key_and_only_looks_with_another() {
    let served = fleet();
    let looking = ["fleet_status", "list_agents", "list_runs", "read_log", "list_locks", "why"];
    let acting = ["run_agent", "pause", "resume", "kill_run", "break_lock"];
    let read_key =
        served.place.json(&["keys", "add", "reader", "--role", "read"])["key"].as_str().unwrap().to_owned();
    for era in ERAS {
        let full = speaker(&served, &served.key, era);
        assert_eq!(full.tools(), [&looking[..], &acting[..]].concat());
        let reader = speaker(&served, &read_key, era);
        assert_eq!(reader.tools(), looking);
        for tool in acting {
            let (refused, is_error) = reader.call(tool, json!({}));
            assert_eq!((&refused["outcome"], is_error), (&json!("unauthorized"), true), "{tool}: {refused}");
        }
    }
    steers(&served, &speaker(&served, &served.key, Era::Modern));
    reads(&speaker(&served, &read_key, Era::Modern));
}

fn steers(served: &Served, operator: &Speaker<'_>) {
    let (ran, is_error) = operator.call("run_agent", json!({"agent": "worker", "wait_seconds": 50}));
    assert_eq!(
        (&ran["fate"]["end"]["end"], &ran["returned"], is_error),
        (&json!("completed"), &json!("done"), false)
    );
    let (log, _) = operator.call("read_log", json!({"run": ran["run"], "lines": 1}));
    assert_eq!((&log["is_last"], &log["left_out"]), (&json!(true), &json!(true)), "{log}");
    let (log, _) = operator.call("read_log", json!({"run": "worker"}));
    let text = log["text"].as_str().unwrap();
    assert!(text.contains("out\n") && text.contains("stderr: err\n"), "{log}");
    operator.outcome("pause", json!({"agent": "first", "reason": "lunch"}));
    let (status, _) = operator.call("fleet_status", json!({"agent": "first"}));
    assert_eq!(status["agents"][0]["paused"], "lunch, says key local", "{status}");
    assert_eq!(operator.outcome("resume", json!({"agent": "first"})), "written");
    let first = living(served, "first");
    first.outcome("acquire_lock", locked("job:a"));
    let (locks, _) = operator.call("list_locks", json!({"prefix": "job:"}));
    assert_eq!(locks["locks"][0]["holder"]["agent"], "first");
    assert_eq!(operator.outcome("break_lock", json!({"key": "job:a", "reason": "a test"})), "broken");
    let (refused, _) = operator.call("break_lock", json!({"key": "bell://fleet/nodes", "reason": "a test"}));
    assert_eq!(refused["outcome"], "invalid", "{refused}");
    assert_eq!(operator.call("why", json!({"of": "first"})).0["kind"], "agent");
    let run = served.place.runs_of("first")[0]["run"].clone();
    assert_eq!(operator.outcome("kill_run", json!({"run": run, "reason": "a test"})), "written");
    eventually("the run is killed", || served.place.runs_of("first")[0]["end"]["end"] == "killed");
    let acts = served.place.json(&["audit"])["acts"].as_array().unwrap().clone();
    let acts = acts.iter().filter(|act| act["via"] == "mcp" && act["who"] == "key local");
    let acts: Vec<&str> = acts.map(|act| act["act"].as_str().unwrap()).collect();
    assert_eq!(acts, ["run", "pause", "resume", "break", "kill"], "all of it is on record");
    for (tool, arguments) in [
        ("run_agent", json!({"agent": "nobody"})),
        ("kill_run", json!({"run": "nobody", "reason": "a test"})),
        ("why", json!({"of": "nobody"})),
        ("read_log", json!({"run": "nobody"})),
    ] {
        let (refused, is_error) = operator.call(tool, arguments);
        assert_eq!((&refused["outcome"], is_error), (&json!("not_found"), true), "{refused}");
        assert!(refused["hint"].as_str().unwrap().contains("fleet_status"), "{refused}");
    }
}

fn reads(reader: &Speaker<'_>) {
    let listed = reader.ask("resources/list", json!({}))["resources"].clone();
    let uris: Vec<&str> = listed.as_array().unwrap().iter().map(|one| one["uri"].as_str().unwrap()).collect();
    assert!(uris.contains(&"bell://agents/worker"), "{uris:?}");
    assert_eq!(
        reader.ask("resources/templates/list", json!({}))["resourceTemplates"].as_array().unwrap().len(),
        3
    );
    for uri in uris {
        let read = reader.ask("resources/read", json!({"uri": uri}));
        assert_eq!(read["contents"][0]["uri"], uri);
    }
    let missing = reader.send("resources/read", json!({"uri": "bell://agents/nobody"})).json();
    assert!(missing["error"]["code"].is_i64(), "{missing}");
}

#[test]
fn what_is_no_message_or_shows_no_proof_is_refused_and_nothing_breaks() {
    let served = fleet();
    let forged = format!("01a1e359-abe2-7487-b20f-bfe3bc0af5d9.{}", "0".repeat(64));
    for bearer in ["nonsense", &forged, &format!("bell_local_{}", "0".repeat(64))] {
        speaker(&served, bearer, Era::Legacy).send("tools/list", json!({})).refused(401, "unauthorized");
    }
    served.ask("POST", "/mcp", &[("Content-Type", "application/json")], b"{}").refused(401, "unauthorized");
    let key = format!("Bearer {}", served.key);
    let accept = "application/json, text/event-stream";
    let say = |kind: &str, body: &[u8]| {
        served
            .ask("POST", "/mcp", &[("Authorization", &key), ("Content-Type", kind), ("Accept", accept)], body)
            .status
    };
    let deep =
        [b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":".as_slice(), &b"[".repeat(1_000)]
            .concat();
    for body in [b"".as_slice(), b"{", b"[]", b"null", b"{}", b"{\"jsonrpc\":\"2.0\"}", b"\xff\xfe", &deep] {
        let status = say("application/json", body);
        assert!((400..500).contains(&status), "{status} for {}", String::from_utf8_lossy(body));
    }
    assert_eq!(say("text/plain", b"{}"), 415);
    assert_eq!(say("application/json", &vec![b' '; (1 << 20) + 1]), 413);
    for method in ["GET", "DELETE", "PUT"] {
        assert_eq!(
            served.ask(method, "/mcp", &[("Authorization", &key), ("Accept", accept)], b"").status,
            405,
            "{method}"
        );
    }
    let operator = speaker(&served, &served.key, Era::Modern);
    let unknown = operator.send("tools/call", json!({"name": "fly", "arguments": {}})).json();
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
    let (refused, is_error) = operator.call("pause", json!({"colour": "red"}));
    assert_eq!((&refused["outcome"], is_error), (&json!("invalid"), true), "{refused}");
    assert_eq!(operator.outcome("fleet_status", json!({})), "listed", "it goes on");
}

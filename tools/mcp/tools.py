"""Clients that are no agents: the official inspector, the official Python client, the conformance scenarios."""

import http.client
import http.server
import json
import os
import re
import subprocess
import threading
from pathlib import Path

import fixture
from fixture import BIN, Failed
from model import Threads

INSPECTOR, CONFORMANCE, SDK = "2.12.0", "0.2.0-alpha.12", "2.3.0"

# Those that need no tools made for them, with the revisions that have them.
SCENARIOS = {
    "server-initialize": ["2025-11-25"],
    "server-session-lifecycle": ["2025-11-25"],
    "ping": ["2025-11-25"],
    "tools-list": ["2025-11-25", "2026-07-28"],
    "dns-rebinding-protection": ["2025-11-25", "2026-07-28"],
    "server-sse-multiple-streams": ["2025-11-25", "2026-07-28"],
    "server-sse-polling": ["2025-11-25"],
    "caching": ["2026-07-28"],
    "http-header-validation": ["2026-07-28"],
}


def with_node(env):
    return {**env, "PATH": f"{fixture.newer_node()}:{os.environ['PATH']}"}


def inspector(bell):
    fixture.npm("@modelcontextprotocol/inspector", INSPECTOR)
    seen = []
    with fixture.fleet(bell) as fleet:
        run_url, token = fleet.up().living_run()
        env = with_node(fleet.env)

        def ask(target, *method):
            command = [BIN / "mcp-inspector", "--cli", *target, *method]
            return json.loads(fixture.run(command, env, fleet.project, version=INSPECTOR))

        for era in ("modern", "legacy"):
            way = ["--transport", "http", "--protocol-era", era]
            run = [fleet.url, *way, "--header", f"Authorization: Bearer {token}"]
            operator = [fleet.url, *way, "--header", f"Authorization: Bearer {fleet.key}"]
            stdio = [bell, "mcp", "--protocol-era", era, "--transport", "stdio", "-e", f"BELL_URL={run_url}", "-e", f"BELL_TOKEN={token}"]
            for who, target, count in (("run http", run, 10), ("operator http", operator, 11), ("run stdio", stdio, 10)):
                listed = ask(target, "--method", "tools/list", "--strict")
                if len(listed["tools"]) != count:
                    raise Failed(f"{who}, {era}: {len(listed['tools'])} tools", INSPECTOR)
                seen.append(f"{who} {era}")
            for target in (run, stdio):
                call = ["--method", "tools/call", "--tool-arg"]
                got = ask(target, *call, 'keys=["inspector:a"]', "--tool-name", "acquire_lock")
                back = ask(target, *call, "key=inspector:a", "--tool-name", "release_lock")
                outcomes = [answer["structuredContent"]["outcome"] for answer in (got, back)]
                if outcomes != ["granted", "released"]:
                    raise Failed(f"{era}: {outcomes}", INSPECTOR)
            told = ask(operator, "--method", "tools/call", "--tool-name", "why", "--tool-arg", "of=living")
            if told["structuredContent"]["kind"] != "agent":
                raise Failed(f"{era}: {told}", INSPECTOR)
            ask(operator, "--method", "resources/read", "--uri", "bell://agents/living")
    return INSPECTOR, f"{', '.join(seen)}: tools listed and called, schemas without a portability error"


def python_sdk(bell):
    python = fixture.python(f"mcp=={SDK}")
    with fixture.fleet(bell) as fleet:
        run_url, token = fleet.up().living_run()
        read_key = fleet.ask("keys", "add", "reader", "--role", "read")["key"]
        env = {name: fleet.env[name] for name in ("HOME", "PATH")}
        place = {
            "url": fleet.url, "key": fleet.key, "read_key": read_key, "run_url": run_url, "token": token,
            "bell": str(bell), "project": str(fleet.project), "env": env,
        }
        script = Path(__file__).parent / "sdk.py"
        ended = subprocess.run([python, script], input=json.dumps(place), capture_output=True, text=True, timeout=fixture.PATIENCE, cwd="/", env=fleet.env)
        if ended.returncode:
            raise Failed(ended.stderr.strip()[-600:], SDK)
        return SDK, ", ".join(json.loads(ended.stdout))


def conformance(bell):
    fixture.npm("@modelcontextprotocol/conformance", CONFORMANCE)
    passed = 0
    with fixture.fleet(bell) as fleet:
        fleet.up()
        env, port = with_node(fleet.env), bearer_proxy(fleet)
        for scenario, revisions in SCENARIOS.items():
            for revision in revisions:
                command = [BIN / "conformance", "server", "--url", f"http://127.0.0.1:{port}/mcp", "--scenario", scenario, "--spec-version", revision]
                printed = fixture.run(command, env, fleet.folder, version=CONFORMANCE)
                counts = re.search(r"Passed: (\d+)/(\d+), (\d+) failed", printed)
                if not counts or counts[1] != counts[2] or counts[3] != "0":
                    raise Failed(f"{scenario} at {revision}: {printed[-400:]}", CONFORMANCE)
                passed += int(counts[1])
    return CONFORMANCE, f"{len(SCENARIOS)} scenarios that need no fixtures: {passed} checks passed, none failed"


def bearer_proxy(fleet):
    """Something that adds the key to every request: the scenarios have none. Answers its port."""
    host = fleet.url.removeprefix("http://").removesuffix("/mcp")

    class Proxy(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def pass_on(self):
            length = int(self.headers.get("Content-Length") or 0)
            there = http.client.HTTPConnection(host, timeout=fixture.PATIENCE)
            there.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() not in ("authorization", "connection"):
                    there.putheader(name, value)
            there.putheader("Authorization", f"Bearer {fleet.key}")
            there.endheaders(self.rfile.read(length) if length else None)
            answer = there.getresponse()
            body = answer.read()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in ("content-length", "transfer-encoding", "connection", "date"):
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_DELETE = do_OPTIONS = pass_on

    server = Threads(("127.0.0.1", 0), Proxy)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_address[1]


CHECKS = {"inspector": inspector, "python-sdk": python_sdk, "conformance": conformance}

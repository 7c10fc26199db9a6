"""Agent programs, run by their presets, with a model that follows a script."""

import json
import os

import fixture
import model
from fixture import BIN, Failed

PI_ADAPTER = "2.36.0"
WANTED = ["granted", "released", "written"]


def agent(preset, package, version, program, setup, own=None, patience=120):
    """A check: the program takes a lock, releases it and returns a value, in a real run; by the preset that comes with bell,
    or by one of the project's own."""

    def check(bell):
        fixture.npm(package, version)
        with fixture.fleet(bell) as fleet:
            log = fleet.folder / "model.log"
            port = model.serve(str(log))
            bin_ = fleet.folder / "bin"
            bin_.mkdir()
            (bin_ / preset.split("-")[0]).symlink_to(program())
            if preset == "pi":
                (bin_ / "node").symlink_to(fixture.newer_node() / "node")
            if own:
                (fleet.project / "presets").mkdir()
                (fleet.project / "presets" / f"{preset}.toml").write_text(own.replace("MCP_URL", fleet.url))
            env = setup(fleet, f"http://127.0.0.1:{port}")
            fleet.env.update(env, PATH=f"{bin_}:{bell.parent}:{os.environ['PATH']}")
            passed = json.dumps(sorted(env))
            fleet.agent(
                "demo", f"run: {preset}\nmodel: {env.get('MODEL', 'scripted')}\nenv: {passed}\ntimeout: {patience}s", "Lock demo:thing, release it, return a value."
            )
            fleet.up()
            try:
                ended = fleet.ask("run", "demo", "--wait")
            except Failed as failed:
                printed = fleet.ask("logs", "demo")
                raise Failed(f"{failed}; {json.dumps(printed)[-600:]}", version)
            outcomes = results(log)
            wanted = model.SCRIPT[2][1]["value"]
            if ended.get("returned") != wanted or outcomes != WANTED:
                raise Failed(f"it returned {ended.get('returned')!r} after {outcomes}", version)
            if fleet.ask("lock", "show", "demo:thing")["outcome"] != "free":
                raise Failed("the lock is held still", version)
            how = "its own configuration, over HTTP" if own else f"preset `{preset}`"
            return version, f"{how}: acquire_lock granted, release_lock released, return_value in the run's record"

    return check


def results(log):
    """The outcomes that the model was told, in order, from its last conversation."""
    found = []
    for line in log.read_text().splitlines():
        text = json.dumps(json.loads(line)["body"])
        seen = []
        for outcome in WANTED:
            if any(f'outcome{quote}: {quote}{outcome}' in text or f'outcome{quote}:{quote}{outcome}' in text for quote in QUOTES):
                seen.append(outcome)
        found = seen if len(seen) >= len(found) else found
    return found


# How deep JSON stands inside JSON differs from program to program.
QUOTES = ['\\"', '\\\\\\"', '\\\\\\\\\\\\\\"', '"']


def plain(name):
    return lambda: BIN / name


def goose(fleet, url):
    return {"GOOSE_PROVIDER": "openai", "OPENAI_HOST": url, "OPENAI_BASE_PATH": "v1/chat/completions", "OPENAI_API_KEY": "dummy", "GOOSE_MODEL": "scripted"}


def opencode(fleet, url):
    config = {
        "$schema": "https://opencode.ai/config.json",
        "provider": {"scripted": {"npm": "@ai-sdk/openai-compatible", "options": {"baseURL": f"{url}/v1", "apiKey": "dummy"}, "models": {"scripted": {"name": "scripted"}}}},
        "autoupdate": False,
        "share": "disabled",
    }
    folder = fleet.home / ".config" / "opencode"
    folder.mkdir(parents=True)
    (folder / "opencode.json").write_text(json.dumps(config))
    return {"MODEL": "scripted/scripted"}


def codex(fleet, url):
    folder = fleet.home / ".codex"
    folder.mkdir()
    (folder / "config.toml").write_text(
        f'model = "scripted"\nmodel_provider = "scripted"\n\n[model_providers.scripted]\nname = "scripted"\nbase_url = "{url}/v1"\nwire_api = "responses"\nenv_key = "OPENAI_API_KEY"\n'
    )
    return {"OPENAI_API_KEY": "dummy"}


def gemini(fleet, url):
    folder = fleet.home / ".gemini"
    folder.mkdir()
    # With an address of its own it would want another kind of login.
    (folder / "settings.json").write_text('{"security": {"auth": {"selectedType": "gemini-api-key"}}}')
    return {"GOOGLE_GEMINI_BASE_URL": url, "GEMINI_API_KEY": "dummy", "MODEL": "gemini-2.5-flash"}


def qwen(fleet, url):
    return {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": "dummy"}


def claude(fleet, url):
    return {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "dummy", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "MODEL": "claude-sonnet-4-5"}


def copilot(fleet, url):
    return {"COPILOT_OFFLINE": "true", "COPILOT_PROVIDER_BASE_URL": f"{url}/v1", "COPILOT_PROVIDER_API_KEY": "dummy", "COPILOT_PROVIDER_TYPE": "openai"}


def pi(fleet, url):
    folder = fleet.home / ".pi" / "agent"
    folder.mkdir(parents=True)
    provider = {"baseUrl": f"{url}/v1", "api": "openai-completions", "apiKey": "dummy", "models": [{"id": "scripted"}]}
    (folder / "models.json").write_text(json.dumps({"providers": {"scripted": provider}}))
    (folder / "settings.json").write_text(json.dumps({"packages": [str(fixture.npm("pi-mcp-adapter", PI_ADAPTER))]}))
    return {"MODEL": "scripted/scripted", "PI_OFFLINE": "1"}


# The same two programs over HTTP, with the token of the run in a header: one of each era.
CLAUDE_HTTP = """
about = "Claude Code, over HTTP"
argv = ["claude", "-p", "{model}", "{mcp}", "--allowedTools", "mcp__bell", "--output-format", "stream-json", "--verbose"]
prompt = "stdin"
[model]
argv = ["--model", "{model_name}"]
[mcp]
argv = ["--mcp-config", "{mcp_config}", "--strict-mcp-config"]
[mcp.config.mcpServers.bell]
type = "http"
url = "MCP_URL"
headers = { Authorization = "Bearer {token}" }
alwaysLoad = true
"""
OPENCODE_HTTP = """
about = "opencode, over HTTP"
argv = ["opencode", "run", "--auto", "--format", "json", "{model}", "{prompt}"]
prompt = "argument"
[model]
argv = ["--model", "{model_name}"]
[mcp]
env = { OPENCODE_CONFIG = "{mcp_config}" }
[mcp.config.mcp.bell]
type = "remote"
url = "MCP_URL"
oauth = false
headers = { Authorization = "Bearer {token}" }
enabled = true
"""


def installed(bell):
    """What `bell mcp install` writes is what the programs read."""
    seen = []
    with fixture.fleet(bell) as fleet:
        bin_ = fleet.folder / "bin"
        bin_.mkdir()
        for name, (package, version, program, _) in LISTING.items():
            fixture.npm(package, version)
            (bin_ / name).symlink_to(BIN / program)
        fleet.env.update(PATH=f"{bin_}:{os.environ['PATH']}", CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1")
        did = {line["client"]: line["did"] for line in fleet.ask("mcp", "install")["clients"]}
        if set(did.values()) != {"added"}:
            raise Failed(f"it did {did}")
        # It reads files of a project only if it was told to trust it.
        (fleet.home / ".codex").mkdir()
        (fleet.home / ".codex" / "config.toml").write_text(f'[projects."{fleet.project}"]\ntrust_level = "trusted"\n')
        for name, (_, version, _, command) in LISTING.items():
            printed = fixture.run([name, *command], fleet.env, fleet.project, version, aside=True)
            if f"{bell}" not in printed and "bell (local)" not in printed:
                raise Failed(f"{name} does not list it: {printed[-300:]}", version)
            seen.append(name)
    return "-", f"`bell mcp install`, then listed by {', '.join(seen)}"


# How each program shows the servers that it knows.
LISTING = {
    "claude": ("@anthropic-ai/claude-code", "2.1.325", "claude", ["mcp", "list"]),
    "codex": ("@openai/codex", "0.166.0", "codex", ["mcp", "list"]),
    "gemini": ("@google/gemini-cli", "0.61.0", "gemini", ["mcp", "list"]),
    "qwen": ("@qwen-code/qwen-code", "0.24.4", "qwen", ["mcp", "list"]),
    "opencode": ("opencode-ai", "1.18.33", "opencode", ["mcp", "list"]),
    "goose": ("@aaif/goose-binary-linux-x64", "1.52.0", "goose-binary-linux-x64", ["info", "-v"]),
    "copilot": ("@github/copilot", "1.0.102", "copilot", ["mcp", "list"]),
}

CHECKS = {
    "installed": installed,
    "goose": agent("goose", "@aaif/goose-binary-linux-x64", "1.52.0", plain("goose-binary-linux-x64"), goose),
    "opencode": agent("opencode", "opencode-ai", "1.18.33", plain("opencode"), opencode),
    "codex": agent("codex", "@openai/codex", "0.166.0", plain("codex"), codex),
    "gemini": agent("gemini", "@google/gemini-cli", "0.61.0", plain("gemini"), gemini),
    "qwen": agent("qwen", "@qwen-code/qwen-code", "0.24.4", plain("qwen"), qwen),
    "claude": agent("claude", "@anthropic-ai/claude-code", "2.1.325", plain("claude"), claude),
    "copilot": agent("copilot", "@github/copilot", "1.0.102", plain("copilot"), copilot),
    "pi": agent("pi", "@earendil-works/pi-coding-agent", "0.87.1", plain("pi"), pi),
    "claude-http": agent("claude-http", "@anthropic-ai/claude-code", "2.1.325", plain("claude"), claude, own=CLAUDE_HTTP),
    "opencode-http": agent("opencode-http", "opencode-ai", "1.18.33", plain("opencode"), opencode, own=OPENCODE_HTTP),
}

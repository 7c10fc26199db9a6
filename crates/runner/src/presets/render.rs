//! From a preset to a command: pure, and nothing of it is ever read by a shell.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{Mcp, Preset, PromptBy};
use crate::env::Environment;
use crate::error::{Error, Kind, Result};
use crate::launch::{AgentFile, Launch, Stdin};

/// The prompt, in the agent's folder.
const PROMPT_FILE: &str = "prompt.md";
/// The MCP configuration, in the agent's folder.
const MCP_FILE: &str = "mcp.json";

/// The kernel takes arguments of less than 128 KiB.
const MAX_ARGUMENT_BYTES: usize = 120 * 1024;

/// What a run gives to its agent.
#[derive(Clone, Debug)]
pub struct Given<'a> {
    /// What the agent is to do.
    pub prompt: &'a str,
    /// The agent's folder, as the agent sees it.
    pub agent_dir: &'a Path,
    /// The model, if the agent asks for one.
    pub model: Option<&'a str>,
    /// The MCP server, if the agent gets one.
    pub mcp: Option<McpServer<'a>>,
}

/// An MCP server for one run: `bell mcp`, and what it needs to know.
#[derive(Clone)]
pub struct McpServer<'a> {
    /// Where the run is served.
    pub url: &'a str,
    /// Who is asking. Secret.
    pub token: &'a str,
    /// Bellwether's own command.
    pub bell: &'a Path,
}

impl std::fmt::Debug for McpServer<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("McpServer").field("url", &self.url).finish_non_exhaustive()
    }
}

/// What to run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rendered {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// What it needs in its environment, beside what every agent gets.
    pub env: Environment,
    /// What it reads.
    pub stdin: Stdin,
    /// Files for the agent's folder.
    pub files: Vec<AgentFile>,
}

impl Rendered {
    /// Puts it all into a launch; what the launch's environment has already stays.
    pub fn apply(self, launch: &mut Launch) {
        launch.argv = self.argv;
        launch.stdin = self.stdin;
        launch.files.extend(self.files);
        for (name, value) in self.env.iter() {
            if launch.env.get(name).is_none() {
                launch.env = std::mem::take(&mut launch.env).with(name, value);
            }
        }
    }
}

impl Preset {
    /// The command for one run.
    pub fn render(&self, given: &Given<'_>) -> Result<Rendered> {
        if given.prompt.contains('\0') {
            let error = Error::new(Kind::Invalid, "give the agent a prompt with NUL in it");
            return Err(error.hint("Give binary data by file."));
        }
        if given.model.is_some() && self.model.is_none() {
            // Better not at all than with another model than the one that was asked for.
            let error = Error::new(Kind::Invalid, format!("tell {} which model to use", self.about));
            return Err(
                error.hint("Take `model` out of the agent's settings, or write a preset with [model].")
            );
        }
        let words = Words::of(given);
        let mut files = vec![AgentFile { name: PROMPT_FILE.to_owned(), content: given.prompt.to_owned() }];
        let mut env: Vec<(String, String)> = fill_all(&self.env, &words);
        let model = self.model.as_ref().filter(|_| given.model.is_some());
        env.extend(model.into_iter().flat_map(|model| fill_all(&model.env, &words)));
        let mcp = self.mcp.as_ref().filter(|_| given.mcp.is_some());
        if let Some(mcp) = mcp {
            env.extend(fill_all(&mcp.env, &words));
            files.extend(config(mcp, &words)?);
        }
        let filled =
            |argv: Option<&Vec<String>>| argv.into_iter().flatten().map(|word| words.fill(word)).collect();
        let argv = self.argv.iter().flat_map(|argument| match argument.as_str() {
            "{prompt}" => vec![prompt_argument(given.prompt, &words)],
            "{model}" => filled(model.map(|model| &model.argv)),
            "{mcp}" => filled(mcp.map(|mcp| &mcp.argv)),
            argument => vec![words.fill(argument)],
        });
        let stdin = match self.prompt {
            PromptBy::Stdin => Stdin::Text(given.prompt.to_owned()),
            PromptBy::Argument | PromptBy::File => Stdin::Null,
        };
        Ok(Rendered { argv: argv.collect(), env: env.into_iter().collect(), stdin, files })
    }
}

/// What the placeholders stand for.
struct Words {
    prompt_file: PathBuf,
    pairs: Vec<(&'static str, String)>,
}

impl Words {
    fn of(given: &Given<'_>) -> Self {
        let prompt_file = given.agent_dir.join(PROMPT_FILE);
        let mut pairs = vec![("{prompt_file}", prompt_file.display().to_string())];
        pairs.extend(given.model.map(|model| ("{model_name}", model.to_owned())));
        if let Some(mcp) = &given.mcp {
            pairs.push(("{mcp_config}", given.agent_dir.join(MCP_FILE).display().to_string()));
            pairs.push(("{url}", mcp.url.to_owned()));
            pairs.push(("{token}", mcp.token.to_owned()));
            pairs.push(("{bell}", mcp.bell.display().to_string()));
        }
        Self { prompt_file, pairs }
    }

    /// One pass: what a placeholder stands for is never looked into again.
    fn fill(&self, text: &str) -> String {
        let (mut filled, mut rest) = (String::new(), text);
        while let Some(start) = rest.find('{') {
            let (before, from) = rest.split_at(start);
            filled.push_str(before);
            let known = self.pairs.iter().find_map(|(word, value)| Some((from.strip_prefix(word)?, value)));
            if let Some((after, value)) = known {
                filled.push_str(value);
                rest = after;
            } else {
                filled.push('{');
                rest = from.get(1..).unwrap_or_default();
            }
        }
        filled.push_str(rest);
        filled
    }

    fn fill_value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.fill(text)),
            Value::Array(values) => values.iter().map(|value| self.fill_value(value)).collect(),
            Value::Object(entries) => {
                entries.iter().map(|(name, value)| (name.clone(), self.fill_value(value))).collect()
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }
}

fn fill_all(env: &std::collections::BTreeMap<String, String>, words: &Words) -> Vec<(String, String)> {
    env.iter().map(|(name, value)| (name.clone(), words.fill(value))).collect()
}

fn config(mcp: &Mcp, words: &Words) -> Result<Option<AgentFile>> {
    let Some(template) = &mcp.config else { return Ok(None) };
    let content = serde_json::to_string_pretty(&words.fill_value(template))
        .map_err(|error| Error::new(Kind::Invalid, format!("write an MCP configuration: {error}")))?;
    Ok(Some(AgentFile { name: MCP_FILE.to_owned(), content }))
}

/// The prompt as an argument that no program takes for an option, and the kernel does not find too long.
fn prompt_argument(prompt: &str, words: &Words) -> String {
    if prompt.len() > MAX_ARGUMENT_BYTES {
        return format!("Read the file {} and do what it says.", words.prompt_file.display());
    }
    if prompt.starts_with('-') { format!(" {prompt}") } else { prompt.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presets::Presets;

    fn given(prompt: &str) -> Given<'_> {
        let mcp = McpServer { url: "unix:/run/bell.sock", token: "canary", bell: Path::new("/bin/bell") };
        Given { prompt, agent_dir: Path::new("/run/agent"), model: Some("large"), mcp: Some(mcp) }
    }

    fn render(name: &str, given: &Given<'_>) -> Rendered {
        Presets::built_in().unwrap().get(name).unwrap().render(given).unwrap()
    }

    /// What each program was seen to need.
    #[test]
    fn each_program_is_run_with_the_arguments_it_was_seen_to_work_with() {
        let table = [
            (
                "aider",
                "aider --yes-always --no-stream --no-pretty --no-check-update --model large --message-file /run/agent/prompt.md",
            ),
            (
                "claude",
                "claude -p --model large --mcp-config /run/agent/mcp.json --strict-mcp-config --allowedTools Bash,Edit,Write,mcp__bell --output-format stream-json --verbose",
            ),
            (
                "codex",
                "codex exec --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox --json --model large -c mcp_servers.bell.command=\"/bin/bell\" -c mcp_servers.bell.args=[\"mcp\"] -c mcp_servers.bell.env_vars=[\"BELL_URL\", \"BELL_TOKEN\"] -",
            ),
            (
                "copilot",
                "copilot -p PROMPT --allow-all-tools --trust-folder --model large --additional-mcp-config @/run/agent/mcp.json",
            ),
            ("gemini", "gemini --yolo --skip-trust -o stream-json --model large -p PROMPT"),
            (
                "goose",
                "goose run --no-session --no-profile --with-builtin developer --with-extension /bin/bell mcp --output-format stream-json -i -",
            ),
            ("opencode", "opencode run --auto --format json --model large PROMPT"),
            (
                "pi",
                "pi -p --mode json --no-session --approve --model large --mcp-config /run/agent/mcp.json PROMPT",
            ),
            (
                "qwen",
                "qwen --auth-type openai --yolo --model large --mcp-config /run/agent/mcp.json --output-format stream-json PROMPT",
            ),
        ];
        for (name, expected) in table {
            assert_eq!(render(name, &given("PROMPT")).argv.join(" "), expected);
        }
    }

    #[test]
    fn each_mcp_configuration_has_the_shape_its_program_reads() {
        let (bell, args) = ("/bin/bell", ["mcp"]);
        let env = serde_json::json!({"BELL_URL": "unix:/run/bell.sock", "BELL_TOKEN": "canary"});
        let table = [
            (
                "claude",
                serde_json::json!({"mcpServers": {"bell":
                {"type": "stdio", "command": bell, "args": args, "env": env, "alwaysLoad": true}}}),
            ),
            (
                "copilot",
                serde_json::json!({"mcpServers": {"bell":
                {"type": "local", "command": bell, "args": args, "env": env, "tools": ["*"]}}}),
            ),
            (
                "gemini",
                serde_json::json!({"mcpServers": {"bell":
                {"command": bell, "args": args, "env": env, "trust": true}}}),
            ),
            (
                "opencode",
                serde_json::json!({"mcp": {"bell":
                {"type": "local", "command": [bell, "mcp"], "environment": env, "enabled": true}}}),
            ),
        ];
        for (name, expected) in table {
            let files = render(name, &given("x")).files;
            let file = files.iter().find(|file| file.name == "mcp.json").unwrap();
            assert_eq!(serde_json::from_str::<Value>(&file.content).unwrap(), expected, "{name}");
        }
    }

    #[test]
    fn the_token_is_in_no_argument_and_no_environment() {
        for name in Presets::built_in().unwrap().names() {
            let rendered = render(name, &given("x"));
            assert!(!rendered.argv.iter().any(|argument| argument.contains("canary")), "{name}");
            assert!(!rendered.env.iter().any(|(_, value)| value.contains("canary")), "{name}");
        }
    }

    #[test]
    fn without_a_server_nothing_of_it_is_left() {
        for name in Presets::built_in().unwrap().names() {
            let rendered = render(name, &Given { model: None, mcp: None, ..given("x") });
            assert!(!rendered.argv.iter().any(|argument| argument.contains(['{', '}'])), "{name}");
            assert_eq!(rendered.files.len(), 1, "{name}");
        }
    }

    #[test]
    fn a_prompt_stays_what_it_is_whatever_it_looks_like() {
        for prompt in ["$(touch /tmp/x); `id`", "{token} {url} {mcp}", "--help", "a\nb"] {
            let rendered = render("opencode", &given(prompt));
            assert_eq!(rendered.argv.last().unwrap().trim_start_matches(' '), prompt);
            assert_eq!(rendered.argv.len(), 8);
            assert_eq!(render("claude", &given(prompt)).stdin, Stdin::Text(prompt.to_owned()));
        }
        assert_eq!(render("opencode", &given("--help")).argv.last().unwrap(), " --help");
    }

    #[test]
    fn a_program_that_takes_no_model_is_not_run_with_another_one() {
        let mut presets = Presets::built_in().unwrap();
        presets.add("own", "about = \"mine\"\nargv = [\"mine\"]\nprompt = \"stdin\"").unwrap();
        let error = presets.get("own").unwrap().render(&given("x")).unwrap_err();
        assert!(error.to_string().contains("which model"), "{error}");
        assert_eq!(render("goose", &given("x")).env.get("GOOSE_MODEL"), Some("large"));
    }

    #[test]
    fn a_prompt_too_long_for_an_argument_is_pointed_to() {
        let long = "x".repeat(300_000);
        let rendered = render("gemini", &given(&long));
        assert!(rendered.argv.last().unwrap().contains("/run/agent/prompt.md"));
        assert_eq!(rendered.files[0].content.len(), 300_000);
    }
}

//! How known agent programs are run without a person: data, one small file for each.
//!
//! A preset says which arguments a program needs, how it gets its prompt, and how it is told of an MCP server. Users
//! write their own in the same shape. Nothing here looks at the machine: whether a program is installed shows
//! when it is started.

mod render;

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::error::{Error, Kind, Result};

pub use render::{Given, McpServer, Rendered};

const BUILT_IN: &[(&str, &str)] = &[
    ("aider", include_str!("../presets/aider.toml")),
    ("claude", include_str!("../presets/claude.toml")),
    ("codex", include_str!("../presets/codex.toml")),
    ("copilot", include_str!("../presets/copilot.toml")),
    ("gemini", include_str!("../presets/gemini.toml")),
    ("goose", include_str!("../presets/goose.toml")),
    ("opencode", include_str!("../presets/opencode.toml")),
    ("pi", include_str!("../presets/pi.toml")),
    ("qwen", include_str!("../presets/qwen.toml")),
];

/// How one agent program is run.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preset {
    /// What the program is called by people.
    pub about: String,
    /// The program and its arguments. `{prompt}` stands for the prompt, `{model}` for [`Model::argv`] and `{mcp}` for
    /// [`Mcp::argv`], each as a whole argument; `{prompt_file}` may be a part of one.
    pub argv: Vec<String>,
    /// How the program gets its prompt.
    pub prompt: PromptBy,
    /// What it needs in its environment.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// How it is told which model to use, if it can be.
    pub model: Option<Model>,
    /// How it is told of an MCP server, if it can be.
    pub mcp: Option<Mcp>,
}

/// How a program gets its prompt.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptBy {
    /// On standard input.
    Stdin,
    /// As an argument. A prompt that is too long for one is pointed to instead.
    Argument,
    /// In a file that an argument names.
    File,
}

/// How a program is told which model to use; `{model_name}` may be a part of any text.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// More arguments.
    #[serde(default)]
    pub argv: Vec<String>,
    /// More environment.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
}

/// How a program is told of an MCP server: `{bell} mcp`, a command that it starts. `{url}` and `{token}` are what that
/// command needs in its environment, for programs that pass their own on only in part. `{url}`, `{token}`,
/// `{mcp_config}` and `{bell}` may be parts of any text; the token is refused among the arguments, which everybody on the machine can see.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mcp {
    /// More arguments.
    #[serde(default)]
    pub argv: Vec<String>,
    /// More environment.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// What is in the configuration file, which is written as JSON; without it there is none.
    pub config: Option<Value>,
}

/// The presets that there are, by name.
#[derive(Clone, Debug)]
pub struct Presets(BTreeMap<String, Preset>);

impl Presets {
    /// Those that come with Bellwether.
    pub fn built_in() -> Result<Self> {
        let mut presets = Self(BTreeMap::new());
        for (name, text) in BUILT_IN {
            presets.add(name, text)?;
        }
        Ok(presets)
    }

    /// Adds one from the text of a TOML file, or replaces the one of that name.
    pub fn add(&mut self, name: &str, text: &str) -> Result<()> {
        let preset: Preset = toml::from_str(text).map_err(|error| {
            Error::new(Kind::Invalid, format!("read the preset {name}: {error}"))
                .hint("Compare it with a preset that comes with Bellwether.")
        })?;
        preset.check(name)?;
        self.0.insert(name.to_owned(), preset);
        Ok(())
    }

    /// The preset of this name.
    pub fn get(&self, name: &str) -> Result<&Preset> {
        self.0.get(name).ok_or_else(|| {
            let names: Vec<&str> = self.names().collect();
            Error::new(Kind::NotFound, format!("find a preset called {name:?}"))
                .hint(format!("There are {}; or give the command itself.", names.join(", ")))
        })
    }

    /// All names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

impl Preset {
    fn check(&self, name: &str) -> Result<()> {
        let has = |word: &str| self.argv.iter().any(|argument| argument.contains(word));
        let spliced =
            |word: &str| self.argv.iter().any(|argument| argument.contains(word) && argument != word);
        let shown = self.argv.iter().chain(self.mcp.iter().flat_map(|mcp| &mcp.argv));
        let wrong = match self.prompt {
            _ if self.argv.first().is_none_or(String::is_empty) => "`argv` names no program",
            _ if ["{prompt}", "{model}", "{mcp}"].into_iter().any(spliced) => {
                "{prompt}, {model} and {mcp} have to be whole arguments"
            }
            _ if self.model.as_ref().is_some_and(|model| !model.argv.is_empty()) && !has("{model}") => {
                "there are arguments for a model, but {model} is not in `argv`"
            }
            _ if shown.into_iter().any(|argument| argument.contains("{token}")) => {
                "{token} among the arguments could be seen by everybody"
            }
            PromptBy::Argument if !has("{prompt}") => {
                "the prompt is an argument, but {prompt} is not in `argv`"
            }
            PromptBy::File if !has("{prompt_file}") => {
                "the prompt is a file, but {prompt_file} is not in `argv`"
            }
            PromptBy::Stdin if has("{prompt}") => "the prompt is on standard input, but also in `argv`",
            _ => return Ok(()),
        };
        let error = Error::new(Kind::Invalid, format!("use the preset {name}: {wrong}"));
        Err(error.hint("Compare it with a preset that comes with Bellwether."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_that_comes_with_bellwether_is_sound() {
        let presets = Presets::built_in().unwrap();
        assert_eq!(presets.names().count(), BUILT_IN.len());
        let without_mcp: Vec<&str> =
            presets.names().filter(|name| presets.get(name).unwrap().mcp.is_none()).collect();
        assert_eq!(without_mcp, ["aider"]);
    }

    #[test]
    fn an_unknown_name_is_refused_with_those_that_there_are() {
        let error = Presets::built_in().unwrap().get("claud").unwrap_err();
        assert_eq!(error.kind(), Kind::NotFound);
        assert!(error.advice().contains("claude"), "{}", error.advice());
    }

    #[test]
    fn users_add_their_own_and_replace_ours() {
        let mut presets = Presets::built_in().unwrap();
        presets
            .add("claude", "about = \"mine\"\nargv = [\"mine\", \"{prompt}\"]\nprompt = \"argument\"")
            .unwrap();
        assert_eq!(presets.get("claude").unwrap().about, "mine");
    }

    #[test]
    fn a_preset_that_could_not_work_or_would_show_secrets_is_refused() {
        let with = |argv: &str, prompt: &str| format!("about = \"x\"\nargv = {argv}\nprompt = {prompt:?}\n");
        for text in [
            with("[]", "stdin"),
            with("[\"a\"]", "argument"),
            with("[\"a\"]", "file"),
            with("[\"a\", \"{prompt}\"]", "stdin"),
            with("[\"sh\", \"-c\", \"a {prompt}\"]", "argument"),
            with("[\"a\", \"--token={token}\"]", "stdin"),
            with("[\"a\", \"--model={model}\"]", "stdin"),
            with("[\"a\"]", "stdin") + "[model]\nargv = [\"-m\", \"{model_name}\"]\n",
            with("[\"a\"]", "stdin") + "[mcp]\nargv = [\"--header\", \"Bearer {token}\"]\n",
            with("[\"a\"]", "telepathy"),
            with("[\"a\"]", "stdin") + "colour = \"red\"\n",
        ] {
            let error = Presets::built_in().unwrap().add("mine", &text).unwrap_err();
            assert_eq!(error.kind(), Kind::Invalid, "{text}");
        }
    }
}

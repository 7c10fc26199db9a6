//! Secrets: named in settings, kept elsewhere, shown nowhere (C4).
//!
//! A reference is `env:NAME`, `file:PATH`, or the plain name of a file in `.bell/secrets`: one file for each
//! secret, readable by its owner only. A folder of files needs no quoting, and a secret can be replaced
//! without touching the others.

mod list;

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::folder::{Folder, ReadFault};

pub use list::{SecretList, SecretRefs};

/// The folder of a project's secrets.
pub const SECRETS_FOLDER: &str = ".bell/secrets";
/// Bytes in a secret: a certificate chain fits, a mistaken path to something large does not.
pub const SECRET_BYTES_MAX: u64 = 64 << 10;
/// Characters in a variable's name.
const NAME_CHARS_MAX: usize = 128;

/// The value of a secret. It has no way to be shown, and none to be compared: that would take longer the more agrees.
///
/// ```compile_fail,E0369
/// fn same(a: bell_project::secret::Secret, b: bell_project::secret::Secret) -> bool {
///     a == b
/// }
/// ```
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// The value, for the one who needs it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

/// The name of an environment variable: a letter or `_`, then letters, digits and `_`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(transparent)]
pub struct VariableName(String);

impl VariableName {
    /// Reads a name. So nothing with a path, an `=` or a NUL in it can be one.
    pub fn parse(text: &str) -> Option<Self> {
        let mut bytes = text.bytes();
        let starts = bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_');
        let goes_on = bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        (starts && goes_on && text.len() <= NAME_CHARS_MAX).then(|| Self(text.to_owned()))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for VariableName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        // Not repeated: it may be a value in the wrong place.
        Self::parse(&text).ok_or_else(|| {
            de::Error::custom("not the name of a variable; write letters, digits and _, such as API_KEY")
        })
    }
}

impl JsonSchema for VariableName {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "VariableName".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$"})
    }
}

/// Where a secret is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SecretRef {
    /// In this variable of the daemon's environment.
    Env(VariableName),
    /// In this file, relative to the project.
    File(String),
    /// In the file of this name in `.bell/secrets`.
    Named(VariableName),
}

impl SecretRef {
    /// Reads a reference.
    pub fn parse(text: &str) -> Option<Self> {
        if let Some(name) = text.strip_prefix("env:") {
            return VariableName::parse(name).map(Self::Env);
        }
        if let Some(path) = text.strip_prefix("file:") {
            return (!path.is_empty() && !path.contains('\0')).then(|| Self::File(path.to_owned()));
        }
        VariableName::parse(text).map(Self::Named)
    }

    /// Gets the secret. `variable` looks into the daemon's environment.
    pub fn resolve(
        &self,
        folder: &Folder,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Secret, SecretError> {
        match self {
            Self::Env(name) => variable(name.as_str())
                .map(Secret)
                .ok_or_else(|| SecretError::NoVariable(name.as_str().to_owned())),
            Self::File(path) => from_file(path, folder.read_private(path, SECRET_BYTES_MAX)),
            Self::Named(name) => {
                let path = format!("{SECRETS_FOLDER}/{}", name.as_str());
                from_file(&path, folder.read_private_beneath(&path, SECRET_BYTES_MAX))
            }
        }
    }
}

/// The line break that editors put at the end is not a part of the secret.
fn from_file(path: &str, read: Result<Vec<u8>, ReadFault>) -> Result<Secret, SecretError> {
    let bytes = read.map_err(|fault| SecretError::File { path: path.to_owned(), fault })?;
    let text = String::from_utf8(bytes).map_err(|_| SecretError::NotText(path.to_owned()))?;
    let text = text.strip_suffix('\n').unwrap_or(&text);
    let text = text.strip_suffix('\r').unwrap_or(text);
    if text.contains('\0') {
        return Err(SecretError::NotText(path.to_owned()));
    }
    Ok(Secret(text.to_owned()))
}

/// Why a secret can't be had. The words read after «could not», and hold no value.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The daemon's environment has no such variable.
    #[error("find the variable {0}")]
    NoVariable(String),
    /// The file can't be read.
    #[error("read the secret {path}: {fault}")]
    File {
        /// Which file.
        path: String,
        /// Why.
        #[source]
        fault: ReadFault,
    },
    /// The file holds no text.
    #[error("read the secret {0}: it is not text")]
    NotText(String),
}

impl SecretError {
    /// What to do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::NoVariable(name) => format!("Set {name} where the daemon is started."),
            Self::File { path, fault: ReadFault::TooOpen { .. } } => format!("Run: chmod 600 {path}"),
            Self::File { path, fault: ReadFault::Missing } => {
                format!("Write the value into {path} and run: chmod 600 {path}")
            }
            Self::File { .. } | Self::NotText(_) => {
                "Use a file of your own with the value as its only text.".to_owned()
            }
        }
    }
}

impl fmt::Display for SecretRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Env(name) => write!(f, "env:{}", name.as_str()),
            Self::File(path) => write!(f, "file:{path}"),
            Self::Named(name) => f.write_str(name.as_str()),
        }
    }
}

impl Serialize for SecretRef {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SecretRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        // Not repeated: it may be the secret itself.
        Self::parse(&text).ok_or_else(|| de::Error::custom(NOT_A_REFERENCE))
    }
}

const NOT_A_REFERENCE: &str =
    "not a reference to a secret; write env:NAME, file:PATH or the name of a file in .bell/secrets";

impl JsonSchema for SecretRef {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "SecretRef".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Where a secret is: env:NAME, file:PATH, or the name of a file in .bell/secrets.",
            "type": "string",
            "pattern": "^(env:[A-Za-z_][A-Za-z0-9_]*|file:.+|[A-Za-z_][A-Za-z0-9_]*)$"
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_shown() {
        assert_eq!(format!("{:?}", Secret("hunter2".into())), "…");
    }

    #[test]
    fn a_name_with_path_parts_is_no_reference() {
        for text in ["", "../x", "a/b", "env:", "env:A=B", "env:../x", "file:", "a.b", "1A", "file:a\0b"] {
            assert_eq!(SecretRef::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn references_read_as_they_are_written() {
        for text in ["env:API_KEY", "file:/run/secrets/key", "API_KEY", "_x1"] {
            assert_eq!(SecretRef::parse(text).unwrap().to_string(), text);
        }
    }
}

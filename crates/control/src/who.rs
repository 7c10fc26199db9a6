//! Who acts on a fleet, for whoever wonders later.

use bell_core::audit;
pub use bell_core::audit::Way;

/// How somebody came to act.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Via {
    /// On this machine, with the rights of a user who may read and write the store.
    Local,
    /// Over HTTP, with an API key.
    Key,
    /// From the dashboard, by a login.
    Login,
}

/// Who acts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Who {
    /// The user, the name of the key, or whose login it is; empty if nobody knows.
    pub name: String,
    /// How they came to act.
    pub via: Via,
    /// The way they came in.
    pub way: Way,
}

/// Characters of what somebody says of themselves: a name and a machine.
const SAYS_CHARS_MAX: usize = 100;

impl Who {
    /// A user of this machine.
    pub fn local(name: impl Into<String>) -> Self {
        Self { name: name.into(), via: Via::Local, way: Way::Cli }
    }

    /// Whoever has this key.
    pub fn key(name: impl Into<String>) -> Self {
        Self { name: name.into(), via: Via::Key, way: Way::Http }
    }

    /// The same, who came in this way.
    #[must_use]
    pub fn by(self, way: Way) -> Self {
        Self { way, ..self }
    }

    /// As the record of acts has it. Nobody acts without a name: a user that none is known of has a number.
    pub fn recorded(&self, says: Option<&str>) -> audit::Who {
        let uid = || format!("uid {}", rustix::process::getuid().as_raw());
        let name = self.words(says).unwrap_or_else(uid);
        audit::Who { name, via: self.way }
    }

    /// In words, with what they say of themselves beside what was proved; `None` if nobody knows.
    pub fn words(&self, says: Option<&str>) -> Option<String> {
        let proved = match self.via {
            Via::Local => self.name.clone(),
            Via::Key => format!("key {}", self.name),
            Via::Login => format!("login {}", self.name),
        };
        let says = says.map(str::trim).filter(|says| !says.is_empty());
        let says = says.map(|says| says.chars().take(SAYS_CHARS_MAX).collect::<String>());
        match (says, proved.is_empty()) {
            (None, true) => None,
            (None, false) => Some(proved),
            (Some(says), true) => Some(says),
            (Some(says), false) => Some(format!("{says} ({proved})")),
        }
    }

    /// A reason, with who gave it.
    pub fn signed(&self, reason: &str, says: Option<&str>) -> String {
        match self.words(says) {
            Some(who) => format!("{reason}, says {who}"),
            None => reason.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_proved_stands_beside_what_was_said() {
        assert_eq!(Who::local("ann").signed("lunch", None), "lunch, says ann");
        assert_eq!(Who::local("").signed("lunch", None), "lunch");
        assert_eq!(Who::key("laptop").signed("lunch", None), "lunch, says key laptop");
        assert_eq!(Who::key("laptop").signed("lunch", Some("ann")), "lunch, says ann (key laptop)");
        assert_eq!(Who::key("laptop").words(Some("  ")), Some("key laptop".to_owned()));
        let long = Who::key("k").words(Some(&"x".repeat(1_000))).unwrap();
        assert_eq!(long.chars().count(), SAYS_CHARS_MAX + " (key k)".len());
    }
}

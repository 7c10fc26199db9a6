//! What can be asked about a delivery.

use std::fmt;

use serde::{Serialize, Serializer};

macro_rules! fields {
    ($($(#[doc = $doc:literal])* $name:ident $word:literal [$($other:literal),*];)*) => {
        /// A field that a filter can name. The first word is the one that is shown.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub enum Field {
            $($(#[doc = $doc])* $name,)*
        }

        impl Field {
            /// Every field, with its words and its meaning, in the order in which they are checked.
            pub const TABLE: &'static [(Self, &'static [&'static str], &'static str)] = &[
                $((Self::$name, &[$word, $($other),*], concat!($($doc),*)),)*
            ];

            /// The word of every field that is shown.
            pub const WORDS: &'static [&'static str] = &[$($word),*];
        }
    };
}

fields! {
    /// The name of the source in the settings.
    Source "source" [];
    /// What kind of thing happened: `issues`, `push`, `app_mention`.
    Events "events" ["event", "resources", "resource"];
    /// What was done: `opened`, `labeled`.
    Actions "actions" ["action"];
    /// The repository, `owner/name`.
    Repos "repos" ["repo"];
    /// The organisation, workspace or server.
    Organizations "organizations" ["organization", "orgs", "org"];
    /// The project or team.
    Projects "projects" ["project"];
    /// The channel of a conversation.
    Channels "channels" ["channel"];
    /// The number of the issue, pull request or discussion.
    Numbers "numbers" ["number"];
    /// The title.
    Titles "titles" ["title"];
    /// The comment, review or message.
    Comments "comments" ["comment"];
    /// Who wrote the issue, pull request or message.
    Authors "authors" ["author"];
    /// Who caused the event.
    Senders "senders" ["sender"];
    /// Who is to do it: one of them is enough.
    Assignees "assignees" ["assignee"];
    /// The labels that it has now: one of them is enough.
    Labels "labels" ["label"];
    /// What was just put on or taken off: a label, an assignee, a reviewer.
    Changed "changed" [];
    /// The branch that it is on. Upper and lower case differ.
    Branches "branches" ["branch"];
    /// The branch that it is to go into. Upper and lower case differ.
    Bases "bases" ["base"];
    /// The tag that it is about. Upper and lower case differ.
    Tags "tags" ["tag"];
    /// How it came out: `success`, `failure`, `approved`.
    Conclusions "conclusions" ["conclusion"];
}

impl Field {
    /// The field of this word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::TABLE.iter().find(|(_, words, _)| words.contains(&word)).map(|(field, ..)| *field)
    }

    /// The word that is shown.
    pub fn word(self) -> &'static str {
        Self::WORDS[self as usize]
    }

    /// Whether `Main` and `main` are two things: git says so.
    pub fn minds_case(self) -> bool {
        matches!(self, Self::Branches | Self::Bases | Self::Tags)
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

impl Serialize for Field {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
    }
}

/// The fields as a table in Markdown, for the reference.
pub fn markdown() -> String {
    let mut page = String::from("| filter | other words for it | what it looks at |\n| --- | --- | --- |\n");
    for (_, words, meaning) in Field::TABLE.iter().filter(|(field, ..)| *field != Field::Source) {
        let others: Vec<String> = words[1..].iter().map(|word| format!("`{word}`")).collect();
        page.push_str(&format!("| `{}` | {} | {} |\n", words[0], others.join(", "), meaning.trim()));
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_stands_in_the_table_at_its_own_place_and_every_word_is_one_field() {
        let mut seen = std::collections::BTreeSet::new();
        for (at, (field, words, _)) in Field::TABLE.iter().enumerate() {
            assert_eq!(*field as usize, at);
            for word in *words {
                assert!(seen.insert(word), "{word} is two fields");
                assert_eq!(Field::parse(word), Some(*field));
            }
        }
        assert_eq!(Field::parse("evnts"), None);
    }
}

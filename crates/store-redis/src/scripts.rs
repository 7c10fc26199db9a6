//! The scripts that Redis runs: each is one step that nobody sees half of.
//!
//! Redis keeps a script's effects together on its way to disk and to replicas, and runs nothing else
//! meanwhile. Numbers in them are doubles, exact below 2⁵³: a revision is the millisecond in which its epoch
//! began × 1024 plus the commits since, which stays below that until the year 2248.
//!
//! All are declared as scripts that write, so that a server which has become a replica refuses even the
//! reading ones instead of answering with what was.

/// A script, loaded by every connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Script {
    Attach,
    Read,
    Scan,
    Listen,
    Commit,
    Watch,
    Absorb,
    Raise,
}

impl Script {
    /// All of them, in the order of their numbers.
    pub(crate) const ALL: [Self; 8] = [
        Self::Attach,
        Self::Read,
        Self::Scan,
        Self::Listen,
        Self::Commit,
        Self::Watch,
        Self::Absorb,
        Self::Raise,
    ];

    /// What Redis runs.
    pub(crate) fn source(self) -> &'static str {
        macro_rules! script {
            ($flags:literal, $($file:literal),+) => {
                concat!("#!lua", $flags, "\n", include_str!("lua/constants.lua"), $(include_str!($file)),+)
            };
        }
        match self {
            Self::Attach => script!("", "lua/common.lua", "lua/attach.lua"),
            Self::Read => script!(" flags=allow-oom", "lua/common.lua", "lua/read.lua"),
            Self::Scan => script!(" flags=allow-oom", "lua/common.lua", "lua/scan.lua"),
            Self::Listen => script!(" flags=allow-oom", "lua/common.lua", "lua/listen.lua"),
            Self::Commit => script!("", "lua/commit.lua"),
            Self::Watch => script!(" flags=allow-oom", "lua/common.lua", "lua/watch.lua"),
            Self::Absorb => script!(" flags=allow-oom", "lua/common.lua", "lua/absorb.lua"),
            Self::Raise => script!("", "lua/common.lua", "lua/raise.lua"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_script_is_its_place() {
        for (place, script) in Script::ALL.into_iter().enumerate() {
            assert_eq!(script as usize, place);
        }
    }
}

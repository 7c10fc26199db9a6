//! What may be pushed: refspecs that can't be taken for anything else.

use super::Update;
use super::error::GuardError;
use super::record::PREFIX;

/// A refspec as git gets it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Refspec {
    /// For the command line.
    pub(super) text: String,
    /// The ref on the remote whose value is compared, if the branch is to be set.
    pub(super) leased: Option<String>,
}

/// Checks refspecs as the user gave them.
pub(super) fn checked(given: &[String], update: Update) -> Result<Vec<Refspec>, GuardError> {
    if given.is_empty() {
        return Err(refused("", "there is nothing to push: name a branch"));
    }
    given.iter().map(|text| one(text, update)).collect()
}

/// Refuses what git could take for an option, wherever it stands.
pub(super) fn check_plain(text: &str) -> Result<(), GuardError> {
    if text.is_empty() {
        return Err(refused(text, "it is empty"));
    }
    if text.starts_with('-') {
        return Err(refused(text, "it looks like an option"));
    }
    if text.chars().any(char::is_control) {
        return Err(refused(text, "it has a control character"));
    }
    Ok(())
}

fn one(text: &str, update: Update) -> Result<Refspec, GuardError> {
    check_plain(text)?;
    if text.starts_with('+') {
        return Err(refused(text, "a + would push whatever the remote has by then: use --force"));
    }
    let (source, target) = text.split_once(':').unwrap_or((text, text));
    if source.is_empty() && target.is_empty() {
        return Err(refused(text, "it names no branch"));
    }
    if target.starts_with(PREFIX) {
        return Err(refused(text, "refs of fences are moved by the guard only"));
    }
    match update {
        Update::Forward => Ok(Refspec { text: text.to_owned(), leased: None }),
        Update::Set => set(text, source, target),
    }
}

/// A branch that may be set must be known by its full name: what is compared is what is set.
fn set(text: &str, source: &str, target: &str) -> Result<Refspec, GuardError> {
    if target == "HEAD" || target.contains('*') {
        return Err(refused(text, "with --force the branch must be named, as in HEAD:main"));
    }
    let full = if target.starts_with("refs/") { target.to_owned() } else { format!("refs/heads/{target}") };
    Ok(Refspec { text: format!("{source}:{full}"), leased: Some(full) })
}

fn refused(given: &str, reason: &'static str) -> GuardError {
    GuardError::Argument { given: super::program::redacted(given), reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_plain_refspec_is_refused() {
        for wrong in ["", "--upload-pack=x", "-f", "+main", ":", "main:refs/bell/fences/x", "a\nb"] {
            let refused = checked(&[wrong.to_owned()], Update::Forward);
            assert!(matches!(refused, Err(GuardError::Argument { .. })), "{wrong:?}");
        }
        assert!(checked(&[], Update::Forward).is_err());
    }

    #[test]
    fn a_branch_that_may_be_set_is_compared_by_its_full_name() {
        let set = |text: &str| one(text, Update::Set).map(|refspec| (refspec.text, refspec.leased));
        let main = || Some("refs/heads/main".to_owned());
        assert_eq!(set("main").unwrap(), ("main:refs/heads/main".to_owned(), main()));
        assert_eq!(set("HEAD:main").unwrap(), ("HEAD:refs/heads/main".to_owned(), main()));
        assert_eq!(set(":main").unwrap(), (":refs/heads/main".to_owned(), main()));
        assert!(set("HEAD").is_err() && set("refs/heads/*:refs/heads/*").is_err());
    }

    #[test]
    fn otherwise_it_is_left_as_it_is() {
        for text in ["main", "HEAD", "HEAD:main", ":old", "refs/tags/v1"] {
            let refspec = one(text, Update::Forward).unwrap();
            assert_eq!((refspec.text.as_str(), refspec.leased), (text, None));
        }
    }
}

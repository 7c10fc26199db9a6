//! What every store refuses before its engine sees it.
//!
//! Requests over a limit would fail on one engine and pass on another, so all drivers ask here first and
//! refuse the same requests in the same words. Nothing here looks at what is stored.

use crate::error::{Error, Kind, Result};
use crate::info::Limits;
use crate::record::Name;
use crate::txn::{Txn, Write};

/// So many writes are sooner compared with each other than put in order.
const FEW_WRITES: usize = 8;

impl Txn {
    /// Whether a store with these limits may be asked for this.
    ///
    /// # Errors
    /// [`Kind::Invalid`], with what to do about it.
    pub fn check(&self, limits: &Limits) -> Result<()> {
        let most = limits.txn_ops;
        check_count("expectations", self.expect.len(), most)?;
        check_count("writes", self.writes.len(), most)?;
        for (name, _) in &self.expect {
            limits.check_name(name)?;
        }
        for (name, write) in &self.writes {
            limits.check_name(name)?;
            limits.check_write(name, write)?;
        }
        match self.written_twice() {
            Some(name) => Err(invalid(format!("write {name} twice in one transaction"))
                .hint("Decide what the record should be in the end and write only that.")),
            None => Ok(()),
        }
    }

    fn written_twice(&self) -> Option<&Name> {
        if self.writes.len() <= FEW_WRITES {
            let mut all = self.written().enumerate();
            return all
                .find_map(|(at, name)| self.written().take(at).any(|other| other == name).then_some(name));
        }
        let mut written: Vec<&Name> = self.written().collect();
        written.sort_unstable();
        written.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
    }
}

impl Limits {
    /// Whether these records may be read together.
    ///
    /// # Errors
    /// [`Kind::Invalid`], with what to do about it.
    pub fn check_read(&self, names: &[Name]) -> Result<()> {
        if names.len() > self.page {
            return Err(invalid(format!("read {} records at once", names.len()))
                .hint(format!("Read at most {} at a time.", self.page)));
        }
        names.iter().try_for_each(|name| self.check_name(name))
    }

    /// Whether this range may be scanned. The first name after a given one is that name and a zero byte,
    /// so `from` may be longer than any name by one.
    ///
    /// # Errors
    /// [`Kind::Invalid`], with what to do about it.
    pub fn check_scan(&self, prefix: &str, from: &str) -> Result<()> {
        let longest = self.name_bytes;
        if prefix.len() > longest || from.len() > longest + 1 {
            let bytes = prefix.len().max(from.len());
            return Err(invalid(format!("scan from a name of {bytes} bytes"))
                .hint(format!("No name is longer than {longest} bytes: shorten it.")));
        }
        Ok(())
    }

    fn check_name(&self, name: &Name) -> Result<()> {
        let (bytes, longest) = (name.as_str().len(), self.name_bytes);
        if bytes == 0 {
            return Err(invalid("use an empty name").hint("Give the record a name."));
        }
        if bytes > longest {
            return Err(invalid(format!("use a name of {bytes} bytes"))
                .hint(format!("Shorten it to at most {longest} bytes.")));
        }
        Ok(())
    }

    fn check_write(&self, name: &Name, write: &Write) -> Result<()> {
        match write {
            Write::Put(value, _) if value.len() > self.value_bytes => Err(invalid(format!(
                "put {} bytes under {name}",
                value.len()
            ))
            .hint(format!("Keep at most {} bytes in a record, and the rest elsewhere.", self.value_bytes))),
            Write::Put(..) | Write::Delete => Ok(()),
        }
    }
}

fn check_count(what: &str, count: usize, most: usize) -> Result<()> {
    if count > most {
        return Err(invalid(format!("commit {count} {what} in one transaction"))
            .hint(format!("Split it: at most {most} {what} fit.")));
    }
    Ok(())
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(Kind::Invalid, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::txn::{Expect, Stamp};

    const LIMITS: Limits = Limits { name_bytes: 4, value_bytes: 3, txn_ops: 2, page: 2 };

    fn put(name: &str, value: &str) -> (Name, Write) {
        (name.into(), Write::Put(value.into(), Stamp::New))
    }

    fn writing(writes: impl Into<Vec<(Name, Write)>>) -> Result<()> {
        Txn { writes: writes.into(), ..Txn::default() }.check(&LIMITS)
    }

    #[track_caller]
    fn refused(result: Result<()>, message: &str) {
        let error = result.unwrap_err();
        assert_eq!((error.kind(), error.to_string().as_str()), (Kind::Invalid, message));
        assert!(!error.advice().is_empty(), "it says what to do next");
    }

    #[test]
    fn everything_at_its_limit_is_taken() {
        writing([put("abcd", "123"), put("b", "")]).unwrap();
        LIMITS.check_read(&["abcd".into(), "abcd".into()]).unwrap();
        LIMITS.check_scan("abcd", "abcd\0").unwrap();
    }

    #[test]
    fn everything_over_its_limit_is_refused_with_advice() {
        refused(writing([put("abcde", "")]), "use a name of 5 bytes");
        refused(writing([put("", "")]), "use an empty name");
        refused(writing([put("a", "1234")]), "put 4 bytes under a");
        refused(writing([put("a", ""), put("b", ""), put("c", "")]), "commit 3 writes in one transaction");
        let expect = vec![("a".into(), Expect::Absent); 3];
        refused(Txn { expect, ..Txn::default() }.check(&LIMITS), "commit 3 expectations in one transaction");
        refused(LIMITS.check_read(&["a".into(), "b".into(), "c".into()]), "read 3 records at once");
        refused(LIMITS.check_read(&["abcde".into()]), "use a name of 5 bytes");
        refused(LIMITS.check_scan("abcde", ""), "scan from a name of 5 bytes");
        refused(LIMITS.check_scan("", "abcdef"), "scan from a name of 6 bytes");
    }

    #[test]
    fn a_name_written_twice_is_refused() {
        refused(writing([put("a", "1"), put("a", "2")]), "write a twice in one transaction");
    }

    #[test]
    fn a_name_written_twice_is_found_among_few_and_among_many() {
        for count in [2, FEW_WRITES, FEW_WRITES + 1, 3 * FEW_WRITES] {
            let mut writes: Vec<_> = (0..count).map(|number| put(&format!("n{number}"), "")).collect();
            Txn { writes: writes.clone(), ..Txn::default() }.check(&Limits::CONTRACT).unwrap();
            writes[count - 1].0 = "n0".into();
            let twice = Txn { writes, ..Txn::default() }.check(&Limits::CONTRACT);
            refused(twice, "write n0 twice in one transaction");
        }
    }
}

//! Where a gateway is: `unix:/path/to/socket` or `http://host:port`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Where a gateway is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Address {
    /// A socket on this machine.
    Unix(PathBuf),
    /// A host and a port.
    Tcp(String),
}

/// It is no address of a gateway.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("could not use {0:?} as the address of a gateway")]
pub struct AddressError(String);

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(url: &str) -> Result<Self, Self::Err> {
        let wrong = || AddressError(shown(url));
        if let Some(path) = url.strip_prefix("unix:") {
            let path = PathBuf::from(path);
            return if path.is_absolute() { Ok(Self::Unix(path)) } else { Err(wrong()) };
        }
        let host = url.strip_prefix("http://").map(|host| host.trim_end_matches('/')).ok_or_else(wrong)?;
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':' | '[' | ']');
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        if has_port && host.chars().all(plain) { Ok(Self::Tcp(host.to_owned())) } else { Err(wrong()) }
    }
}

/// What was given, without what stands before an `@`: some write passwords there.
fn shown(url: &str) -> String {
    let Some((secret, host)) = url.rsplit_once('@') else { return url.to_owned() };
    let scheme = secret.split_once("://").map_or_else(String::new, |(scheme, _)| format!("{scheme}://"));
    format!("{scheme}…@{host}")
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(host) => write!(f, "http://{host}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_are_read_and_written() {
        for url in ["unix:/run/bell.sock", "http://127.0.0.1:8080", "http://[::1]:8080"] {
            assert_eq!(url.parse::<Address>().map(|address| address.to_string()), Ok(url.to_owned()));
        }
    }

    #[test]
    fn a_password_in_what_is_no_address_is_not_shown() {
        let refused = "http://ann:hunter2@fleet.example:8080".parse::<Address>().unwrap_err().to_string();
        assert_eq!(refused, "could not use \"http://…@fleet.example:8080\" as the address of a gateway");
        assert!(!"ann:hunter2@h".parse::<Address>().unwrap_err().to_string().contains("hunter2"));
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for url in
            ["", "unix:", "unix:bell.sock", "http://host", "https://host:1", "http://a b:1", "http://h:1/x"]
        {
            assert!(url.parse::<Address>().is_err(), "{url}");
        }
    }
}

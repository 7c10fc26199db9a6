//! Encrypted connections, where this crate was built with them.

use bell_store::Result;
use etcd_client::ConnectOptions;

use crate::address::Tls;

/// The options with the files that the address names.
///
/// # Errors
/// Those of reading the files.
#[cfg(feature = "tls")]
pub(crate) fn apply(options: ConnectOptions, tls: Option<&Tls>) -> Result<ConnectOptions> {
    use etcd_client::{Certificate, Identity, TlsOptions};

    let Some(tls) = tls else { return Ok(options) };
    let mut chosen = TlsOptions::new();
    if let Some(ca) = &tls.ca {
        chosen = chosen.ca_certificate(Certificate::from_pem(read(ca)?));
    }
    if let (Some(cert), Some(key)) = (&tls.cert, &tls.key) {
        chosen = chosen.identity(Identity::from_pem(read(cert)?, read(key)?));
    }
    Ok(options.with_tls(chosen))
}

#[cfg(feature = "tls")]
fn read(path: &std::path::Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|error| {
        bell_store::Error::new(bell_store::Kind::of_io(&error), format!("read {}", path.display()))
            .hint("Name files in PEM format that this user may read.")
            .because(error)
    })
}

/// Refuses an address that asks for them.
///
/// # Errors
/// [`bell_store::Kind::Unsupported`] if it does.
#[cfg(not(feature = "tls"))]
pub(crate) fn apply(options: ConnectOptions, tls: Option<&Tls>) -> Result<ConnectOptions> {
    match tls {
        None => Ok(options),
        Some(_) => Err(bell_store::Error::new(
            bell_store::Kind::Unsupported,
            "encrypt the connection: this program was built without TLS for etcd",
        )
        .hint("Build it with the feature etcd-tls, or reach etcd through a tunnel.")),
    }
}

//! Encryption, where the address asks for it. The server's certificate is always checked, and its name too.

#[cfg(feature = "tls")]
pub(crate) use with::{Connector, connector};
#[cfg(not(feature = "tls"))]
pub(crate) use without::{Connector, connector};

#[cfg(feature = "tls")]
mod with {
    use std::path::Path;
    use std::sync::Arc;

    use bell_store::{Error, Kind, Result};
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;
    use rustls::{ClientConfig, RootCertStore};

    /// What makes the connections.
    pub(crate) use tokio_postgres_rustls::MakeRustlsConnect as Connector;

    /// Makes connections that trust the certificates in this file, or those this machine trusts.
    pub(crate) fn connector(trusted: Option<&Path>) -> Result<Connector> {
        let mut roots = RootCertStore::empty();
        match trusted {
            Some(path) => {
                for certificate in
                    CertificateDer::pem_file_iter(path).map_err(|error| unreadable(path, error))?
                {
                    let certificate = certificate.map_err(|error| unreadable(path, error))?;
                    roots.add(certificate).map_err(|error| unreadable(path, error))?;
                }
            }
            None => {
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            }
        }
        if roots.is_empty() {
            return Err(Error::new(Kind::Invalid, "trust any certificate: there is none to begin with")
                .hint("Name a file of them with sslrootcert=PATH, or install ca-certificates."));
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let versions = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = versions.map_err(|error| Error::new(Kind::Unsupported, "set up TLS").because(error))?;
        Ok(Connector::new(config.with_root_certificates(roots).with_no_client_auth()))
    }

    fn unreadable(path: &Path, error: impl std::error::Error + Send + Sync + 'static) -> Error {
        Error::new(Kind::Invalid, format!("read the certificates in {}", path.display()))
            .hint("Name a PEM file with the certificate of the authority that signed the server's.")
            .because(error)
    }
}

#[cfg(not(feature = "tls"))]
mod without {
    use std::path::Path;

    use bell_store::{Error, Kind, Result};

    pub(crate) use tokio_postgres::NoTls as Connector;

    /// An address that asks for encryption is refused, never used without.
    pub(crate) fn connector(_trusted: Option<&Path>) -> Result<Connector> {
        Err(Error::new(Kind::Unsupported, "open the store: it was built without TLS")
            .hint("Build it with the feature postgres-tls, or use a tunnel and drop sslmode=require."))
    }
}

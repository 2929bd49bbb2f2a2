//! Connections with TLS: whose certificate is trusted, and whose is not.

use std::path::Path;

use plica_pgserver::{Identity, Profile, Server, ServerError};
use plica_ports::Store as _;
use plica_ports::store::StoreError;
use plica_postgres::{OpenOptions, PostgresStore};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

/// Somebody who vouches for servers.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().expect("a key is made");
        let mut params = CertificateParams::new(Vec::new()).expect("a certificate without names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).expect("a root signs itself").pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// A certificate for a server of these names, and its key.
    fn vouch(&self, names: &[&str]) -> (String, String) {
        let key = KeyPair::generate().expect("a key is made");
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let params = CertificateParams::new(names).expect("names are names");
        (params.signed_by(&key, &self.issuer).expect("the root signs").pem(), key.serialize_pem())
    }

    /// A file with its own certificate.
    fn file(&self, folder: &TempDir, name: &str) -> String {
        let path = folder.path().join(name);
        std::fs::write(&path, &self.pem).expect("a file is written");
        path.display().to_string()
    }
}

/// A server with a certificate for these names.
fn server(authority: &Authority, names: &[&str]) -> Option<Server> {
    let (certificates, key) = authority.vouch(names);
    match Server::start_with_tls(Profile::Fast, Identity { certificates: &certificates, key: &key }) {
        Ok(server) => Some(server),
        Err(error @ ServerError::Missing) => {
            plica_pgserver::not_run(&error.to_string());
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// The store on the server, by this name of its host.
fn store(server: &Server, host: &str, parameters: &str) -> PostgresStore {
    let url = format!("postgres://postgres@{host}:{}/postgres?{parameters}", server.port());
    PostgresStore::open(&url, OpenOptions::default()).expect("a URL is a URL")
}

/// Connections of stores to the server, by whether they are encrypted.
async fn encrypted(server: &Server) -> Vec<bool> {
    let url = server.url();
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.expect("the server is there");
    tokio::spawn(connection);
    let sql = "SELECT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = 'plica'";
    let rows = client.query(sql, &[]).await.expect("the server tells");
    rows.iter().map(|row| row.get(0)).collect()
}

fn refused(answer: Result<impl std::fmt::Debug, StoreError>) -> String {
    match answer {
        Err(StoreError::Unusable(said)) => said,
        other => panic!("no certificate was refused: {other:?}"),
    }
}

/// Every spelling that asks for TLS gets it, with the root that is trusted, by name and by address;
/// what listens is encrypted too. Without TLS the same server is still reached by who says so.
#[tokio::test]
async fn a_server_that_a_trusted_root_vouches_for_is_believed() {
    let (authority, folder) = (Authority::new(), TempDir::new().expect("a folder"));
    let Some(server) = server(&authority, &["localhost", "127.0.0.1"]) else { return };
    let roots = authority.file(&folder, "roots.pem");
    for (host, mode) in [("localhost", "verify-full"), ("127.0.0.1", "verify-ca"), ("localhost", "require")] {
        let store = store(&server, host, &format!("sslmode={mode}&sslrootcert={roots}"));
        store.ledger().await.expect("the store is made");
        let waited = store.wait_claimable(&[], std::time::Duration::ZERO).await;
        waited.expect("the store is heard");
        let connections = encrypted(&server).await;
        assert!(!connections.is_empty() && connections.iter().all(|ssl| *ssl), "{host} {mode}: {connections:?}");
        let said = store.describe().await.expect("a store describes itself");
        assert!(said.contains(&("tls".into(), "verified".into())), "{said:?}");
    }
    let plain = store(&server, "localhost", "sslmode=disable&notify=off");
    assert!(plain.now().await.is_ok());
    assert!(encrypted(&server).await.contains(&false));
}

/// A root that is not the one to trust, and the system's, which know neither: refused for good,
/// with what can be done.
#[tokio::test]
async fn a_server_that_nobody_trusted_vouches_for_is_refused() {
    let (authority, other) = (Authority::new(), Authority::new());
    let folder = TempDir::new().expect("a folder");
    let Some(server) = server(&authority, &["localhost"]) else { return };
    let others = other.file(&folder, "others.pem");
    for parameters in [format!("sslmode=verify-full&sslrootcert={others}"), "sslmode=require".to_owned()] {
        let said = refused(store(&server, "localhost", &parameters).now().await);
        assert!(said.contains("certificate") && said.contains("sslrootcert=FILE"), "{said}");
    }
    // What does not connect writes nothing.
    let said =
        refused(store(&server, "localhost", &format!("sslmode=verify-full&sslrootcert={others}")).ledger().await);
    assert!(said.contains("certificate"), "{said}");
    assert_eq!(encrypted(&server).await, Vec::<bool>::new());
}

/// A certificate of somebody else, whoever vouches for it.
#[tokio::test]
async fn a_server_of_another_name_is_refused() {
    let (authority, folder) = (Authority::new(), TempDir::new().expect("a folder"));
    let Some(server) = server(&authority, &["db.example"]) else { return };
    let roots = authority.file(&folder, "roots.pem");
    assert!(Path::new(&roots).is_file());
    for mode in ["verify-full", "verify-ca", "require"] {
        for host in ["localhost", "127.0.0.1"] {
            let said = refused(store(&server, host, &format!("sslmode={mode}&sslrootcert={roots}")).now().await);
            assert!(said.contains("certificate"), "{host} {mode}: {said}");
        }
    }
}

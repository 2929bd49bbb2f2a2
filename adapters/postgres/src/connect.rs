//! Where the store is, and connections to it. Opening parses; nothing is connected to before it
//! is needed.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{Hook, Manager, ManagerConfig, Pool, QueueMode, RecyclingMethod, Runtime};
use plica_ports::store::StoreError;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt as _;
use tokio_postgres::config::{Config, Host, SslMode};
use tokio_postgres_rustls::MakeRustlsConnect;

/// The schema unless the URL names one.
const SCHEMA: &str = "plica";
/// Connections of one handle unless the URL says otherwise.
const POOL: usize = 8;
/// How long a connection may take to be made, and how long a call waits for one.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// After so long without an answer to what was sent a connection counts as broken.
const SILENCE_MAX: Duration = Duration::from_secs(20);
/// How often a silent connection is probed.
const PROBE_EVERY: Duration = Duration::from_secs(10);

/// How commits of others are heard of.
#[derive(Debug)]
pub(crate) enum Hearing {
    /// By polling alone.
    Off,
    /// By `LISTEN`, on a connection of its own.
    On(Box<Target>),
}

/// Whether statements are given names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Statements {
    /// On sessions that nobody else uses.
    Named,
    /// Never.
    Unnamed,
}

/// A server and how to talk to it.
#[derive(Clone)]
pub(crate) struct Target {
    config: Config,
    /// TLS, with a certificate that is verified; none: in the clear.
    tls: Option<MakeRustlsConnect>,
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target").field("tls", &self.tls.is_some()).finish_non_exhaustive()
    }
}

/// Where the store is.
#[derive(Debug)]
pub(crate) struct Place {
    target: Target,
    /// The schema's name: also that of the channel on which commits are made known.
    pub schema: String,
    pub hearing: Hearing,
    pub statements: Statements,
    connections: usize,
}

impl fmt::Display for Place {
    /// Whom one is connected to, without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let config = &self.target.config;
        let hosts = config.get_hosts().iter().map(|host| match host {
            Host::Tcp(name) => name.clone(),
            Host::Unix(path) => path.display().to_string(),
        });
        let hosts = hosts.collect::<Vec<_>>().join(",");
        write!(f, "postgres://{hosts}")?;
        if let Some(port) = config.get_ports().first() {
            write!(f, ":{port}")?;
        }
        let database = config.get_dbname().or(config.get_user()).unwrap_or_default();
        write!(f, "/{database} (schema {})", self.schema)
    }
}

fn unusable(why: impl Into<String>) -> StoreError {
    StoreError::Unusable(why.into())
}

impl Place {
    /// What a URL says. Its text may hold a password and is never shown.
    pub(crate) fn parse(url: &str) -> Result<Self, StoreError> {
        let mut parameters = Parameters::of(url);
        let schema = parameters.take("schema")?.unwrap_or_else(|| SCHEMA.to_owned());
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        if schema.is_empty() || schema.len() > 48 || !schema.chars().all(is_plain) || schema.starts_with("pg_") {
            return Err(unusable(format!("no name for a schema: {schema:?}; use a-z, 0-9 and _, at most 48")));
        }
        let connections = match parameters.take("pool")? {
            None => POOL,
            Some(text) => match text.parse() {
                Ok(number @ 1..=1000) => number,
                _ => return Err(unusable(format!("pool={text} is no number of connections; use 1 to 1000"))),
            },
        };
        let statements = match parameters.take("statements")?.as_deref() {
            None | Some("named") => Statements::Named,
            Some("unnamed") => Statements::Unnamed,
            Some(other) => return Err(unusable(format!("no such statements: {other}; use named or unnamed"))),
        };
        let notify = parameters.take("notify")?;
        let target = Target::parse(parameters)?;
        let hearing = match notify.as_deref() {
            Some("off") => Hearing::Off,
            Some(url) => Hearing::On(Box::new(Target::parse(Parameters::of(url))?)),
            None => Hearing::On(Box::new(target.clone())),
        };
        Ok(Self { target, schema, hearing, statements, connections })
    }

    /// A pool of connections; none is made yet. With a mark each begins by setting it, and the
    /// hook sees whether that was done.
    pub(crate) fn pool(&self, mark: Option<(&str, Hook)>) -> Result<Pool, StoreError> {
        let Target { mut config, tls } = self.target.clone();
        let hook = mark.map(|(mark, hook)| {
            let others = config.get_options().unwrap_or_default();
            let options = format!("{others} -c {mark}=own");
            config.options(options.trim_start());
            hook
        });
        let how = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = match tls {
            Some(tls) => Manager::from_config(config, tls, how),
            None => Manager::from_config(config, tokio_postgres::NoTls, how),
        };
        let mut pool = Pool::builder(manager);
        if let Some(hook) = hook {
            pool = pool.post_create(hook);
        }
        pool.max_size(self.connections)
            .runtime(Runtime::Tokio1)
            // The one used last: its server process has the functions' plans ready and in its cache.
            .queue_mode(QueueMode::Lifo)
            .wait_timeout(Some(CONNECT_TIMEOUT))
            .create_timeout(Some(CONNECT_TIMEOUT))
            .build()
            .map_err(|error| unusable(error.to_string()))
    }

    /// The text of a statement, with the schema's real name in it.
    pub(crate) fn sql(&self, text: &str) -> String {
        text.replace("plica.", &format!("\"{}\".", self.schema))
    }

    /// Whether connections to the store use TLS, in words.
    pub(crate) fn secrecy(&self) -> &'static str {
        if self.target.tls.is_some() { "verified" } else { "none" }
    }
}

impl Target {
    fn parse(mut parameters: Parameters) -> Result<Self, StoreError> {
        let mode = parameters.take("sslmode")?;
        let roots = parameters.take("sslrootcert")?;
        // What the error says is a parameter's name or what the URL lacks, never its password.
        let mut config = Config::from_str(&parameters.url())
            .map_err(|error| unusable(format!("no URL of a PostgreSQL database: {}", spelled_out(&error))))?;
        if config.get_hosts().is_empty() {
            return Err(unusable("the URL names no host; the form is postgres://USER@HOST/DATABASE"));
        }
        if config.get_application_name().is_none() {
            config.application_name("plica");
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIMEOUT);
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(SILENCE_MAX);
        }
        config.keepalives_idle(PROBE_EVERY).keepalives_interval(PROBE_EVERY).keepalives_retries(2);
        let verified = match mode.as_deref() {
            Some("disable") => false,
            Some("require" | "verify-ca" | "verify-full") => true,
            None | Some("prefer") => config.get_hosts().iter().any(|host| !is_here(host)),
            Some(other) => {
                return Err(unusable(format!("no such sslmode: {other}; use disable, require or verify-full")));
            }
        };
        config.ssl_mode(if verified { SslMode::Require } else { SslMode::Disable });
        let tls = if verified { Some(MakeRustlsConnect::new(tls(roots.as_deref())?)) } else { None };
        Ok(Self { config, tls })
    }

    /// A connection that listens: its client, and what has to be polled for its messages.
    pub(crate) async fn connect(&self) -> Result<(tokio_postgres::Client, Messages), tokio_postgres::Error> {
        Ok(match &self.tls {
            Some(tls) => {
                let (client, connection) = self.config.connect(tls.clone()).await?;
                (client, Messages::Tls(Box::new(connection)))
            }
            None => {
                let (client, connection) = self.config.connect(tokio_postgres::NoTls).await?;
                (client, Messages::Plain(Box::new(connection)))
            }
        })
    }
}

type Tls = <MakeRustlsConnect as tokio_postgres::tls::MakeTlsConnect<tokio_postgres::Socket>>::Stream;
type Plain = tokio_postgres::tls::NoTlsStream;

/// The driving end of a connection.
pub(crate) enum Messages {
    Tls(Box<tokio_postgres::Connection<tokio_postgres::Socket, Tls>>),
    Plain(Box<tokio_postgres::Connection<tokio_postgres::Socket, Plain>>),
}

impl Messages {
    /// The next message that nobody asked for; `None` when the connection has ended.
    pub(crate) async fn next(&mut self) -> Option<Result<tokio_postgres::AsyncMessage, tokio_postgres::Error>> {
        std::future::poll_fn(|context| match self {
            Self::Tls(connection) => connection.poll_message(context),
            Self::Plain(connection) => connection.poll_message(context),
        })
        .await
    }
}

/// Whether the host is this machine, so that nobody can listen in between.
fn is_here(host: &Host) -> bool {
    match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => name == "localhost" || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback()),
    }
}

/// TLS that trusts what the system trusts, or the certificates in a file.
fn tls(roots: Option<&str>) -> Result<ClientConfig, StoreError> {
    let failed = |error: &dyn fmt::Display| unusable(format!("TLS to the store cannot be set up: {error}"));
    let provider: Arc<CryptoProvider> = ring::default_provider().into();
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| failed(&error))?;
    let Some(file) = roots else {
        return Ok(builder.with_platform_verifier().map_err(|error| failed(&error))?.with_no_client_auth());
    };
    let mut trusted = RootCertStore::empty();
    let certificates = CertificateDer::pem_file_iter(file).map_err(|error| failed(&format!("{file}: {error}")))?;
    for certificate in certificates {
        let certificate = certificate.map_err(|error| failed(&format!("{file}: {error}")))?;
        trusted.add(certificate).map_err(|error| failed(&format!("{file}: {error}")))?;
    }
    if trusted.is_empty() {
        return Err(failed(&format!("{file} holds no certificate")));
    }
    Ok(builder.with_root_certificates(trusted).with_no_client_auth())
}

/// An error with what caused it.
pub(crate) fn spelled_out(error: &dyn std::error::Error) -> String {
    let mut said = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_said = inner.to_string();
        if !said.contains(&inner_said) {
            said.push_str(": ");
            said.push_str(&inner_said);
        }
        cause = inner.source();
    }
    said
}

/// A URL and its parameters, those that are not ours left to tokio-postgres.
struct Parameters {
    base: String,
    pairs: Vec<(String, String)>,
}

impl Parameters {
    fn of(url: &str) -> Self {
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let pairs = query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (name.to_owned(), value.to_owned())
        });
        Self { base: base.to_owned(), pairs: pairs.collect() }
    }

    /// Takes a parameter out, decoded.
    fn take(&mut self, name: &str) -> Result<Option<String>, StoreError> {
        let Some(at) = self.pairs.iter().position(|(known, _)| known == name) else { return Ok(None) };
        let (_, value) = self.pairs.remove(at);
        match decoded(&value) {
            Some(value) => Ok(Some(value)),
            None => Err(unusable(format!("the parameter {name} of the store's URL is not well encoded"))),
        }
    }

    fn url(&self) -> String {
        let pairs: Vec<_> = self.pairs.iter().map(|(name, value)| format!("{name}={value}")).collect();
        if pairs.is_empty() { self.base.clone() } else { format!("{}?{}", self.base, pairs.join("&")) }
    }
}

/// Takes percent-encoding away (RFC 3986, 2.1).
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        if first == b'%' {
            let digits = std::str::from_utf8(after.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = after.get(2..)?;
        } else {
            bytes.push(first);
            rest = after;
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests;

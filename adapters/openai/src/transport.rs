//! The way to a server: TLS, proxies, and what a client never does by itself.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use reqwest::{Client, NoProxy, Proxy, Url, redirect, retry};
use rustls::crypto::{CryptoProvider, ring};
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt;

use crate::{Environment, OpenAiError, Settings};

/// How the client names itself.
const USER_AGENT: &str = concat!("plica/", env!("CARGO_PKG_VERSION"));

/// A client for the server of these settings. It follows no redirect, so the key goes to no
/// other host, and sends nothing twice: tries are the engine's (MO-3).
pub(crate) fn client(settings: &Settings, environment: &Environment) -> Result<Client, OpenAiError> {
    let tls = if settings.url.scheme() == "https" { trusting()? } else { untrusting()? };
    client_with(settings, environment, tls)
}

fn client_with(settings: &Settings, environment: &Environment, tls: ClientConfig) -> Result<Client, OpenAiError> {
    let mut builder = Client::builder()
        .user_agent(USER_AGENT)
        .connect_timeout(settings.timeouts.connect)
        .redirect(redirect::Policy::none())
        .retry(retry::never())
        .referer(false)
        // Only what the resolver says counts, not this process's environment.
        .no_proxy()
        .tls_backend_preconfigured(tls);
    if let Some(proxy) = proxy(&settings.url, environment)? {
        builder = builder.proxy(proxy);
    }
    // The error of a builder names no address and no header.
    builder.build().map_err(|error| OpenAiError::Client(error.to_string()))
}

/// TLS that trusts what the system trusts. Its certificates are read once, and only when they
/// are needed: a container with a local model may have none.
fn trusting() -> Result<ClientConfig, OpenAiError> {
    static TRUSTING: OnceLock<ClientConfig> = OnceLock::new();
    if let Some(trusting) = TRUSTING.get() {
        return Ok(trusting.clone());
    }
    let trusting = versions()?.with_platform_verifier().map_err(|error| OpenAiError::Tls(error.to_string()))?;
    Ok(TRUSTING.get_or_init(|| trusting.with_no_client_auth()).clone())
}

/// TLS that trusts nobody, for addresses that need none: without any, reqwest would want a
/// provider that counts for the whole process.
fn untrusting() -> Result<ClientConfig, OpenAiError> {
    Ok(versions()?.with_root_certificates(RootCertStore::empty()).with_no_client_auth())
}

fn versions() -> Result<rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier>, OpenAiError> {
    let provider: Arc<CryptoProvider> = ring::default_provider().into();
    ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| OpenAiError::Tls(error.to_string()))
}

/// The proxy that the variables known to every tool name. Never one for this machine itself,
/// where local models run.
fn proxy(url: &Url, environment: &Environment) -> Result<Option<Proxy>, OpenAiError> {
    if is_here(url) {
        return Ok(None);
    }
    let variables = match url.scheme() {
        "https" => ["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"],
        _ => ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"],
    };
    let set = |name: &'static str| environment(name).filter(|value| !value.is_empty()).map(|value| (name, value));
    let Some((variable, address)) = variables.into_iter().find_map(set) else { return Ok(None) };
    // Its address may hold a password and is not shown.
    let proxy = Proxy::all(address).map_err(|_| OpenAiError::Proxy { variable })?;
    let except = ["no_proxy", "NO_PROXY"].into_iter().find_map(set);
    Ok(Some(proxy.no_proxy(except.and_then(|(_, hosts)| NoProxy::from_string(&hosts)))))
}

fn is_here(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use plica_ports::ModelErrorKind;
    use tokio::net::TcpListener;

    use super::*;
    use crate::failure::Asked;
    use crate::secret::Secrets;

    /// MO-3: a server that takes the connection and never answers TLS's first message is given
    /// up after the wait for a connection.
    #[tokio::test]
    async fn mo_3_a_connection_that_does_not_come_about_times_out() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let base_url = format!("https://{}/v1", listener.local_addr().unwrap());
        let options: BTreeMap<String, String> = [("base_url".to_owned(), base_url)].into();
        let mut settings = Settings::of("openai-compatible", &options).unwrap();
        settings.timeouts.connect = Duration::from_millis(50);
        let environment: Environment = Arc::new(|_| None);
        let client = client_with(&settings, &environment, untrusting().unwrap()).unwrap();
        let error = client.post(settings.url.clone()).send().await.unwrap_err();
        let asked = Asked { host: settings.host(), key_variable: None, secrets: Secrets::default() };
        let error = asked.transport(&error, settings.timeouts.connect);
        assert_eq!(error.kind, ModelErrorKind::Timeout);
        assert!(error.message.contains("could not be connected to within 50ms"), "{error}");
    }

    #[test]
    fn proxies_come_from_the_resolver_and_never_for_this_machine() {
        let given = |variables: &'static [(&str, &str)], url: &str| {
            let environment: Environment = Arc::new(move |name| {
                variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
            });
            proxy(&Url::parse(url).unwrap(), &environment).map(|proxy| proxy.is_some())
        };
        let both = &[("https_proxy", "http://p:1"), ("HTTP_PROXY", "http://p:1")];
        assert!(given(both, "https://h/").unwrap());
        assert!(given(both, "http://h/").unwrap());
        for here in ["http://localhost:1/", "http://127.0.0.1/", "http://[::1]:1/"] {
            assert!(!given(both, here).unwrap());
        }
        assert!(!given(&[("http_proxy", "http://p:1")], "https://h/").unwrap());
        assert!(given(&[("ALL_PROXY", "http://p:1"), ("https_proxy", "")], "https://h/").unwrap());
        let error = given(&[("https_proxy", "http://user:secret@ /")], "https://h/").unwrap_err().to_string();
        assert!(error.contains("https_proxy") && !error.contains("secret"), "{error}");
    }
}

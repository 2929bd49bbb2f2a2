use super::*;

const KEY: &str = "sk-canary-0123456789abcdef";

fn asked() -> Asked {
    let mut secrets = Secrets::default();
    secrets.add(KEY);
    Asked { host: "h:1".into(), key_variable: Some("MY_KEY".into()), secrets }
}

fn status(status: u16, body: &str) -> ModelError {
    asked().status(StatusCode::from_u16(status).unwrap(), &HeaderMap::new(), body.as_bytes())
}

#[test]
fn mo_3_a_status_and_its_body_are_one_kind_and_the_servers_words() {
    use ModelErrorKind::*;
    for (code, body, kind, message) in [
        (429, r#"{"error":{"message":"slow down"}}"#, RateLimited, "h:1 answered 429 Too Many Requests: slow down"),
        (
            429,
            r#"{"error":{"code":"insufficient_quota","message":"pay"}}"#,
            Invalid,
            "h:1 answered 429 Too Many Requests: pay",
        ),
        (402, r#"{"error":{"message":"pay","code":402}}"#, Invalid, "h:1 answered 402 Payment Required: pay"),
        (500, "", Overloaded, "h:1 answered 500 Internal Server Error"),
        (
            503,
            r#"{"error":{"message":"Loading model"}}"#,
            Overloaded,
            "h:1 answered 503 Service Unavailable: Loading model",
        ),
        (529, "busy", Overloaded, "h:1 answered 529 <unknown status code>: busy"),
        (504, "", Timeout, "h:1 answered 504 Gateway Timeout"),
        (408, "", Timeout, "h:1 answered 408 Request Timeout"),
        (413, "", ContextOverflow, "h:1 answered 413 Payload Too Large"),
        (
            400,
            r#"{"error":{"message":"bad","type":"invalid_request_error"}}"#,
            Invalid,
            "h:1 answered 400 Bad Request: bad",
        ),
        (
            400,
            r#"{"error":{"message":"too long","code":"context_length_exceeded"}}"#,
            ContextOverflow,
            "h:1 answered 400 Bad Request: too long",
        ),
        (
            500,
            r#"{"error":"the input length exceeds the context length"}"#,
            ContextOverflow,
            "h:1 answered 500 Internal Server Error: the input length exceeds the context length",
        ),
        (404, r#"{"error":"model \"x\" not found"}"#, Invalid, "h:1 answered 404 Not Found: model \"x\" not found"),
        (
            422,
            r#"{"detail":[{"msg":"field required"}]}"#,
            Invalid,
            r#"h:1 answered 422 Unprocessable Entity: [{"msg":"field required"}]"#,
        ),
        (
            400,
            r#"[{"error":{"code":400,"message":"in a list","status":"INVALID_ARGUMENT"}}]"#,
            Invalid,
            "h:1 answered 400 Bad Request: in a list",
        ),
        (400, r#"{"object":"error","message":"old shape"}"#, Invalid, "h:1 answered 400 Bad Request: old shape"),
        (
            502,
            r#"{"error":{"message":"Provider returned error","metadata":{"raw":"upstream"}}}"#,
            Overloaded,
            "h:1 answered 502 Bad Gateway: Provider returned error: upstream",
        ),
        (
            502,
            "<html>…</html>",
            Overloaded,
            "h:1 answered 502 Bad Gateway: a page instead of JSON; is `base_url` right?",
        ),
        (
            403,
            r#"{"error":{"message":"not in your country"}}"#,
            Auth,
            "h:1 answered 403 Forbidden: not in your country",
        ),
    ] {
        let error = status(code, body);
        assert_eq!((error.kind, error.message.as_str()), (kind, message));
    }
}

#[test]
fn mo_3_a_refused_key_is_named_by_its_variable_and_by_nothing_else() {
    for (code, body) in [
        (401, format!(r#"{{"error":{{"message":"Incorrect API key provided: sk-ca**{}"}}}}"#, &KEY[20..])),
        (400, format!(r#"{{"error":{{"message":"API key not valid: {KEY}"}}}}"#)),
    ] {
        let error = status(code, &body);
        assert_eq!(error.kind, ModelErrorKind::Auth);
        assert!(error.message.contains("MY_KEY") && !error.message.contains("sk-ca"), "{error}");
    }
    let keyless = Asked { key_variable: None, ..asked() };
    let error = keyless.status(StatusCode::UNAUTHORIZED, &HeaderMap::new(), b"");
    assert!(error.message.contains("`api_key_env`"), "{error}");
    assert!(asked().no_key("MY_KEY", "is not set").message.contains("MY_KEY is not set"));
    for body in [format!("you sent {KEY}"), format!("you sent {}", &KEY[9..])] {
        assert!(status(500, &body).message.ends_with(": you sent [redacted]"));
    }
}

#[test]
fn mo_3_words_are_cut_and_headers_are_told() {
    let error = status(500, &"é".repeat(1_000));
    assert!(error.message.len() < 600 && error.message.ends_with('é'), "{error}");
    let headers = [
        (REQUEST_ID, "req_1".parse().unwrap()),
        (LOCATION, "https://elsewhere/v1?token=x".parse().unwrap()),
        (reqwest::header::RETRY_AFTER, "3".parse().unwrap()),
    ];
    let error = asked().status(StatusCode::FOUND, &headers.into_iter().collect(), b"");
    assert_eq!((error.kind, error.retry_after), (ModelErrorKind::Invalid, Some(Duration::from_secs(3))));
    assert!(error.message.contains("to https://elsewhere/v1, and") && error.message.contains("req_1"), "{error}");
}

#[test]
fn mo_3_an_error_inside_a_stream_has_its_kind() {
    use ModelErrorKind::*;
    for (json, kind) in [
        (r#"{"code":429,"message":"slow"}"#, RateLimited),
        (r#"{"code":"502","message":"upstream"}"#, Overloaded),
        (r#"{"code":"rate_limit_exceeded","message":"slow"}"#, RateLimited),
        (r#"{"type":"invalid_request_error","message":"bad"}"#, Invalid),
        (r#"{"type":"exceed_context_size_error","message":"x"}"#, ContextOverflow),
        (r#"{"type":"authentication_error","message":"x"}"#, Auth),
        (r#"{"type":"server_error"}"#, Overloaded),
        (r#""boom""#, Overloaded),
        ("{}", Overloaded),
    ] {
        let error = asked().in_stream(serde_json::from_str(json).unwrap());
        assert_eq!(error.kind, kind, "{json}");
    }
    let error = asked().in_stream(serde_json::from_str(r#"{"code":500,"message":"boom"}"#).unwrap());
    assert_eq!(error.message, "h:1 failed in the middle of its reply: boom");
}

#[test]
fn mo_3_a_certificate_that_is_refused_stays_refused() {
    let refused = rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer);
    assert!(is_untrusted(&io::Error::other(io::Error::other(refused))));
    assert!(!is_untrusted(&io::Error::other(rustls::Error::HandshakeNotComplete)));
    assert!(!is_untrusted(&io::Error::from(io::ErrorKind::ConnectionRefused)));
}

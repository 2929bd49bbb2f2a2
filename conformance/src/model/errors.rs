//! What comes back when the provider refuses or fails.

use std::time::Duration;

use plica_ports::{ModelError, ModelErrorKind};

use super::server::{Act, Exchange, Server, response};
use super::{KEY, KEY_VARIABLE, ModelSubject, ask, question};

fn exchange(status: u16, headers: &[(&str, &str)], body: &str) -> Exchange {
    let json = [&[("content-type", "application/json")][..], headers].concat();
    vec![Act::Send(response(status, &json, body))]
}

/// The error that this answer is, asked for once.
async fn error(subject: &ModelSubject, exchange: Exchange) -> ModelError {
    // A second try would find a reply that is no error of this kind.
    let server = Server::start([exchange, vec![Act::Hang]]).await;
    let error = ask(&*subject.model(&server), &question()).await.error();
    assert_eq!(server.received().len(), 1, "nothing is asked twice");
    error
}

/// MO-3: too many requests come with the wait that the provider asks for, in seconds or as a
/// date by its own clock.
pub async fn mo_3_too_many_requests_say_how_long_to_wait(subject: ModelSubject) {
    let date = ("date", "Sun, 06 Nov 1994 08:49:37 GMT");
    for (headers, wait) in [
        (vec![], None),
        (vec![("retry-after", "7")], Some(7)),
        (vec![date, ("retry-after", "Sun, 06 Nov 1994 08:50:07 GMT")], Some(30)),
        (vec![date, ("retry-after", "Sun, 06 Nov 1994 08:00:00 GMT")], Some(0)),
        (vec![("retry-after", "whenever")], None),
    ] {
        let body = subject.protocol().error("slow down");
        let error = error(&subject, exchange(429, &headers, &body)).await;
        assert_eq!((error.kind, error.retry_after), (ModelErrorKind::RateLimited, wait.map(Duration::from_secs)));
        assert!(error.kind.is_retryable() && error.message.contains("slow down"), "{error}");
    }
}

/// MO-3: a provider that is overloaded or fails inside is worth another try, with the wait
/// that it asks for.
pub async fn mo_3_a_provider_that_fails_is_overloaded(subject: ModelSubject) {
    for (status, body) in [
        (500, subject.protocol().error("oops")),
        (502, "<html>oops</html>".to_owned()),
        (503, "oops".to_owned()),
        (529, String::new()),
    ] {
        let error = error(&subject, exchange(status, &[("retry-after", "3")], &body)).await;
        assert_eq!((error.kind, error.retry_after), (ModelErrorKind::Overloaded, Some(Duration::from_secs(3))));
        assert!(error.message.contains(&status.to_string()), "{error}");
    }
    let timed_out = error(&subject, exchange(504, &[], "")).await;
    assert_eq!(timed_out.kind, ModelErrorKind::Timeout);
}

/// MO-3: what is wrong with the request itself is told in the provider's words, and not to be
/// tried again.
pub async fn mo_3_a_request_that_is_wrong_stays_wrong(subject: ModelSubject) {
    for status in [400, 404, 422] {
        let body = subject.protocol().error("model not found");
        let error = error(&subject, exchange(status, &[], &body)).await;
        assert_eq!(error.kind, ModelErrorKind::Invalid);
        assert!(!error.kind.is_retryable() && error.message.contains("model not found"), "{error}");
    }
    // A long answer is cut, not stored.
    let long = error(&subject, exchange(400, &[], &subject.protocol().error(&"é".repeat(100_000)))).await;
    assert!(long.message.len() < 2_000);
}

/// MO-3: a conversation that no longer fits is known in every spelling.
pub async fn mo_3_an_overflow_is_known_in_every_spelling(subject: ModelSubject) {
    for (status, body) in subject.protocol().overflows() {
        let error = error(&subject, exchange(status, &[], &body)).await;
        assert_eq!(error.kind, ModelErrorKind::ContextOverflow, "{body}");
    }
}

/// MO-3: a key that is refused is named by the variable that it was read from.
pub async fn mo_3_a_refused_key_is_named_by_its_variable(subject: ModelSubject) {
    let masked = format!("incorrect key provided: {}***{}", &KEY[..7], &KEY[KEY.len() - 4..]);
    let error = error(&subject, exchange(401, &[], &subject.protocol().error(&masked))).await;
    assert_eq!(error.kind, ModelErrorKind::Auth);
    assert!(!error.kind.is_retryable() && error.message.contains(KEY_VARIABLE), "{error}");
    assert!(!error.message.contains(&KEY[..7]), "{error}");
}

/// MO-3: whatever a provider repeats of the key, no error does; [`ask`] looks for it.
pub async fn mo_3_no_error_repeats_the_key(subject: ModelSubject) {
    for status in [400, 401, 403, 404, 429, 500, 503] {
        for said in [KEY.to_owned(), format!("bearer {}", &KEY[4..]), format!("{}…", &KEY[..16])] {
            for body in [subject.protocol().error(&said), said.clone()] {
                let headers = [("x-request-id", KEY), ("request-id", KEY)];
                error(&subject, exchange(status, &headers, &body)).await;
            }
        }
    }
    let begun = subject.protocol().failure(&format!("the key {KEY} is odd"));
    error(&subject, super::replies::events(&[begun])).await;
}

/// MO-3: a redirect is refused, so neither the key nor the conversation goes to another host.
pub async fn mo_3_a_redirect_is_refused(subject: ModelSubject) {
    let elsewhere = Server::start([]).await;
    for status in [301, 302, 303, 307, 308] {
        let to = format!("{}/{KEY}", elsewhere.base_url());
        let error = error(&subject, exchange(status, &[("location", &to)], "")).await;
        assert_eq!(error.kind, ModelErrorKind::Invalid, "{error}");
    }
    assert_eq!(elsewhere.received(), []);
}

/// MO-3: a server that is not there is worth another try, and the message says where it was
/// looked for.
pub async fn mo_3_a_server_that_is_not_there_is_named(subject: ModelSubject) {
    let server = Server::start([]).await;
    let (model, base_url) = (subject.model(&server), server.base_url());
    server.stop().await;
    let error = ask(&*model, &question()).await.error();
    assert_eq!(error.kind, ModelErrorKind::Network);
    let host = base_url.trim_start_matches("http://").trim_end_matches("/v1");
    assert!(error.message.contains(host), "{error}");
}

//! Servers that say nothing, or never stop, and clients that go away.

use std::sync::Arc;
use std::time::Duration;

use plica_ports::{Delta, DeltaSink, ModelErrorKind};
use tokio::sync::Notify;

use super::server::{Act, Framing, Server, stream_head, stream_piece};
use super::{ModelSubject, Said, ask, question};

/// How long the adapter under test is patient; any wait at all proves the same.
const SOON: Duration = Duration::from_millis(50);
const FRAMING: Framing = Framing::Chunked;

/// The beginning of a stream: its first event.
fn begun(subject: &ModelSubject) -> Act {
    let said = Said { text: vec!["first", "second"], ..Said::default() };
    // As many events as it takes to say something.
    let events = subject.protocol().events(&said);
    let first = events.iter().position(|event| event.contains("first")).expect("the text is sent as it is");
    Act::Send([stream_head(FRAMING), stream_piece(FRAMING, events[..=first].concat().as_bytes())].concat())
}

/// MO-3: a server that takes the request and says nothing, or nothing more, times out, and
/// its connection is closed.
pub async fn mo_3_a_silent_server_times_out(subject: ModelSubject) {
    for acts in [vec![], vec![Act::Send(stream_head(FRAMING))], vec![begun(&subject)]] {
        let server = Server::start([[acts, vec![Act::Hang]].concat()]).await;
        let model = subject.model_with(&server, |setup| (setup.first_byte, setup.idle) = (SOON, SOON));
        let error = ask(&*model, &question()).await.error();
        assert_eq!(error.kind, ModelErrorKind::Timeout, "{error}");
        assert!(error.kind.is_retryable());
        server.client_gone().await;
    }
}

/// MO-3: a server that only keeps its stream alive times out as a whole.
pub async fn mo_3_a_stream_that_never_ends_times_out(subject: ModelSubject) {
    let alive = Act::Repeat(stream_piece(FRAMING, b": alive\n\n"), SOON / 10);
    let server = Server::start([vec![begun(&subject), alive]]).await;
    let model = subject.model_with(&server, |setup| setup.total = 4 * SOON);
    let error = ask(&*model, &question()).await.error();
    assert_eq!(error.kind, ModelErrorKind::Timeout, "{error}");
    server.client_gone().await;
}

struct First(Notify);

impl DeltaSink for First {
    fn delta(&self, _: Delta) {
        self.0.notify_one();
    }
}

/// MO-3: dropping the request closes its connection, so the provider stops working for
/// nobody.
pub async fn mo_3_dropping_the_request_closes_it(subject: ModelSubject) {
    let server = Server::start([vec![begun(&subject), Act::Hang]]).await;
    let model = subject.model(&server);
    let first = Arc::new(First(Notify::new()));
    let asking = {
        let first = first.clone();
        tokio::spawn(async move { model.ask(&question(), &*first).await })
    };
    first.0.notified().await;
    asking.abort();
    server.client_gone().await;
    assert!(asking.await.is_err_and(|error| error.is_cancelled()));
}

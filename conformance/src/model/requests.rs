//! What goes out.

use plica_ports::{ModelRequest, RequestMessage};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

use super::replies::events;
use super::server::{Exchange, Received, Server};
use super::{KEY, ModelSubject, Said, Told, ask, conversation, question};

/// How many conversations are tried.
const CONVERSATIONS: usize = 128;

/// An exchange for any request.
fn plain(subject: &ModelSubject) -> Exchange {
    events(&subject.protocol().events(&Said { text: vec!["ok"], ..Said::default() }))
}

/// Any conversations, the same ones at every run.
fn conversations() -> Vec<ModelRequest> {
    let mut runner = TestRunner::deterministic();
    let mut next = || conversation().new_tree(&mut runner).map(|tree| tree.current());
    (0..CONVERSATIONS).map(|_| next().expect("a conversation can be made")).collect()
}

/// The requests that a model of its own sends for each of these.
async fn sent(subject: &ModelSubject, requests: &[ModelRequest]) -> Vec<Received> {
    let server = Server::start(requests.iter().map(|_| plain(subject))).await;
    let model = subject.model(&server);
    for request in requests {
        ask(&*model, request).await.reply();
    }
    server.received()
}

/// MO-2: the same request is the same bytes, whoever sends it and on whichever attempt.
pub async fn mo_2_the_same_request_is_the_same_bytes(subject: ModelSubject) {
    let requests = conversations();
    let retried: Vec<ModelRequest> =
        requests.iter().map(|request| ModelRequest { attempt: 2, ..request.clone() }).collect();
    let (first, second) = (sent(&subject, &requests).await, sent(&subject, &retried).await);
    for (first, second) in first.iter().zip(&second) {
        assert_eq!(String::from_utf8_lossy(&first.body), String::from_utf8_lossy(&second.body));
    }
    assert_eq!((first.len(), second.len()), (requests.len(), requests.len()));
}

/// MO-2: what a provider was told does not change as the conversation grows, so it finds the
/// beginning in its cache.
pub async fn mo_2_a_conversation_only_grows_at_its_end(subject: ModelSubject) {
    for whole in conversations().into_iter().take(CONVERSATIONS / 4) {
        // A conversation may be sent whenever the model's turn is next: before it speaks.
        let speaks = |message: &RequestMessage| matches!(message, RequestMessage::Assistant { .. });
        let ends = (1..whole.messages.len()).filter(|end| speaks(&whole.messages[*end]));
        let mut growing: Vec<ModelRequest> =
            ends.map(|end| ModelRequest { messages: whole.messages[..end].to_vec(), ..whole.clone() }).collect();
        growing.push(whole);
        let told: Vec<Vec<Told>> = sent(&subject, &growing).await.iter().map(|sent| read(&subject, sent)).collect();
        for pair in told.windows(2) {
            assert!(is_beginning(&pair[0], &pair[1]), "{:?}\nis not the beginning of\n{:?}", pair[0], pair[1]);
        }
    }
}

/// Whether `whole` goes on where `part` ends; what is said from outside may go on inside its
/// last message, when the model said nothing in between that a provider can be told.
fn is_beginning(part: &[Told], whole: &[Told]) -> bool {
    let Some((last, before)) = part.split_last() else { return true };
    let goes_on = match (last, whole.get(before.len())) {
        (Told::Input(part), Some(Told::Input(whole))) => whole.starts_with(part.as_str()),
        (part, whole) => Some(part) == whole,
    };
    whole.starts_with(before) && goes_on
}

/// MO-3: the key goes to the provider, in a header and nowhere else.
pub async fn mo_3_the_key_goes_to_the_provider(subject: ModelSubject) {
    let sent = sent(&subject, &[question()]).await.remove(0);
    assert_eq!(sent.headers.iter().filter(|(_, value)| value.contains(KEY)).count(), 1);
    assert!(!sent.target.contains(KEY) && !String::from_utf8_lossy(&sent.body).contains(KEY));
}

fn read(subject: &ModelSubject, sent: &Received) -> Vec<Told> {
    let body = String::from_utf8_lossy(&sent.body);
    subject.protocol().read(sent).unwrap_or_else(|rule| panic!("{rule}\n{body}"))
}

/// TO-4: whatever a conversation holds, the request is one that the strictest provider takes:
/// each call is answered exactly once, in order, right after it. Nothing that was said is
/// lost, told twice, or told in another order.
pub async fn to_4_every_request_is_valid(subject: ModelSubject) {
    let requests = conversations();
    for (request, sent) in requests.iter().zip(sent(&subject, &requests).await) {
        let told = read(&subject, &sent);
        let mut calls: Vec<&str> = Vec::new();
        let mut text = String::new();
        for told in &told {
            match told {
                Told::Input(said) => text.push_str(said),
                Told::Output { text: said, calls: made } => {
                    assert_eq!(calls, [""; 0], "calls without a result");
                    calls = made.iter().map(|(id, ..)| id.as_str()).collect();
                    text.push_str(said);
                }
                Told::Result { id, text: said } => {
                    assert!(!calls.is_empty() && calls.remove(0) == id, "a result out of order");
                    text.push_str(said);
                }
            }
        }
        assert_eq!(calls, [""; 0], "calls without a result");
        let marks: Vec<usize> =
            text.split('«').skip(1).filter_map(|rest| rest.split('»').next()?.parse().ok()).collect();
        let expected: Vec<usize> = (0..marks_of(request)).collect();
        assert_eq!(marks, expected, "{}", String::from_utf8_lossy(&sent.body));
    }
}

/// How many marks a conversation holds.
fn marks_of(request: &ModelRequest) -> usize {
    format!("{:?}", request.messages).matches('«').count()
}

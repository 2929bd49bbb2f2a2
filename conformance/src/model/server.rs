//! A provider made of a script: a loopback HTTP/1.1 server that answers each request with the
//! next exchange, byte for byte, and can be cut, slow, silent or endless.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// A request as it came in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    /// Method and target.
    pub target: String,
    /// Names in lower case, and values.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

/// One thing that the server does once it has read a request.
#[derive(Debug, Clone)]
pub enum Act {
    /// Sends bytes.
    Send(Vec<u8>),
    /// Sends the same bytes again and again, with a pause between, until the client is gone.
    Repeat(Vec<u8>, Duration),
    /// Does nothing until the client is gone.
    Hang,
}

/// What the server does for one request; then it closes the connection.
pub type Exchange = Vec<Act>;

/// A server; it ends when this is dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    received: Arc<Mutex<Vec<Received>>>,
    /// Clients that went away before the server was done with them.
    gone: watch::Receiver<usize>,
    task: JoinHandle<()>,
}

impl Server {
    /// A server that answers the n-th request with the n-th exchange, and any further one by
    /// closing the connection.
    ///
    /// # Panics
    /// When this machine has no loopback port to give.
    pub async fn start(exchanges: impl IntoIterator<Item = Exchange>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a test machine has a free loopback port");
        let address = listener.local_addr().expect("a bound listener has an address");
        let exchanges: Arc<Mutex<VecDeque<Exchange>>> = Arc::new(Mutex::new(exchanges.into_iter().collect()));
        let received = Arc::new(Mutex::new(Vec::new()));
        let (gone_sender, gone) = watch::channel(0);
        let log = received.clone();
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (exchanges, log, gone) = (exchanges.clone(), log.clone(), gone_sender.clone());
                connections.spawn(async move {
                    if serve(stream, &exchanges, &log).await.is_none() {
                        gone.send_modify(|gone| *gone += 1);
                    }
                });
            }
        });
        Self { address, received, gone, task }
    }

    /// The address that a provider's paths begin with.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// The requests so far, in the order they came in.
    pub fn received(&self) -> Vec<Received> {
        lock(&self.received).clone()
    }

    /// Ends the server and waits until its port is closed.
    ///
    /// # Panics
    /// Never: a task that was stopped on purpose ends as cancelled.
    pub async fn stop(mut self) {
        self.task.abort();
        let ended = (&mut self.task).await;
        assert!(ended.is_err_and(|error| error.is_cancelled()));
    }

    /// Waits until a client has gone away before the server was done with it.
    pub async fn client_gone(&self) {
        let mut gone = self.gone.clone();
        // The sender lives as long as the server's task, which lives as long as this.
        gone.wait_for(|gone| *gone > 0).await.expect("the server runs");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads one request and does its exchange; `None` when the client went away before the end.
async fn serve(mut stream: TcpStream, exchanges: &Mutex<VecDeque<Exchange>>, log: &Mutex<Vec<Received>>) -> Option<()> {
    let request = read(&mut stream).await?;
    lock(log).push(request);
    let acts = lock(exchanges).pop_front().unwrap_or_default();
    for act in acts {
        match act {
            Act::Send(bytes) => stream.write_all(&bytes).await.ok()?,
            Act::Repeat(bytes, pause) => loop {
                stream.write_all(&bytes).await.ok()?;
                tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    () = gone(&mut stream) => return None,
                }
            },
            Act::Hang => {
                gone(&mut stream).await;
                return None;
            }
        }
    }
    stream.shutdown().await.ok()
}

/// Waits until the client closes its side.
async fn gone(stream: &mut TcpStream) {
    let mut rest = [0; 1024];
    while stream.read(&mut rest).await.is_ok_and(|count| count > 0) {}
}

async fn read(stream: &mut TcpStream) -> Option<Received> {
    let mut bytes = Vec::new();
    let head_end = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8_lossy(&bytes[..head_end]).into_owned();
    let mut lines = head.split("\r\n");
    let target = lines.next()?.trim_end_matches(" HTTP/1.1").to_owned();
    let header = |line: &str| line.split_once(':').map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()));
    let headers: Vec<(String, String)> = lines.filter_map(header).collect();
    let length = headers.iter().find(|(name, _)| name == "content-length").and_then(|(_, value)| value.parse().ok());
    let mut body = bytes.split_off(head_end + 4);
    while body.len() < length.unwrap_or(0) {
        if stream.read_buf(&mut body).await.ok()? == 0 {
            return None;
        }
    }
    Some(Received { target, headers, body })
}

/// The bytes of a whole response with these headers and this body.
pub fn response(status: u16, headers: &[(&str, &str)], body: &str) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {status} Scripted\r\ncontent-length: {}\r\nconnection: close\r\n", body.len());
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    format!("{head}\r\n{body}").into_bytes()
}

/// How the end of a stream's body is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// By chunks, the last of which is empty.
    Chunked,
    /// By the end of the connection alone.
    Closed,
}

/// The bytes of a stream of events that comes in these pieces.
pub fn stream(framing: Framing, pieces: &[&[u8]]) -> Vec<u8> {
    let mut bytes = stream_head(framing);
    for piece in pieces {
        bytes.extend(stream_piece(framing, piece));
    }
    if framing == Framing::Chunked {
        bytes.extend_from_slice(b"0\r\n\r\n");
    }
    bytes
}

/// What stands before a stream of events.
pub fn stream_head(framing: Framing) -> Vec<u8> {
    let framing = match framing {
        Framing::Chunked => "transfer-encoding: chunked\r\n",
        Framing::Closed => "",
    };
    // The server says that it closes: a client that kept the connection might meet the close with its
    // next request.
    let head = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: text/event-stream; charset=utf-8\r\n";
    format!("{head}{framing}\r\n").into_bytes()
}

/// One piece of a stream of events.
pub fn stream_piece(framing: Framing, piece: &[u8]) -> Vec<u8> {
    match framing {
        Framing::Chunked => [format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat(),
        Framing::Closed => piece.to_owned(),
    }
}

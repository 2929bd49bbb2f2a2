//! A proxy between the workers and the server, which cuts connections in the middle of what goes
//! over them: of a request, which the server then does not carry out, or of an answer, whose
//! request it has carried out: the commit is there, and nobody knows.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// From a worker to the server.
    There,
    /// From the server to a worker.
    Back,
}

/// Bytes that may still pass: to the server, and back.
#[derive(Debug)]
struct Budget {
    there: AtomicI64,
    back: AtomicI64,
    is_over: AtomicBool,
}

impl Budget {
    fn left(&self, way: Way) -> &AtomicI64 {
        match way {
            Way::There => &self.there,
            Way::Back => &self.back,
        }
    }
}

/// How many connections were cut while something went over them.
#[derive(Debug, Default)]
struct Cuts {
    there: AtomicUsize,
    back: AtomicUsize,
}

/// The proxy's handle.
#[derive(Debug, Clone)]
pub struct Proxy {
    port: u16,
    connections: Arc<Mutex<Vec<Arc<Budget>>>>,
    is_closed: Arc<AtomicBool>,
    cuts: Arc<Cuts>,
}

impl Proxy {
    /// Listens on a free port of this machine for whoever wants the server on another.
    pub fn start(server: u16) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let proxy = Self {
            port: listener.local_addr()?.port(),
            connections: Arc::default(),
            is_closed: Arc::new(AtomicBool::new(false)),
            cuts: Arc::default(),
        };
        let handle = proxy.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // One that cannot be connected is closed, as by a server that is away.
                let _ = handle.connect(client, server);
            }
        });
        Ok(proxy)
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Cuts every second connection after so many more bytes in this direction.
    pub fn cut(&self, way: Way, bytes: u64) {
        let mut connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        connections.retain(|budget| !budget.is_over.load(Ordering::Acquire));
        for budget in connections.iter().step_by(2) {
            budget.left(way).store(i64::try_from(bytes).unwrap_or(0), Ordering::Release);
        }
    }

    /// How many connections were cut in the middle of something that went this way.
    pub fn cuts(&self, way: Way) -> usize {
        let count = match way {
            Way::There => &self.cuts.there,
            Way::Back => &self.cuts.back,
        };
        count.load(Ordering::Acquire)
    }

    /// Closes the way to the server, or opens it again.
    pub fn close(&self, is_closed: bool) {
        self.is_closed.store(is_closed, Ordering::Release);
        if is_closed {
            let connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
            for budget in connections.iter() {
                budget.there.store(0, Ordering::Release);
                budget.back.store(0, Ordering::Release);
            }
        }
    }

    fn connect(&self, client: TcpStream, server: u16) -> io::Result<()> {
        if self.is_closed.load(Ordering::Acquire) {
            return client.shutdown(Shutdown::Both);
        }
        let server = TcpStream::connect(("127.0.0.1", server))?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let budget = Arc::new(Budget {
            there: AtomicI64::new(i64::MAX),
            back: AtomicI64::new(i64::MAX),
            is_over: AtomicBool::new(false),
        });
        self.connections.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&budget));
        for way in [Way::There, Way::Back] {
            let (from, to) = if way == Way::There { (&client, &server) } else { (&server, &client) };
            let (from, to, budget) = (from.try_clone()?, to.try_clone()?, Arc::clone(&budget));
            let (closed, cuts) = (Arc::clone(&self.is_closed), Arc::clone(&self.cuts));
            std::thread::spawn(move || {
                // However it ends, it ends for both sides.
                if matches!(pass(&from, &to, budget.left(way), &closed), Ok(End::Cut)) {
                    let count = if way == Way::There { &cuts.there } else { &cuts.back };
                    count.fetch_add(1, Ordering::AcqRel);
                }
                let _ = from.shutdown(Shutdown::Both);
                let _ = to.shutdown(Shutdown::Both);
                budget.is_over.store(true, Ordering::Release);
            });
        }
        Ok(())
    }
}

/// Why no more bytes are passed on.
enum End {
    /// One side has ended, or nobody may pass.
    Closed,
    /// The budget is spent, in the middle of something.
    Cut,
}

/// Passes bytes on until one side ends or the budget is spent.
fn pass(mut from: &TcpStream, mut to: &TcpStream, left: &AtomicI64, is_closed: &AtomicBool) -> io::Result<End> {
    let mut buffer = [0; 16 * 1024];
    loop {
        let read = from.read(&mut buffer)?;
        if read == 0 || is_closed.load(Ordering::Acquire) {
            return Ok(End::Closed);
        }
        let before = left.fetch_sub(i64::try_from(read).unwrap_or(i64::MAX), Ordering::AcqRel);
        let may = read.min(usize::try_from(before).unwrap_or(0));
        to.write_all(buffer.get(..may).unwrap_or_default())?;
        if may < read {
            return Ok(End::Cut);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a server behind a proxy heard, and what its client heard of the answer, when the
    /// connection is cut in this direction after two bytes.
    fn heard(way: Option<Way>) -> (Vec<u8>, Vec<u8>, Proxy) {
        let server = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let proxy = Proxy::start(server.local_addr().expect("it has an address").port()).expect("another one");
        let mut client = TcpStream::connect(("127.0.0.1", proxy.port())).expect("the proxy listens");
        let (mut accepted, _) = server.accept().expect("the proxy connects");
        // The proxy knows a connection once something has gone over it.
        let mut first = [0; 1];
        client.write_all(b"!").expect("it is open");
        accepted.read_exact(&mut first).expect("it arrives");
        if let Some(way) = way {
            proxy.cut(way, 2);
        }
        client.write_all(b"commit").expect("it is open");
        let mut request = vec![0; 6];
        if way == Some(Way::There) {
            request.clear();
            accepted.read_to_end(&mut request).expect("it ends");
            return (request, Vec::new(), proxy);
        }
        accepted.read_exact(&mut request).expect("all of it arrives");
        accepted.write_all(b"committed").expect("it is open");
        drop(accepted);
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).expect("it ends");
        (request, answer, proxy)
    }

    #[test]
    fn a_cut_is_in_the_middle_of_a_request_or_of_its_answer() {
        let (request, answer, _) = heard(None);
        assert_eq!((&*request, &*answer), (&b"commit"[..], &b"committed"[..]));
        let (request, _, proxy) = heard(Some(Way::There));
        assert_eq!(&*request, b"co");
        assert_eq!((proxy.cuts(Way::There), proxy.cuts(Way::Back)), (1, 0));
        let (request, answer, proxy) = heard(Some(Way::Back));
        assert_eq!((&*request, &*answer), (&b"commit"[..], &b"co"[..]), "the server has heard all of it");
        assert_eq!((proxy.cuts(Way::There), proxy.cuts(Way::Back)), (0, 1));
    }
}

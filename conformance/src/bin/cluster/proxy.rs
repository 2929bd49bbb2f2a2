//! A proxy between the workers and the server, which cuts connections in the middle of what goes
//! over them.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes that may still pass: to the server, and back.
#[derive(Debug)]
struct Budget {
    there: AtomicI64,
    back: AtomicI64,
    is_over: AtomicBool,
}

/// The proxy's handle.
#[derive(Debug, Clone)]
pub struct Proxy {
    port: u16,
    connections: Arc<Mutex<Vec<Arc<Budget>>>>,
    is_closed: Arc<AtomicBool>,
}

impl Proxy {
    /// Listens on a free port of this machine for whoever wants the server on another.
    pub fn start(server: u16) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let proxy = Self {
            port: listener.local_addr()?.port(),
            connections: Arc::default(),
            is_closed: Arc::new(AtomicBool::new(false)),
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

    /// Cuts every second connection after so many more bytes; says how many.
    pub fn cut(&self, there: u64, back: u64) -> usize {
        let mut connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        connections.retain(|budget| !budget.is_over.load(Ordering::Acquire));
        let chosen: Vec<_> = connections.iter().step_by(2).collect();
        for budget in &chosen {
            budget.there.store(i64::try_from(there).unwrap_or(0), Ordering::Release);
            budget.back.store(i64::try_from(back).unwrap_or(0), Ordering::Release);
        }
        chosen.len()
    }

    /// Closes the way to the server, or opens it again.
    pub fn close(&self, is_closed: bool) {
        self.is_closed.store(is_closed, Ordering::Release);
        if is_closed {
            self.cut(0, 0);
            self.cut(0, 0);
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
        for is_there in [true, false] {
            let (from, to) = if is_there { (&client, &server) } else { (&server, &client) };
            let (from, to, budget, closed) =
                (from.try_clone()?, to.try_clone()?, Arc::clone(&budget), Arc::clone(&self.is_closed));
            std::thread::spawn(move || {
                let left = if is_there { &budget.there } else { &budget.back };
                // However it ends, it ends for both sides.
                let _ = pass(&from, &to, left, &closed);
                let _ = from.shutdown(Shutdown::Both);
                let _ = to.shutdown(Shutdown::Both);
                budget.is_over.store(true, Ordering::Release);
            });
        }
        Ok(())
    }
}

/// Passes bytes on until one side ends or the budget is spent.
fn pass(mut from: &TcpStream, mut to: &TcpStream, left: &AtomicI64, is_closed: &AtomicBool) -> io::Result<()> {
    let mut buffer = [0; 16 * 1024];
    loop {
        let read = from.read(&mut buffer)?;
        if read == 0 || is_closed.load(Ordering::Acquire) {
            return Ok(());
        }
        let before = left.fetch_sub(i64::try_from(read).unwrap_or(i64::MAX), Ordering::AcqRel);
        let may = read.min(usize::try_from(before).unwrap_or(0));
        to.write_all(buffer.get(..may).unwrap_or_default())?;
        if may < read {
            return Ok(());
        }
    }
}

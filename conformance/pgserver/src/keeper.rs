//! A server of our own, and the process that sees to its end.

use std::fs::OpenOptions;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// The user that PostgreSQL runs as where it is root who starts it, which it refuses to be:
/// `nobody`.
pub(crate) const NOBODY: u32 = 65_534;
/// How often another port is tried, when someone else took the free one in between.
const PORTS_MAX: usize = 5;

/// What a server may lose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// Everything, when the machine stops: nothing is flushed.
    Fast,
    /// Nothing that it said was committed.
    Durable,
}

impl Profile {
    fn options(self) -> &'static str {
        match self {
            Self::Fast => "-c fsync=off -c synchronous_commit=off -c full_page_writes=off",
            Self::Durable => "",
        }
    }

    /// Where its folder is: in memory where nothing has to survive.
    fn parent(self) -> PathBuf {
        let memory = Path::new("/dev/shm");
        if self == Self::Fast && memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() }
    }
}

/// What a server shows to those who connect with TLS, in PEM.
#[derive(Debug, Clone, Copy)]
pub struct Identity<'a> {
    /// Its certificate, and those between it and its root.
    pub certificates: &'a str,
    /// The key of the first.
    pub key: &'a str,
}

impl Identity<'_> {
    /// Writes it where a server finds it; `owner` is who the server runs as.
    fn write(self, folder: &Path, owner: Option<u32>) -> std::io::Result<()> {
        for (name, text) in [("server.crt", self.certificates), ("server.key", self.key)] {
            let path = folder.join(name);
            // A key that others may read is refused.
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
            file.write_all(text.as_bytes())?;
            chown(&path, owner, owner)?;
        }
        Ok(())
    }
}

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// Not installed.
    #[error("no PostgreSQL server binaries in PATH or /usr/lib/postgresql; install the package postgresql")]
    Missing,
    /// There is no pooler.
    #[error("no pgbouncer in PATH or /usr/sbin; install the package pgbouncer")]
    NoPooler,
    /// Something on the way failed.
    #[error("{what}: {error}")]
    Io {
        /// What was done.
        what: &'static str,
        /// How it failed.
        error: std::io::Error,
    },
    /// The server said no.
    #[error("PostgreSQL does not start: {0}")]
    Refused(String),
}

pub(crate) fn io(what: &'static str) -> impl Fn(std::io::Error) -> ServerError {
    move |error| ServerError::Io { what, error }
}

/// A running server. It stops, and its folder goes, when this is dropped or the process ends.
#[derive(Debug)]
pub struct Server {
    url: String,
    port: u16,
    /// Taken when the server is to end.
    orders: Mutex<Option<(ChildStdin, BufReader<ChildStdout>)>>,
    keeper: Child,
}

/// Reads orders, a line each, and answers each with a line; at their end it stops the server.
/// It is a shell script because it has to outlive a test process that is killed.
const KEEPER: &str = r#"
set -u
start() { "$BIN/pg_ctl" start -w -s -D "$DIR/data" -l "$DIR/log" -o "$OPTIONS" >/dev/null 2>&1; }
stop() { "$BIN/pg_ctl" stop -w -s -D "$DIR/data" -m "$1" >/dev/null 2>&1; }
answer() { if [ "$1" = 0 ]; then echo done; else echo "failed: $(tail -n 3 "$DIR/log" 2>&1 | tr '\n' ' ')"; fi; }
if ! "$BIN/initdb" --no-sync -A trust -U postgres -E UTF8 --locale=C -D "$DIR/data" >"$DIR/log" 2>&1; then
    answer 1
    exit 1
fi
while read -r order; do
    case "$order" in
        start) start; answer $? ;;
        crash) stop immediate; answer $? ;;
    esac
done
stop immediate
rm -rf "$DIR"
"#;

impl Server {
    /// Starts a server on a free port of this machine.
    ///
    /// # Errors
    /// When it is not installed or does not start.
    pub fn start(profile: Profile) -> Result<Self, ServerError> {
        Self::start_as(profile, None)
    }

    /// The same, of a server that takes connections with TLS too.
    ///
    /// # Errors
    /// When it is not installed or does not start.
    pub fn start_with_tls(profile: Profile, identity: Identity<'_>) -> Result<Self, ServerError> {
        Self::start_as(profile, Some(identity))
    }

    fn start_as(profile: Profile, identity: Option<Identity<'_>>) -> Result<Self, ServerError> {
        let bin = binaries().ok_or(ServerError::Missing)?;
        let mut refused = None;
        for _ in 0..PORTS_MAX {
            let port = TcpListener::bind("127.0.0.1:0")
                .and_then(|listener| listener.local_addr())
                .map_err(io("a free port is looked for"))?
                .port();
            match Self::start_on(&bin, profile, identity, port) {
                Err(ServerError::Refused(why)) => refused = Some(why),
                other => return other,
            }
        }
        Err(ServerError::Refused(refused.unwrap_or_default()))
    }

    fn start_on(bin: &Path, profile: Profile, identity: Option<Identity<'_>>, port: u16) -> Result<Self, ServerError> {
        let folder = tempfile::Builder::new()
            .prefix("plica-postgres-")
            .tempdir_in(profile.parent())
            .map_err(io("a temporary folder is made"))?;
        let is_root = std::fs::metadata("/proc/self").map_err(io("the own user is looked up"))?.uid() == 0;
        let owner = is_root.then_some(NOBODY);
        let mut options = format!(
            "-c port={port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={} -c max_connections=200 {}",
            folder.path().display(),
            profile.options()
        );
        if let Some(identity) = identity {
            identity.write(folder.path(), owner).map_err(io("the server's certificate is written"))?;
            let at = folder.path().display();
            options.push_str(&format!(" -c ssl=on -c ssl_cert_file={at}/server.crt -c ssl_key_file={at}/server.key"));
        }
        let mut command = Command::new("sh");
        command.arg("-c").arg(KEEPER).env("BIN", bin).env("DIR", folder.path()).env("OPTIONS", options);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        // In a group of its own, so that an interrupt from the terminal does not reach it.
        command.process_group(0).current_dir("/");
        if let Some(nobody) = owner {
            chown(folder.path(), owner, owner).map_err(io("the folder is given away"))?;
            command.uid(nobody).gid(nobody);
        }
        let mut keeper = command.spawn().map_err(io("a shell is started"))?;
        let (Some(orders), Some(answers)) = (keeper.stdin.take(), keeper.stdout.take()) else {
            return Err(ServerError::Refused("the shell has no pipes".into()));
        };
        // From here on the keeper removes it.
        let _ = folder.keep();
        let url = format!("postgres://postgres@127.0.0.1:{port}/postgres");
        let server = Self { url, port, orders: Mutex::new(Some((orders, BufReader::new(answers)))), keeper };
        server.order("start")?;
        Ok(server)
    }

    /// The URL of its database.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its port on this machine.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Stops it as a crash would: nothing is finished, nothing is written.
    ///
    /// # Errors
    /// When it does not stop.
    pub fn crash(&self) -> Result<(), ServerError> {
        self.order("crash")
    }

    /// Starts it again, on the same port; it recovers.
    ///
    /// # Errors
    /// When it does not start.
    pub fn restart(&self) -> Result<(), ServerError> {
        self.order("start")
    }

    /// A schema that nobody else uses; it is not created.
    pub fn fresh(&self) -> crate::Fresh {
        crate::Fresh::new(&self.url, false)
    }

    fn order(&self, order: &str) -> Result<(), ServerError> {
        let mut pipes = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((orders, answers)) = &mut *pipes else {
            return Err(ServerError::Refused("the server has ended".into()));
        };
        writeln!(orders, "{order}").map_err(io("the keeper is told"))?;
        let mut answer = String::new();
        answers.read_line(&mut answer).map_err(io("the keeper is heard"))?;
        if answer.trim() == "done" { Ok(()) } else { Err(ServerError::Refused(answer.trim().to_owned())) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The end of its orders is what the keeper waits for.
        self.orders.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let _ = self.keeper.wait();
    }
}

/// The folder of the server's binaries: where `postgres` is in PATH, else where Debian puts the
/// newest version.
fn binaries() -> Option<PathBuf> {
    let has_server = |folder: &PathBuf| folder.join("postgres").is_file() && folder.join("initdb").is_file();
    let path = std::env::var_os("PATH").unwrap_or_default();
    if let Some(folder) = std::env::split_paths(&path).find(has_server) {
        return Some(folder);
    }
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let newest = versions.filter_map(Result::ok).filter_map(|entry| {
        let version: u32 = entry.file_name().to_str()?.parse().ok()?;
        Some((version, entry.path().join("bin")))
    });
    newest.filter(|(_, folder)| has_server(folder)).max().map(|(_, folder)| folder)
}

//! A pooler between a store and its server, where the program is installed.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc;

use tempfile::TempDir;

use crate::Server;
use crate::keeper::{NOBODY, ServerError, io};

/// PgBouncer in transaction mode in front of a server: a connection of a client is one to the
/// server only as long as a transaction takes. It ends when this is dropped or the process ends.
#[derive(Debug)]
pub struct Pooler {
    port: u16,
    /// Closed when it is to end.
    leash: Option<ChildStdin>,
    keeper: Child,
    /// Goes when the pooler does.
    _folder: TempDir,
}

/// Starts the pooler and ends it with its own input. A shell, because it has to outlive a test
/// process that is killed.
const KEEPER: &str = r#"
"$PROGRAM" "$DIR/pooler.ini" 2>&1 &
read -r _
kill $!
wait
"#;
/// What the pooler says when it takes connections.
const READY: &str = "process up";

impl Pooler {
    /// One in front of `server`, with so few connections to it that clients have to share them;
    /// `more` are further lines of its settings.
    ///
    /// # Errors
    /// When it is not installed or does not start.
    pub fn start(server: &Server, more: &str) -> Result<Self, ServerError> {
        let program = program().ok_or(ServerError::NoPooler)?;
        let folder =
            tempfile::Builder::new().prefix("plica-pooler-").tempdir().map_err(io("a temporary folder is made"))?;
        let port = TcpListener::bind("127.0.0.1:0")
            .and_then(|listener| listener.local_addr())
            .map_err(io("a free port is looked for"))?
            .port();
        let settings = format!(
            "[databases]\npostgres = host=127.0.0.1 port={} dbname=postgres user=postgres\n[pgbouncer]\n\
             listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = any\n\
             pool_mode = transaction\ndefault_pool_size = 5\nmax_client_conn = 1000\n\
             log_connections = 0\nlog_disconnections = 0\nlog_stats = 0\n{more}\n",
            server.port()
        );
        let file = folder.path().join("pooler.ini");
        std::fs::write(&file, settings).map_err(io("the pooler's settings are written"))?;
        let mut command = Command::new("sh");
        command.arg("-c").arg(KEEPER).env("PROGRAM", program).env("DIR", folder.path());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        command.process_group(0).current_dir("/");
        if std::fs::metadata("/proc/self").map_err(io("the own user is looked up"))?.uid() == 0 {
            chown(folder.path(), Some(NOBODY), Some(NOBODY)).map_err(io("the folder is given away"))?;
            chown(&file, Some(NOBODY), Some(NOBODY)).map_err(io("the file is given away"))?;
            command.uid(NOBODY).gid(NOBODY);
        }
        let mut keeper = command.spawn().map_err(io("a shell is started"))?;
        let (leash, words) = (keeper.stdin.take(), keeper.stdout.take());
        let pooler = Self { port, leash, keeper, _folder: folder };
        let Some(words) = words else { return Err(ServerError::Refused("the shell has no pipes".into())) };
        let (heard, ready) = mpsc::channel();
        // Whatever it says later is read too, so that it never waits to be heard.
        std::thread::spawn(move || {
            for line in BufReader::new(words).lines().map_while(Result::ok) {
                let _ = heard.send(line);
            }
        });
        let mut said = String::new();
        while let Ok(line) = ready.recv() {
            if line.contains(READY) {
                return Ok(pooler);
            }
            said.push_str(&line);
        }
        Err(ServerError::Refused(said))
    }

    /// Its port on this machine.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        // The end of its input is what the keeper waits for.
        self.leash.take();
        let _ = self.keeper.wait();
    }
}

/// The program, in PATH or where Debian puts it.
fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    folders.map(|folder| folder.join("pgbouncer")).find(|program| program.is_file())
}

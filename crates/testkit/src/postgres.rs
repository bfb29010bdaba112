//! A throwaway Postgres: a cluster of its own in a temporary folder, reached over a Unix socket, with the durability of a real one.
//!
//! It ends with the value, and with the process that made it, however that ends: a small shell waits for the end of its input
//! and then stops the server.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
};

/// The first version that the store takes.
const LEAST: u32 = 15;

/// What the server says when it can be used.
const READY: &str = "database system is ready to accept connections";

/// Runs the server until the input ends, or says so; in the first case nobody will come back for the folder.
const WARDEN: &str = r#"
"$0" -D "$1/data" -k "$1" "-clisten_addresses=" -cmax_connections=300 -cclient_min_messages=warning &
server=$!
read said
kill -QUIT "$server"
wait "$server"
[ -n "$said" ] || rm -rf "$1"
"#;

/// A server with its data.
#[derive(Debug)]
pub struct Cluster {
    binaries: PathBuf,
    /// The account that it runs under where this process is root: the server refuses that.
    account: Option<Account>,
    folder: PathBuf,
    warden: Mutex<Option<Child>>,
    databases: AtomicU32,
}

#[derive(Debug, Clone, Copy)]
struct Account {
    user: u32,
    group: u32,
}

impl Cluster {
    /// Makes a cluster and starts it.
    ///
    /// # Panics
    ///
    /// If there is no Postgres, or it does not start: a test without its database means nothing.
    pub fn start() -> Self {
        Self::start_in(&std::env::temp_dir())
    }

    /// Makes a cluster in a folder of its own below that one, and starts it.
    ///
    /// # Panics
    ///
    /// If there is no Postgres, or it does not start.
    pub fn start_in(parent: &Path) -> Self {
        let binaries = binaries().unwrap_or_else(|| {
            panic!("no Postgres {LEAST} or later is installed: `cargo xtask test set-up`, or apt-get install postgresql")
        });
        let folder = tempfile::Builder::new()
            .prefix("pg")
            .tempdir_in(parent)
            .expect("a temporary folder can be made")
            .keep();
        let account = account();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o711)).expect("the folder is ours");
        if let Some(account) = account {
            std::os::unix::fs::chown(&folder, Some(account.user), Some(account.group))
                .expect("root may give it away");
        }
        let cluster = Self {
            binaries,
            account,
            folder,
            warden: Mutex::new(None),
            databases: AtomicU32::new(0),
        };
        let data = cluster.folder.join("data");
        cluster.run(
            cluster
                .program("initdb")
                .arg("-D")
                .arg(data)
                .args(["-U", "portolan", "-A", "trust", "-E", "UTF8", "--locale=C"])
                .args(["--no-sync", "--no-instructions"]),
        );
        cluster.resume();
        cluster
    }

    /// The address of an empty database of its own.
    ///
    /// # Panics
    ///
    /// If it cannot be made.
    pub fn database(&self) -> String {
        let number = self.databases.fetch_add(1, Ordering::Relaxed);
        let name = format!("test{number}");
        self.create(&name);
        self.address(&name)
    }

    /// Makes an empty database of that name.
    ///
    /// # Panics
    ///
    /// If it cannot be made.
    pub fn create(&self, name: &str) {
        self.run(
            self.program("createdb")
                .arg("-h")
                .arg(&self.folder)
                .args(["-U", "portolan", name]),
        );
    }

    /// Whether the server can be used now.
    pub fn answers(&self) -> bool {
        let asked = self
            .program("pg_isready")
            .arg("-h")
            .arg(&self.folder)
            .arg("-q")
            .status();
        asked.is_ok_and(|status| status.success())
    }

    /// The address of a database of that name.
    pub fn address(&self, database: &str) -> String {
        format!(
            "postgres:///{database}?host={}&user=portolan",
            self.folder.display()
        )
    }

    /// Where the server's socket is.
    pub fn socket(&self) -> PathBuf {
        self.folder.join(".s.PGSQL.5432")
    }

    /// Runs SQL as the owner of everything, and returns what it prints: a row a line.
    ///
    /// # Panics
    ///
    /// If it fails.
    pub fn sql(&self, address: &str, sql: &str) -> String {
        self.run(
            self.program("psql")
                .args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align"])
                .args(["--set", "ON_ERROR_STOP=1", "--command", sql, address]),
        )
    }

    /// Stops the server as a crash would: what was not flushed is gone.
    ///
    /// # Panics
    ///
    /// If it does not end.
    pub fn stop_immediately(&self) {
        if let Some(mut warden) = self.warden().take() {
            // The words keep the folder.
            let told = warden.stdin.take().map(|mut input| input.write_all(b"stop\n"));
            assert!(
                matches!(told, Some(Ok(()))),
                "the warden has gone before its server"
            );
            warden.wait().expect("the warden is our child");
        }
    }

    /// Starts the server again and waits until it can be used.
    ///
    /// # Panics
    ///
    /// If it does not start.
    pub fn resume(&self) {
        let mut warden = self.warden();
        assert!(warden.is_none(), "the server runs already");
        let mut command = Command::new("/bin/sh");
        command
            .arg("-c")
            .arg(WARDEN)
            .arg(self.binaries.join("postgres"))
            .arg(&self.folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        self.as_account(&mut command);
        let mut child = command.spawn().expect("there is a shell");
        let said = child.stderr.take().expect("its words are piped");
        *warden = Some(child);
        drop(warden);
        let mut lines = BufReader::new(said).lines();
        let mut heard = String::new();
        loop {
            match lines.next() {
                Some(Ok(line)) if line.contains(READY) => break,
                Some(Ok(line)) => {
                    heard.push_str(&line);
                    heard.push('\n');
                }
                Some(Err(_)) | None => panic!("the server did not start:\n{heard}"),
            }
        }
        // Nobody reads its log any more, and nobody must wait for somebody who does.
        std::thread::Builder::new()
            .name("postgres-log".to_owned())
            .spawn(move || lines.for_each(drop))
            .expect("a thread can be started");
    }

    /// Holds every process of the server where it is: connections stay open and nothing answers.
    ///
    /// # Panics
    ///
    /// If the server does not run.
    pub fn freeze(&self) {
        // The parent first, so that it makes no more of them.
        let server = self.server();
        self.signal("-STOP", &[server]);
        self.signal("-STOP", &children(server));
    }

    /// Lets a frozen server go on.
    ///
    /// # Panics
    ///
    /// If the server does not run.
    pub fn thaw(&self) {
        let server = self.server();
        self.signal("-CONT", &children(server));
        self.signal("-CONT", &[server]);
    }

    fn server(&self) -> u32 {
        let file = fs::read_to_string(self.folder.join("data/postmaster.pid")).expect("the server runs");
        let number = file.lines().next().and_then(|line| line.parse().ok());
        number.expect("its file begins with its number")
    }

    fn signal(&self, signal: &str, processes: &[u32]) {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "kill \"$@\"", "sh", signal]);
        command.args(processes.iter().map(u32::to_string));
        self.as_account(&mut command);
        // One of them may have ended meanwhile.
        command.output().expect("there is a shell");
    }

    fn warden(&self) -> MutexGuard<'_, Option<Child>> {
        self.warden.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn program(&self, name: &str) -> Command {
        let mut command = Command::new(self.binaries.join(name));
        command
            .current_dir(&self.folder)
            .env("LC_ALL", "C")
            .stdin(Stdio::null());
        self.as_account(&mut command);
        command
    }

    fn as_account(&self, command: &mut Command) {
        if let Some(account) = self.account {
            command.uid(account.user).gid(account.group);
        }
    }

    fn run(&self, command: &mut Command) -> String {
        let output = command.output().expect("the program of Postgres runs");
        assert!(
            output.status.success(),
            "{command:?} failed: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Some(mut warden) = self.warden().take() {
            drop(warden.stdin.take());
            let _ = warden.wait();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The processes that a process made.
fn children(parent: u32) -> Vec<u32> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter_map(|process| {
            let number: u32 = process.file_name().to_str()?.parse().ok()?;
            let stat = fs::read_to_string(process.path().join("stat")).ok()?;
            // The name stands in parentheses and may hold anything.
            let (_, rest) = stat.rsplit_once(')')?;
            let its_parent: u32 = rest.split_whitespace().nth(1)?.parse().ok()?;
            (its_parent == parent).then_some(number)
        })
        .collect()
}

/// The newest installed version.
fn binaries() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten();
    versions
        .filter_map(|version| {
            let number: u32 = version.file_name().to_str()?.parse().ok()?;
            Some((number, version.path().join("bin")))
        })
        .filter(|(number, path)| *number >= LEAST && path.join("initdb").exists())
        .max()
        .map(|(_, path)| path)
}

/// Somebody to run a server as, where this process is root.
fn account() -> Option<Account> {
    let is_root =
        fs::metadata("/proc/self").is_ok_and(|process| std::os::unix::fs::MetadataExt::uid(&process) == 0);
    if !is_root {
        return None;
    }
    let accounts = fs::read_to_string("/etc/passwd").unwrap_or_default();
    ["postgres", "nobody"]
        .into_iter()
        .find_map(|name| of_name(&accounts, name))
}

fn of_name(accounts: &str, name: &str) -> Option<Account> {
    let line = accounts
        .lines()
        .find(|line| line.split(':').next() == Some(name))?;
    let mut numbers = line.split(':').skip(2);
    Some(Account {
        user: numbers.next()?.parse().ok()?,
        group: numbers.next()?.parse().ok()?,
    })
}

/// Whether a Postgres is installed that a cluster can be made of.
pub fn is_installed() -> bool {
    binaries().as_deref().is_some_and(Path::is_dir)
}

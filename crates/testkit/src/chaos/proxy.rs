//! A proxy between the servers and the database that cuts connections at the worst moment: when the database has committed
//! and said so, and nobody has heard it yet.

use super::ChaosError;
use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{UnixListener, UnixStream, unix::OwnedReadHalf, unix::OwnedWriteHalf},
};

/// What a `CommandComplete` of the database's protocol begins with.
const COMMAND_COMPLETE: u8 = b'C';

/// A message that is longer than this is passed on without being looked at.
const LONGEST_LOOKED_AT: usize = 64;

/// The name of the socket in its folder, as clients of Postgres look for it.
const SOCKET: &str = ".s.PGSQL.5432";

/// The proxy.
#[derive(Debug, Clone)]
pub(super) struct Proxy {
    folder: PathBuf,
    cuts: Arc<Cuts>,
}

#[derive(Debug, Default)]
struct Cuts {
    /// Replies that are still to be swallowed.
    armed: AtomicU64,
    done: AtomicU64,
}

impl Proxy {
    /// Listens in a folder and passes everything on to the socket of the database.
    pub(super) fn start(folder: &Path, database: &Path) -> Result<Self, ChaosError> {
        fs::create_dir_all(folder)?;
        let listener = UnixListener::bind(folder.join(SOCKET))?;
        let proxy = Self {
            folder: folder.to_owned(),
            cuts: Arc::default(),
        };
        let (cuts, database) = (Arc::clone(&proxy.cuts), database.to_owned());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(pass(client, database.clone(), Arc::clone(&cuts)));
            }
        });
        Ok(proxy)
    }

    /// The address of a database behind the proxy.
    pub(super) fn address(&self, database: &str) -> String {
        format!(
            "postgres:///{database}?host={}&user=portolan",
            self.folder.display()
        )
    }

    /// Swallows the next replies about a command that has been completed, and cuts their connections.
    pub(super) fn swallow(&self, replies: u64) {
        self.cuts.armed.store(replies, Ordering::SeqCst);
    }

    /// Stops swallowing.
    pub(super) fn let_pass(&self) {
        self.cuts.armed.store(0, Ordering::SeqCst);
    }

    /// How many connections were cut so far.
    pub(super) fn cuts(&self) -> u64 {
        self.cuts.done.load(Ordering::SeqCst)
    }
}

async fn pass(client: UnixStream, database: PathBuf, cuts: Arc<Cuts>) {
    let Ok(server) = UnixStream::connect(database).await else {
        return;
    };
    let (mut from_client, to_client) = client.into_split();
    let (from_server, mut to_server) = server.into_split();
    let up = async move { tokio::io::copy(&mut from_client, &mut to_server).await.map(drop) };
    // Whichever side ends first ends both.
    tokio::select! {
        _ = up => {}
        _ = down(from_server, to_client, &cuts) => {}
    }
}

/// Passes messages on one by one until one is to be swallowed.
async fn down(
    mut from_server: OwnedReadHalf,
    mut to_client: OwnedWriteHalf,
    cuts: &Cuts,
) -> std::io::Result<()> {
    let mut head = [0; 5];
    loop {
        from_server.read_exact(&mut head).await?;
        let [kind, length @ ..] = head;
        let length = usize::try_from(u32::from_be_bytes(length))
            .ok()
            .and_then(|length| length.checked_sub(4))
            .ok_or(std::io::ErrorKind::InvalidData)?;
        if kind == COMMAND_COMPLETE && length <= LONGEST_LOOKED_AT {
            let mut tag = vec![0; length];
            from_server.read_exact(&mut tag).await?;
            if wrote(&tag) && cuts.take() {
                return Ok(());
            }
            to_client.write_all(&head).await?;
            to_client.write_all(&tag).await?;
            continue;
        }
        to_client.write_all(&head).await?;
        let mut rest = (&mut from_server).take(length as u64);
        tokio::io::copy(&mut rest, &mut to_client).await?;
    }
}

/// Whether the command may have written: a statement with parts that write says `SELECT`, too.
fn wrote(tag: &[u8]) -> bool {
    [&b"COMMIT"[..], b"INSERT", b"UPDATE", b"SELECT"]
        .iter()
        .any(|verb| tag.starts_with(verb))
}

impl Cuts {
    fn take(&self) -> bool {
        let took = self
            .armed
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1))
            .is_ok();
        self.done.fetch_add(u64::from(took), Ordering::SeqCst);
        took
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_reply_is_swallowed_and_its_connection_cut_and_the_next_one_passes() {
        let folder = tempfile::tempdir().expect("a folder");
        let database = folder.path().join("database");
        let listener = UnixListener::bind(&database).expect("binds");
        let proxy = Proxy::start(&folder.path().join("proxy"), &database).expect("starts");
        tokio::spawn(async move {
            while let Ok((mut socket, _)) = listener.accept().await {
                let _ = socket.write_all(b"Z\0\0\0\x05IC\0\0\0\x0bCOMMIT\0").await;
            }
        });
        proxy.swallow(1);
        let socket = folder.path().join("proxy").join(SOCKET);
        let mut said = Vec::new();
        let mut first = UnixStream::connect(&socket).await.expect("connects");
        first.read_to_end(&mut said).await.expect("is cut");
        assert_eq!(said, b"Z\0\0\0\x05I");
        said.clear();
        let mut second = UnixStream::connect(&socket).await.expect("connects");
        second
            .read_to_end(&mut said)
            .await
            .expect("ends with the database");
        assert_eq!(said, b"Z\0\0\0\x05IC\0\0\0\x0bCOMMIT\0");
        assert_eq!(proxy.cuts(), 1);
    }
}

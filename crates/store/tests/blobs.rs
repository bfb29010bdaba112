//! Blobs in files.

use portolan_core::digest::Digest;
use portolan_journal::blob::{BlobError, BlobStore};
use portolan_store::FileBlobs;
use std::path::{Path, PathBuf};

fn path(directory: &Path, digest: Digest) -> PathBuf {
    let name = digest.to_string();
    directory.join("blobs").join(&name[..2]).join(name)
}

#[tokio::test]
async fn blobs_are_kept_once_and_read_back() {
    let directory = tempfile::tempdir().expect("made");
    let blobs = FileBlobs::open(directory.path()).expect("opens");
    let contents = vec![b"one".to_vec(), Vec::new(), vec![0; 1 << 20], b"one".to_vec()];
    let digests = blobs.put(contents.clone()).await.expect("are kept");
    assert_eq!(
        digests,
        contents
            .iter()
            .map(|content| Digest::of(content))
            .collect::<Vec<_>>()
    );
    drop(blobs);
    let blobs = FileBlobs::open(directory.path()).expect("opens again");
    for (digest, content) in digests.iter().zip(&contents) {
        assert_eq!(blobs.get(*digest).await.as_ref(), Ok(content));
    }
    let absent = Digest::of(b"absent");
    assert_eq!(blobs.get(absent).await, Err(BlobError::Missing(absent)));
}

#[tokio::test]
async fn a_damaged_blob_is_told_and_healed_by_the_next_put() {
    let directory = tempfile::tempdir().expect("made");
    let blobs = FileBlobs::open(directory.path()).expect("opens");
    let digest = blobs.put(vec![b"content".to_vec()]).await.expect("is kept")[0];
    std::fs::write(path(directory.path(), digest), b"c0ntent").expect("is damaged");
    assert_eq!(blobs.get(digest).await, Err(BlobError::Damaged(digest)));
    blobs.put(vec![b"content".to_vec()]).await.expect("is kept");
    assert_eq!(blobs.get(digest).await, Ok(b"content".to_vec()));
}

#[tokio::test]
async fn what_a_crash_left_half_written_is_cleared_away() {
    let directory = tempfile::tempdir().expect("made");
    FileBlobs::open(directory.path()).expect("opens");
    let stray = directory.path().join("blobs/tmp/7");
    std::fs::write(&stray, b"half").expect("is written");
    FileBlobs::open(directory.path()).expect("opens again");
    assert!(!stray.exists());
}

#[tokio::test]
async fn the_same_content_from_many_at_once_is_one_blob() {
    let directory = tempfile::tempdir().expect("made");
    let blobs = FileBlobs::open(directory.path()).expect("opens");
    let tasks: Vec<_> = (0..16)
        .map(|_| {
            let blobs = blobs.clone();
            tokio::spawn(async move { blobs.put(vec![b"same".to_vec(); 3]).await })
        })
        .collect();
    for task in tasks {
        task.await.expect("ends").expect("is kept");
    }
    assert_eq!(blobs.get(Digest::of(b"same")).await, Ok(b"same".to_vec()));
    let left = std::fs::read_dir(directory.path().join("blobs/tmp"))
        .expect("lists")
        .count();
    assert_eq!(left, 0, "temporary files are left");
}

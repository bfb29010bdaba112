//! A small file system of its own, in a file, that can be filled up.

use super::ChaosError;
use std::{
    fs::{self, File, OpenOptions},
    io::Write as _,
    path::{Path, PathBuf},
    process::Command,
};

/// Its size. A fresh cluster takes about 60 MiB, and its log up to four times its segment.
const MIB: u64 = 384;

/// Zeros that are written at once.
const CHUNK: usize = 1 << 20;

/// The file system, mounted. It goes with this value.
#[derive(Debug)]
pub(super) struct SmallDisk {
    root: PathBuf,
}

impl SmallDisk {
    /// Makes and mounts it. Needs root and loop devices.
    pub(super) fn mount(directory: &Path) -> Result<Self, ChaosError> {
        let (image, root) = (directory.join("disk.img"), directory.join("disk"));
        fs::create_dir_all(&root)?;
        File::create(&image)?.set_len(MIB << 20)?;
        tell(
            Command::new("mkfs.ext4")
                .arg("-q")
                .arg("-F")
                .arg("-m")
                .arg("0")
                .arg(&image),
        )?;
        tell(Command::new("mount").arg("-o").arg("loop").arg(&image).arg(&root))?;
        Ok(Self { root })
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Writes until nothing fits any more.
    pub(super) fn fill(&self) -> Result<(), ChaosError> {
        let mut file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.root.join("ballast"))?;
        for chunk in [CHUNK, 4_096] {
            let zeros = vec![0; chunk];
            while file.write_all(&zeros).is_ok() {}
        }
        Ok(())
    }

    /// Gives the space back.
    pub(super) fn free(&self) -> Result<(), ChaosError> {
        Ok(fs::remove_file(self.root.join("ballast"))?)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = tell(Command::new("umount").arg("-l").arg(&self.root));
    }
}

fn tell(command: &mut Command) -> Result<(), ChaosError> {
    let output = command.output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(format!("{:?} failed: {said}", command.get_program()).into())
}

//! `lockgate export` on a full disk: existing files stay complete, and no temporary file occupies the last space.

use std::path::Path;
use std::process::Command;

use e2e::manifests::{documents, ingress, ingress_class, service};
use e2e::process::Process;
use e2e::{Manifests, lockgate, wait_until};

/// A small filesystem in memory, mounted on a directory. It requires root.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn new() -> Self {
        let directory = tempfile::Builder::new().prefix("small-disk-").tempdir().expect("a temporary directory");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", "size=256k", "tmpfs"]).arg(directory.path()).status();
        assert!(mounted.is_ok_and(|status| status.success()), "cannot mount a tmpfs: run this test as root");
        Self(directory)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.0.path()).status();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_leaves_no_draft() {
    let (manifests, disk, log) =
        (Manifests::new(), SmallDisk::new(), tempfile::tempdir().expect("a temporary directory"));
    let shop = |hosts: usize| {
        let hosts = (0..hosts).map(|i| ingress(&format!("shop-{i}"), &format!("h{i}.shop.test"), "shop", None));
        documents(&[ingress_class(), service("shop", "", &[])].into_iter().chain(hosts).collect::<Vec<_>>())
    };
    manifests.write("shop.yaml", &shop(1));
    let (from, to) = (manifests.path().display().to_string(), disk.path().display().to_string());
    let args = ["export", "--manifests", &from, "--dir", &to, "--format", "json", "--settle", "0s"];
    let export = Process::start("lockgate export", &lockgate::binary(), &args, &log.path().join("log"));
    let routes = || {
        let entries = std::fs::read_dir(disk.path()).expect("the directory").filter_map(Result::ok);
        let texts = entries.filter(|entry| entry.path().is_file()).map(|entry| std::fs::read_to_string(entry.path()));
        texts.filter_map(Result::ok).find(|text| text.contains("h0.shop.test"))
    };
    wait_until("the routes", async || routes().is_some()).await;
    let before = routes();

    // More content than fits on the disk.
    manifests.write("shop.yaml", &shop(1000));
    wait_until("the full disk to be reported", async || export.log().contains("No space left on device")).await;
    assert!(!disk.path().join(".lockgate.draft").exists(), "a draft is left behind");
    assert_eq!(routes(), before, "the routes are whole, as they were");

    // With less content, the export continues.
    manifests.write("shop.yaml", &shop(2));
    wait_until("the second host", async || routes().is_some_and(|routes| routes.contains("h1.shop.test"))).await;
}

//! Runs the commands of the documentation page by page, in a shell as a reader would. The output must contain the shown text.

use std::time::Instant;

use e2e::Lab;
use e2e::pages::{self, Block};

use super::reader::Reader;

/// The page whose commands run before each page of tasks.
const FIRST: &str = "docs/tasks/README.md";
const MARK: &str = "run in the lab";

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_of_the_pages_do_what_the_pages_say() {
    let lab = Lab::alone().await;
    let lockgate = lab.lockgate().await;
    let blocks = |(page, text): &(String, String)| (page.clone(), pages::blocks(page, text));
    let pages: Vec<(String, Vec<Block>)> = pages::pages().iter().map(blocks).collect();
    let first = pages.iter().find(|(page, _)| page == FIRST).expect("the first page of tasks").1.clone();
    let mut total = 0;
    for (page, blocks) in &pages {
        if !blocks.iter().any(|block| block.mark(MARK).is_some()) || page == FIRST {
            continue;
        }
        let start = Instant::now();
        let space = lab.namespace("docs").await;
        let reader = Reader::new(&lab, &space.name).await;
        if page.starts_with("docs/tasks/") {
            total += reader.run_blocks(&first, MARK).await;
        }
        let commands = reader.run_blocks(blocks, MARK).await;
        total += commands;
        println!("{page}: {commands} commands in {:.1} s", start.elapsed().as_secs_f64());
    }
    assert!(total > 10, "only {total} commands");
    // The other specs expect the release in its original state.
    let restore =
        ["upgrade", "lockgate", "charts/lockgate", "--namespace", &lockgate.namespace, "--reset-values", "--wait"];
    lab.helm(&restore).await;
    lab.kubectl(&["delete", "secret", "fallback", "--namespace", &lockgate.namespace], "").await;
}

//! The code blocks of the documentation, with the marks that state how each block is tested.
//!
//! A mark is an HTML comment directly above a block. Readers do not see it.
//!
//! | mark | block | meaning |
//! | --- | --- | --- |
//! | `<!-- run in the lab -->` | console | the spec `cluster::documentation` types the commands and compares the output |
//! | `<!-- file: NAME -->` | yaml | the same spec writes this file first, for the commands of the page |
//! | `<!-- tested by TEST -->` | any | the test TEST runs the block, or writes it |
//! | `<!-- step: NAME -->` | console | the test that the other mark names types the commands of this step |
//! | `<!-- not run: REASON -->` | console | nothing runs the commands |
//! | `<!-- findings: RULE, RULE -->` | yaml | `lockgate check` reports problems with these rules, and no others |
//! | `<!-- with Service: NAME PORT -->` | yaml | the objects refer to this Service in their namespace, which the block does not show |
//! | `<!-- with Secret: NAME TYPE KEY -->` | yaml | the same for a Secret |
//! | `<!-- not checked: REASON -->` | yaml | no object of Kubernetes and no settings |

use std::path::Path;

use crate::process::repository;

/// A fenced code block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// Its page and line, `docs/install.md:12`.
    pub place: String,
    /// Its language: `console`.
    pub language: String,
    /// The comments directly above it.
    pub marks: Vec<String>,
    /// Its lines, each with its end.
    pub text: String,
}

impl Block {
    /// Returns the rest of the mark that begins with `name`, if the block has one.
    pub fn mark(&self, name: &str) -> Option<&str> {
        self.marks.iter().find_map(|mark| mark.strip_prefix(name)).map(str::trim)
    }
}

/// A command of a console block, with the lines that it prints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// The command as it is typed, with its continuation lines.
    pub line: String,
    /// The lines of its output that the page shows.
    pub output: Vec<String>,
}

/// Returns the commands of a console block. With a prompt `$ `, the other lines are output. Without one, each line is a
/// command. A command ends where no quote and no backslash continues it.
pub fn commands(text: &str) -> Vec<Command> {
    let has_prompts = text.lines().any(|line| line.starts_with("$ "));
    let mut commands: Vec<Command> = Vec::new();
    let mut open = false;
    for line in text.lines() {
        let prompted = line.strip_prefix("$ ");
        match (commands.last_mut(), open) {
            (Some(last), true) => last.line = format!("{}\n{line}", last.line),
            (Some(last), false) if has_prompts && prompted.is_none() => last.output.push(line.to_owned()),
            _ if line.trim().is_empty() => continue,
            _ => commands.push(Command { line: prompted.unwrap_or(line).to_owned(), output: Vec::new() }),
        }
        open = commands.last().is_some_and(|last| last.output.is_empty() && is_continued(&last.line));
    }
    commands
}

/// Returns whether a command continues on the next line: after a backslash, or within quotes.
fn is_continued(command: &str) -> bool {
    let quotes = command.matches('\'').count();
    command.ends_with('\\') || quotes % 2 == 1
}

/// Returns the blocks of a page.
pub fn blocks(page: &str, text: &str) -> Vec<Block> {
    let (mut blocks, mut marks, mut open, mut indentation) = (Vec::new(), Vec::new(), None::<Block>, 0);
    for (index, line) in text.lines().enumerate() {
        let code = line.trim_start();
        if let Some(block) = &mut open {
            match code.trim_end() == "```" {
                true => blocks.extend(open.take()),
                // The indentation of a block within a list is not part of its text.
                false => block.text = format!("{}{}\n", block.text, &line[indentation.min(line.len() - code.len())..]),
            }
        } else if let Some(language) = code.strip_prefix("```") {
            let place = format!("{page}:{}", index + 1);
            let marks = std::mem::take(&mut marks);
            indentation = line.len() - code.len();
            open = Some(Block { place, language: language.to_owned(), marks, text: String::new() });
        } else if let Some(mark) = code.strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(" -->")) {
            marks.push(mark.to_owned());
        } else {
            marks.clear();
        }
    }
    blocks
}

/// The pages with code blocks for users: the front page, everything in `docs/`, and the README of each crate and chart.
pub fn pages() -> Vec<(String, String)> {
    let mut pages: Vec<String> =
        ["README.md", "charts/lockgate/README.md", "crates/xds/README.md"].map(str::to_owned).into();
    let mut pending = vec!["docs".to_owned()];
    while let Some(directory) = pending.pop() {
        let entries = std::fs::read_dir(repository().join(&directory)).expect("a directory of pages");
        for entry in entries {
            let entry = entry.expect("an entry");
            let path = format!("{directory}/{}", entry.file_name().to_string_lossy());
            match entry.path() {
                inner if inner.is_dir() => pending.push(path),
                file if file.extension().is_some_and(|extension| extension == "md") => pages.push(path),
                _ => {}
            }
        }
    }
    pages.sort();
    let read = |page: String| {
        let text = std::fs::read_to_string(repository().join(&page)).expect("a page");
        (page, text)
    };
    pages.into_iter().map(read).collect()
}

/// Returns whether `actual` contains the `expected` lines in this order, with any lines between them. `...` in an
/// expected line matches any text, and spaces at the ends of lines are ignored.
pub fn shows(actual: &str, expected: &[String]) -> bool {
    let mut lines = actual.lines().map(str::trim_end);
    expected
        .iter()
        .map(|line| line.trim())
        .filter(|line| !line.is_empty())
        .all(|wanted| lines.any(|line| matches(line.trim_start(), wanted)))
}

fn matches(line: &str, wanted: &str) -> bool {
    let mut parts = wanted.split("...");
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = line.strip_prefix(first) else { return false };
    let mut ends_open = false;
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
        ends_open = part.is_empty();
    }
    rest.is_empty() || ends_open
}

/// Returns the path of the repository's file `name`.
pub fn file(name: &str) -> std::path::PathBuf {
    repository().join(Path::new(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_have_their_marks() {
        let text = "a\n<!-- file: a.yaml -->\n<!-- findings: X -->\n```yaml\na: 1\n```\n\n<!-- lost -->\ntext\n```text\nb\n```\n";
        let [first, second] = &blocks("p.md", text)[..] else { panic!("two blocks") };
        assert_eq!((first.mark("file:"), first.mark("findings:")), (Some("a.yaml"), Some("X")));
        assert_eq!((&*first.place, &*first.language, &*first.text), ("p.md:4", "yaml", "a: 1\n"));
        assert_eq!((second.marks.len(), &*second.text), (0, "b\n"));
    }

    #[test]
    fn a_block_in_a_list_has_no_indentation() {
        let [block] = &blocks("p.md", "1. a\n   ```console\n   $ a\n\n     b\n   ```\n")[..] else { panic!("a block") };
        assert_eq!(block.text, "$ a\n\n  b\n");
    }

    #[test]
    fn commands_end_where_nothing_continues_them() {
        let lines = |text: &str| commands(text).into_iter().map(|one| (one.line, one.output)).collect::<Vec<_>>();
        assert_eq!(lines("a \\\n  b\nc '\nd'\n").len(), 2);
        assert_eq!(lines("$ a\nx\ny\n$ b\n"), [("a".into(), vec!["x".into(), "y".into()]), ("b".into(), vec![])]);
    }

    #[test]
    fn output_may_have_more_lines_and_other_texts() {
        let shows = |actual: &str, expected: &[&str]| {
            super::shows(actual, &expected.iter().map(|&line| line.to_owned()).collect::<Vec<_>>())
        };
        assert!(shows("HTTP/1.1 301\r\ndate: x\r\nlocation: y\r\n", &["HTTP/1.1 301", "location: y"]));
        assert!(shows("a 17 b\n", &["a ... b"]) && shows("a 17\n", &["a ..."]));
        assert!(!shows("a\nb\n", &["b", "a"]) && !shows("ab\n", &["a"]));
    }
}

//! The same work for many things, on all cores: at the start there is everything to make, and nothing to answer yet.

use std::{panic, thread};

/// Fewer are done where they are: a thread costs as much as some of them. In tests a handful is many, so that what is
/// compared there has been done on all cores.
const MANY: usize = if cfg!(test) { 3 } else { 512 };

/// What `work` makes of each of `items`, in their order.
pub fn map<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    if items.len() < MANY {
        return items.iter().map(work).collect();
    }
    let cores = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let chunks = items.chunks(items.len().div_ceil(cores));
        let threads: Vec<_> = chunks.map(|chunk| scope.spawn(|| chunk.iter().map(&work).collect::<Vec<R>>())).collect();
        let results =
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(|fault| panic::resume_unwind(fault)));
        results.flatten().collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_that_of_the_items() {
        for size in [0, 1, MANY - 1, MANY, MANY + 1, 10 * MANY + 7] {
            let items: Vec<usize> = (0..size).collect();
            assert!(map(&items, |item| item + 1).into_iter().eq(1..=size), "{size}");
        }
    }
}

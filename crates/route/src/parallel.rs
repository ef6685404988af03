//! Parallel computation on all cores, for the initial translation of all objects.

use std::{panic, thread};

/// The number of items from which threads are used: a thread costs as much as several items. Tests use a small number,
/// so that they cover the parallel computation.
const MANY: usize = if cfg!(test) { 3 } else { 512 };

/// Applies `work` to all `items` and returns the results in their order.
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
    fn results_are_in_the_order_of_the_items() {
        for size in [0, 1, MANY - 1, MANY, MANY + 1, 10 * MANY + 7] {
            let items: Vec<usize> = (0..size).collect();
            assert!(map(&items, |item| item + 1).into_iter().eq(1..=size), "{size}");
        }
    }
}

//! Protocol cases.

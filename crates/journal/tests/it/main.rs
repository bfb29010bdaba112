//! System tests of the tail: every interleaving of a reader with commits, hints and failures, on virtual time.

mod endings;
mod lookout;
mod seam;
mod support;

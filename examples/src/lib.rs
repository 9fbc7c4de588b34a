//! The examples of the workspace.

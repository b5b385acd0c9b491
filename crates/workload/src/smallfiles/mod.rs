//! Create, copy, delete: many small files.

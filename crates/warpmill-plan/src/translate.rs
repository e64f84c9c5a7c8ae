//! DataFusion physical plans into programs.

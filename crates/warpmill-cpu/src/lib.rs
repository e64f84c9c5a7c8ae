//! warpmill-cpu

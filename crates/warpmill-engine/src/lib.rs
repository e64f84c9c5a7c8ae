//! warpmill-engine

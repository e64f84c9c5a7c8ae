//! warpmill-plan

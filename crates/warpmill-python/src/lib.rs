//! warpmill-python

//! NVIDIA GPUs through the CUDA driver and NVRTC, both loaded at run time.

//! The light encodings: values are decoded inside query kernels, any vector on its own.

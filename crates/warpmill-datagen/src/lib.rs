//! warpmill-datagen

"""Tests that other systems wrote, run through Warpmill's doors beside the systems themselves (docs/conformance.md)."""

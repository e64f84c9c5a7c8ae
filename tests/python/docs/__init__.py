"""The documents: their code runs, their links resolve, generated pages match the code."""

"""The documents: their code runs, their links lead somewhere, generated pages are those of the code."""

"""The evidence: from model files and seeds to docs/results.md."""

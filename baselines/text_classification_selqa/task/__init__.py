"""Text classification: which label, or which labels, a text or a pair of texts has."""

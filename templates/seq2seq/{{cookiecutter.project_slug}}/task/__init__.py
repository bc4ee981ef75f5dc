"""Seq2seq: generate one text from another, with a prefix language model or encoder and decoder."""

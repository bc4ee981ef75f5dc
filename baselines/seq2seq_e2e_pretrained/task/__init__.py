"""Seq2seq: write a text from a text, with a prefix language model or an encoder and decoder."""

"""``lm_dataset``: datasets for language models out of texts, or of a token file."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import Any, Literal

from fl_tensor.annotations import explained
from fl_text.corpus import as_texts
from fl_text.datasets.documents import Documents, check_context
from fl_text.datasets.packing import PackedDocuments
from fl_text.datasets.token_file import TokenFile
from fl_text.datasets.token_lines import TokenLines
from fl_text.datasets.token_stream import TokenStream
from fl_text.encoder import TextEncoder, check_encoder
from fl_text.errors import TextError

MODES = ("pack", "line", "documents")


@explained
def lm_dataset(
    texts: Iterable[str] | TokenFile,
    tokenizer: TextEncoder,
    context: int | None,
    mode: Literal["pack", "line", "documents"] = "pack",
    *,
    eos: bool = False,
    target_pad: int | None = None,
    columns: int = 1,
) -> TokenStream | TokenLines | PackedDocuments:
    """A dataset of `(input, target)` out of `texts` (`TextFiles(path)` for files, `PartialFile` for
    the part of a rank, `TokenFile` for tokens that stay in a file). `tokenizer` is a `Tokenizer` or
    another `TextEncoder`.

    "pack": all texts as one stream, with the end token after each if `eos`; no padding. `columns`
    as in `TokenStream`.
    "line": one sample for each text that is not blank, without its line break, from the beginning
    token (the end token where there is none) to the end token, padded to `context`, or where that
    is None to the longest of a batch.
    "documents": the same texts, several in a row of `context` tokens, as `PackedDocuments` says.

    A token file has the end tokens that it was written with. Raises `TextError` where that is not
    what `eos` asks for, or where another tokenizer has written it.
    """
    check_encoder(tokenizer, "lm_dataset")
    if mode not in MODES:
        raise TextError(f"[lm_dataset] unknown mode {mode!r}: use one of {MODES}")
    if context is None and mode != "line":
        raise TextError(f"[lm_dataset] context=None is for the mode 'line': {mode!r} needs one")
    if isinstance(texts, TokenFile):
        texts.check_tokenizer(tokenizer)
    if mode == "pack":
        check_context(context, "lm_dataset")
        stream = _stream(texts, tokenizer, eos)
        assert context is not None
        return TokenStream(stream, context, columns)
    documents, pad = _documents(texts, tokenizer), tokenizer.need("pad")
    if len(documents) == 0:
        raise TextError("[lm_dataset] every text is blank: give a corpus with some text")
    if mode == "line":
        return TokenLines(documents, context, pad, target_pad)
    assert context is not None
    return PackedDocuments(documents, context, pad, target_pad)


def _stream(texts: Iterable[str] | TokenFile, tokenizer: TextEncoder, eos: bool) -> Any:
    if isinstance(texts, TokenFile):
        if eos and not texts.eos:
            raise TextError(
                f"[lm_dataset] {texts.path} has no end token after each text: write it with "
                "eos=True, or leave eos out here"
            )
        return texts
    stream = array("q")
    for ids in tokenizer.encode_corpus(texts, eos=eos):
        stream.extend(ids)
    return stream


def _documents(texts: Iterable[str] | TokenFile, tokenizer: TextEncoder) -> Documents:
    """Each text from the beginning token to the end token."""
    first = tokenizer.need("eos") if tokenizer.bos_id is None else tokenizer.bos_id
    if isinstance(texts, TokenFile):
        return texts.framed(first, tokenizer.need("eos"))
    stripped = (text.rstrip("\r\n") for text in as_texts(texts, "lm_dataset") if text.strip())
    return Documents.gathered([first, *ids] for ids in tokenizer.encode_corpus(stripped, eos=True))

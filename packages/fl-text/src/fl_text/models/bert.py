"""BERT, with rename tables for published weights.

Devlin et al., BERT: pre-training of deep bidirectional transformers for language understanding,
2019.
"""

from __future__ import annotations

from typing import Any

import fl_nn as nn
import fl_tensor as ft
from fl_nn.rename import Ignore, Merge, Rule, Table, Tied
from fl_text.heads import FullSoftmax
from fl_text.models.checks import places_of


class BERT(nn.Module):
    """Tokens (N, T) give a vector for each, (N, T, size); `pool` makes one of a text of them.

    `layers` encoder layers, which normalise behind the sum, over at most `steps` tokens of
    `segments` kinds. The defaults are the base model, of 110 million parameters. Without `pooler`
    there is no `pool`.
    """

    def __init__(
        self,
        tokens: int = 30522,
        steps: int = 512,
        segments: int = 2,
        size: int = 768,
        heads: int = 12,
        layers: int = 12,
        hidden: int | None = None,
        dropout: float = 0.1,
        eps: float = 1e-12,
        pooler: bool = True,
    ) -> None:
        self.embedding = nn.Embedding(tokens, size)
        self.embedding.weight.tensor = self.embedding.weight.tensor * 0.02
        self.segments = nn.Embedding(segments, size)
        self.segments.weight.tensor = self.segments.weight.tensor * 0.02
        self.positions = nn.PositionEmbedding(steps, size)
        self.norm = nn.LayerNorm(size, eps)
        self.dropout = nn.Dropout(dropout)
        self.layers = [
            nn.TransformerEncoderLayer(size, heads, hidden or 4 * size, dropout, "gelu", eps)
            for _ in range(layers)
        ]
        self.pooler = nn.Linear(size, size) if pooler else None

    def forward(
        self,
        tokens: ft.Array,
        segments: ft.Array | None = None,
        key_mask: ft.Array | None = None,
        documents: ft.Array | None = None,
    ) -> ft.Array:
        """`segments` (N, T) are 0 unless given; `key_mask` (N, T) is False where a token is
        padding; `documents` as in `TransformerLanguageModel.hidden`."""
        before, mask = places_of("BERT", tokens, None, documents)
        kinds = ft.zeros_like(tokens) if segments is None else segments
        x = self.positions(self.embedding(tokens) + self.segments(kinds), before)
        x = self.dropout(self.norm(x))
        for layer in self.layers:
            x = layer(x, mask, key_mask)
        return x

    def pool(self, vectors: ft.Array) -> ft.Array:
        """One vector (N, size) for each text, from that of its first token."""
        if self.pooler is None:
            raise nn.ModuleError("[BERT] pool: this one was built with pooler=False")
        return ft.tanh(self.pooler(vectors[:, 0]))


class MaskedLM(nn.Module):
    """Scores (N, T, tokens) of what stands in each place, from a BERT with these `settings`. A
    `TokenNetwork`.

    tied       the output shares its matrix with the embedding; `output` is a Linear otherwise
    transform  a product, GELU and LayerNorm before the output, as the published models have them
    """

    def __init__(self, *, tied: bool = True, transform: bool = True, **settings: Any) -> None:
        self.bert = BERT(**settings, pooler=False)
        tokens, size = self.bert.embedding.weight.shape
        self.transform = nn.Linear(size, size) if transform else None
        self.norm = nn.LayerNorm(size, self.bert.norm.eps) if transform else None
        self.output = None if tied else nn.Linear(size, tokens)
        self.bias = nn.Parameter(ft.zeros((tokens,))) if tied else None

    @classmethod
    def bert_like(cls, **settings: Any) -> MaskedLM:
        """The BERT-like model of the Flashlight paper (Kahn et al., 2022), of 406 million
        parameters. The paper prints no settings; these are inferred from the number: 24 layers of
        1024 features and 16 heads, 50,265 tokens, 512 positions, an output of its own."""
        chosen = {"tokens": 50_265, "segments": 1, "size": 1024, "heads": 16, "layers": 24}
        return cls(tied=False, transform=False, **(chosen | settings))

    @property
    def head(self) -> FullSoftmax:
        """The output behind `hidden`, with the parameters that this network has."""
        if self.output is not None:
            assert self.output.bias is not None  # it is built with one
            return FullSoftmax.of(self.output, self.output.bias)
        assert self.bias is not None
        return FullSoftmax.of(self.bert.embedding, self.bias)

    def forward(self, tokens: ft.Array, **options: Any) -> ft.Array:
        """`options` as BERT's forward has them."""
        scores: ft.Array = self.head(self.hidden(tokens, **options))
        return scores

    def hidden(self, tokens: ft.Array, **options: Any) -> ft.Array:
        """Vectors (N, T, size), `options` as BERT's forward has them."""
        x: ft.Array = self.bert(tokens, **options)
        if self.transform is None or self.norm is None:
            return x
        y: ft.Array = self.norm(ft.gelu(self.transform(x)))
        return y


def _norm(theirs: str, ours: str) -> list[Rule]:
    # The oldest files, some of which are the published ones, have other names for scale and shift.
    return [
        Rule(f"{theirs}.{name}", f"{ours}.{own}")
        for name, own in (("weight",) * 2, ("bias",) * 2, ("gamma", "weight"), ("beta", "bias"))
    ]


def _encoder() -> Table:
    theirs, ours = "encoder.layer.{i}", "layers.{i}"
    return Table(
        Rule("embeddings.word_embeddings.weight", "embedding.weight"),
        Rule("embeddings.position_embeddings.weight", "positions.weight"),
        Rule("embeddings.token_type_embeddings.weight", "segments.weight"),
        *_norm("embeddings.LayerNorm", "norm"),
        Rule(
            [f"{theirs}.attention.self.{part}.{{p}}" for part in ("query", "key", "value")],
            f"{ours}.self_attn.in_proj_{{p}}",
            Merge(3),
        ),
        Rule(f"{theirs}.attention.output.dense.{{p}}", f"{ours}.self_attn.out_proj.{{p}}"),
        *_norm(f"{theirs}.attention.output.LayerNorm", f"{ours}.norm1"),
        Rule(f"{theirs}.intermediate.dense.{{p}}", f"{ours}.linear1.{{p}}"),
        Rule(f"{theirs}.output.dense.{{p}}", f"{ours}.linear2.{{p}}"),
        *_norm(f"{theirs}.output.LayerNorm", f"{ours}.norm2"),
        Ignore("embeddings.position_ids"),  # older files count the positions
    )


#: Files of transformers' BertModel.
BERT_HUGGING_FACE = Table(*_encoder().rules, Rule("pooler.dense.{p}", "pooler.{p}"))

#: Files of transformers' BertForMaskedLM and BertForPreTraining, for MaskedLM; what predicts the
#: next sentence has no place here.
MASKED_LM_HUGGING_FACE = Table(
    *_encoder().below("bert.", "bert.").rules,
    Rule("cls.predictions.transform.dense.{p}", "transform.{p}"),
    *_norm("cls.predictions.transform.LayerNorm", "norm"),
    Rule("cls.predictions.bias", "bias"),
    Tied("cls.predictions.decoder.weight", of="bert.embeddings.word_embeddings.weight"),
    Tied("cls.predictions.decoder.bias", of="cls.predictions.bias"),
    Ignore("bert.pooler.dense.{p}"),
    Ignore("cls.seq_relationship.{p}"),
)
